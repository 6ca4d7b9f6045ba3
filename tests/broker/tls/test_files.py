"""Certificate and key files: forms of keys, errors at the start, changes while the server runs."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

import pytest
import trio
import trio.testing
from cryptography import x509
from cryptography.hazmat.primitives import serialization as pem

from rmqcli.broker.errors import ConfigError
from rmqcli.broker.net.tls.acceptor import WATCH_SECONDS, TlsAcceptor
from tests.broker.serving import request
from tests.broker.tls.support import TlsServer, in_place, tls_server
from tests.certificates import Certificates, rewrite_key

FORMS = (pem.PrivateFormat.PKCS8, pem.PrivateFormat.TraditionalOpenSSL)
"""PKCS#8, and PKCS#1 or its like for elliptic curves."""


async def served_certificate(server: TlsServer, certificates: Certificates) -> int:
    """The serial number of the certificate that a new connection sees."""
    client = server.tls(certificates.client())
    assert (await client.ask(request(body=b"x"))).body == b"x"
    return serial(ssl.DER_cert_to_PEM_cert(client.stream.getpeercert(binary_form=True)).encode())  # type: ignore[attr-defined]


def serial(certificate: bytes) -> int:
    return x509.load_pem_x509_certificate(certificate).serial_number


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("password", [None, "secret"])
async def test_forms_of_keys(
    nursery: trio.Nursery, certificates: Certificates, form: pem.PrivateFormat, password: str | None
) -> None:
    rewrite_key(certificates.pair("server")[1], form, password)
    more = {"keyPassword": password} if password else {}
    server = await tls_server(nursery, certificates.server(**more))
    assert await served_certificate(server, certificates)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("password", "said"), [(None, "is encrypted: set"), ("other", "check")])
