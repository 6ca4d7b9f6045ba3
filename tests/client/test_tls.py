"""The TLS settings of a client as a value, and errors of connections that depend on TLS."""

from __future__ import annotations

import pickle
import ssl
from functools import partial
from pathlib import Path

import pytest
import trio.testing
from cryptography.hazmat.primitives import serialization as pem

from rmqcli.broker.testing.in_memory import embedded_in_memory
from rmqcli.client import Admin, ConnectionFailed, ConnectionLost, InvalidRequest, Producer, Tls, TlsProblem
from rmqcli.codec.message import Message
from tests.certificates import Certificates, make_certificates, rewrite_key
from tests.support import PATIENCE


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return make_certificates(tmp_path / "tls")


def test_settings_are_a_value_that_travels_and_hides_its_password(certificates: Certificates) -> None:
    """Tasks of Spark get them."""
    settings = Tls(ca=certificates.ca, certificate="c.pem", key="c.key", key_password="secret")
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert "secret" not in repr(settings)


def test_contexts(certificates: Certificates) -> None:
    checking = Tls(ca=certificates.ca).context()
    assert (checking.verify_mode, checking.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert checking.minimum_version == ssl.TLSVersion.TLSv1_2
    like_java = Tls(ca=certificates.ca, check_host=False).context()
    assert (like_java.verify_mode, like_java.check_hostname) == (ssl.CERT_REQUIRED, False)
    trusting = Tls(check=False).context()
    assert (trusting.verify_mode, trusting.check_hostname) == (ssl.CERT_NONE, False)
    assert Tls().context().verify_mode == ssl.CERT_REQUIRED


@pytest.mark.parametrize("form", [pem.PrivateFormat.PKCS8, pem.PrivateFormat.TraditionalOpenSSL])
def test_an_encrypted_key(certificates: Certificates, form: pem.PrivateFormat) -> None:
    certificate, key = certificates.pair("client")
    rewrite_key(key, form, "secret")
    Tls(certificate=certificate, key=key, key_password="secret").context()
    for password in (None, "other"):
        with pytest.raises(InvalidRequest, match="not PEM, or another password"):
            Tls(certificate=certificate, key=key, key_password=password).context()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (Tls(ca="none.pem"), "TLS CA none.pem: No such file or directory"),
        (Tls(certificate="none.pem"), "TLS certificate or key none.pem: No such file or directory"),
        (Tls(key="none.key"), "TLS key none.key has no certificate"),
    ],
)
def test_files_that_cannot_be_used(settings: Tls, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        Producer("g", namesrv="127.0.0.1:1", tls=settings)


async def test_a_value_works_over_streams_in_memory(
    certificates: Certificates, autojump_clock: trio.testing.MockClock
) -> None:
    settings = Tls(ca=certificates.ca)
    async with embedded_in_memory(tls=certificates.server("permissive")) as cluster:
        for tls in (settings, None):
            async with Producer("g", **cluster.client() | {"tls": tls}) as producer:
                await producer.send(Message(topic="t", body=b"x"))


@pytest.mark.parametrize(
    ("tls", "mode", "problem"),
    [
        (Tls(), "enforcing", TlsProblem.CERTIFICATE),
        (Tls(check=False), "disabled", TlsProblem.NOT_TLS),
    ],
)
async def test_errors_name_their_problem(
    certificates: Certificates,
    autojump_clock: trio.testing.MockClock,
    tls: Tls,
    mode: str,
    problem: TlsProblem,
) -> None:
    entries = certificates.server(mode)
    async with (
        embedded_in_memory(tls=entries) as cluster,
        Admin(**cluster.client() | {"tls": tls}) as admin,
    ):
        with pytest.raises(ConnectionFailed) as caught:
            await admin.topics.names()
        assert caught.value.problem is problem


async def test_a_server_that_closes_plain_connections_may_want_tls(nursery: trio.Nursery) -> None:
    async def close(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.aclose()

    listeners = await nursery.start(partial(trio.serve_tcp, close, 0, host="127.0.0.1"))
    address = f"127.0.0.1:{listeners[0].socket.getsockname()[1]}"
    async with Admin(namesrv=address, timeout=PATIENCE) as admin:
        with pytest.raises(ConnectionLost) as caught:
            await admin.invoke(address, 26)
        assert caught.value.problem is TlsProblem.TLS_WANTED