async def test_an_encrypted_key_wants_its_password(
    certificates: Certificates, form: pem.PrivateFormat, password: str | None, said: str
) -> None:
    rewrite_key(certificates.pair("server")[1], form, "secret")
    entries = certificates.server(**({"keyPassword": password} if password else {}))
    with pytest.raises(
        ConfigError, match=rf"^tls\.server\.keyPath=.*server\.key: .*{said} tls\.server\.keyPassword$"
    ):
        await TlsAcceptor(entries, in_thread=in_place).load()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"mode": "strict"}, "tls.server.mode=strict: disabled or permissive or enforcing is expected"),
        ({"certPath": ""}, "tls.server.certPath is not set, it belongs to {0}/server.key"),
        ({"keyPath": ""}, "tls.server.keyPath is not set, it belongs to {0}/server.pem"),
        (
            {"certPath": "", "keyPath": ""},
            "needs a certificate: set tls.server.certPath and tls.server.keyPath",
        ),
        ({"certPath": "{0}/none.pem"}, "tls.server.certPath={0}/none.pem: No such file or directory"),
        ({"keyPath": "{0}"}, "tls.server.keyPath={0}: Is a directory"),
        ({"certPath": "{0}/server.key"}, "tls.server.certPath={0}/server.key: a PEM certificate is expected"),
        ({"keyPath": "{0}/server.pem"}, "tls.server.keyPath={0}/server.pem: a PEM private key is expected"),
        (
            {"keyPath": "{0}/client.key"},
            "tls.server.keyPath={0}/client.key: the key does not belong to {0}/server.pem",
        ),
        (
            {"certPath": "{0}/broken.pem"},
            "tls.server.certPath={0}/broken.pem: the certificate cannot be read: ",
        ),
        ({"keyPath": "{0}/broken.key"}, "tls.server.keyPath={0}/broken.key: the key cannot be read: "),
        ({"need_client_auth": "require"}, "needs the CA of the clients: set tls.server.trustCertPath"),
        ({"need_client_auth": "always"}, "none or optional or require is expected"),
        (
            {"need_client_auth": "optional", "trustCertPath": "{0}/broken.pem"},
            "tls.server.trustCertPath={0}/broken.pem: the certificate cannot be read: ",
        ),
    ],
)
async def test_a_server_does_not_start_with_settings_that_cannot_work(
    certificates: Certificates, changed: dict[str, str], said: str
) -> None:
    folder = certificates.folder
    (folder / "broken.pem").write_text("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
    (folder / "broken.key").write_text("-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n")
    entries = certificates.server(**{name: value.format(folder) for name, value in changed.items()})
    with pytest.raises(ConfigError) as caught:
        await TlsAcceptor(entries, in_thread=in_place).load()
    assert said.format(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_properties_file_counts_after_entries(
    nursery: trio.Nursery, certificates: Certificates, tmp_path: Path
) -> None:
    file = tmp_path / "tls.properties"
    file.write_text("".join(f"{name} = {value}\n" for name, value in certificates.server().items()))
    acceptor = TlsAcceptor(
        {"tls.config.file": str(file), "tls.server.mode": "permissive"}, in_thread=in_place
    )
    await acceptor.load()
    assert not acceptor.refuses_plain
    assert acceptor.is_watching
    assert acceptor.config.cert_path == str(certificates.pair("server")[0])


@pytest.mark.parametrize("order", [("pem", "key"), ("key", "pem")])
async def test_new_files_count_for_new_connections(
    nursery: trio.Nursery,
    certificates: Certificates,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
    order: tuple[str, str],
) -> None:
    """Certificate and key arrive one after the other: until both are there the old pair serves."""
    server = await tls_server(nursery, certificates.server())
    old = server.tls(certificates.client())
    await old.ask(request())
    before = await served_certificate(server, certificates)
    new = {}
    kept = {suffix: (certificates.folder / f"server.{suffix}").read_bytes() for suffix in order}
    certificates.issue("server", "127.0.0.1")
    for suffix in order:
        path = certificates.folder / f"server.{suffix}"
        new[suffix] = path.read_bytes()
        path.write_bytes(kept[suffix])
    await trio.sleep(3 * WATCH_SECONDS)
    first, second = order
    (certificates.folder / f"server.{first}").write_bytes(new[first] + b"\n")
    await trio.sleep(3 * WATCH_SECONDS)
    assert await served_certificate(server, certificates) == before
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    assert "does not belong" in errors[0]
    assert "new connections still get the previous certificate" in errors[0]
    (certificates.folder / f"server.{second}").write_bytes(new[second] + b"\n")
    await trio.sleep(3 * WATCH_SECONDS)
    assert await served_certificate(server, certificates) == serial(new["pem"]) != before
    assert (await old.ask(request(body=b"x"))).body == b"x"


async def test_a_file_that_disappears_keeps_the_old_certificate(
    nursery: trio.Nursery,
    certificates: Certificates,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = await tls_server(nursery, certificates.server())
    before = await served_certificate(server, certificates)
    certificates.pair("server")[1].unlink()
    await trio.sleep(10 * WATCH_SECONDS)
    assert await served_certificate(server, certificates) == before
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    certificates.issue("server", "127.0.0.1")
    await trio.sleep(3 * WATCH_SECONDS)
    assert await served_certificate(server, certificates) != before


async def test_the_ca_of_clients_and_the_policy_follow_their_files(
    nursery: trio.Nursery,
    certificates: Certificates,
    tmp_path: Path,
    autojump_clock: trio.testing.MockClock,
) -> None:
    file = tmp_path / "tls.properties"
    file.write_text(f"tls.server.trustCertPath={certificates.ca}\n")
    server = await tls_server(nursery, {**certificates.server(), "tls.config.file": str(file)})
    assert await served_certificate(server, certificates)
    file.write_text(f"tls.server.trustCertPath={certificates.ca}\ntls.server.need.client.auth=require\n")
    await trio.sleep(3 * WATCH_SECONDS)
    with pytest.raises(trio.BrokenResourceError):
        await server.tls(certificates.client()).ask(request())
    client = server.tls(certificates.client(with_certificate=True))
    assert (await client.ask(request(body=b"x"))).body == b"x"
