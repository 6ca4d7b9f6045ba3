"""TLS and plain connections to one port, by mode; client certificates; protocols."""

from __future__ import annotations

import logging
import ssl

import pytest
import trio

from rmqcli.broker.testing.in_memory import embedded_in_memory
from rmqcli.client import Admin, Producer
from rmqcli.codec.message import Message
from tests.broker.serving import ECHO, Client, echo, over_tcp, request
from tests.broker.tls.support import tls_server
from tests.certificates import Certificates


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_tls_and_plain_share_a_port(
    nursery: trio.Nursery, certificates: Certificates, version: ssl.TLSVersion
) -> None:
    server = await tls_server(nursery, certificates.server("permissive"))
    context = certificates.client()
    context.minimum_version = context.maximum_version = version
    secured = server.tls(context)
    assert (await secured.ask(request(body=b"x" * 500_000))).body == b"x" * 500_000
    assert (await Client(server.plain()).ask(request(body=b"y"))).body == b"y"
    (session,) = [one for one in server.server.sessions if type(one.transport).__name__ == "TlsTransport"]
    await secured.stream.aclose()
    await trio.testing.wait_all_tasks_blocked()
    assert session.closed


async def test_versions_before_1_2_are_refused(nursery: trio.Nursery, certificates: Certificates) -> None:
    server = await tls_server(nursery, certificates.server())
    context = certificates.client()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with pytest.raises(trio.BrokenResourceError):
        await server.stream(context).do_handshake()


async def test_an_enforcing_server_closes_plain_connections(
    nursery: trio.Nursery, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rmqcli.broker")
    server = await tls_server(nursery, certificates.server("Enforcing"))
    plain = Client(server.plain())
    await plain.send(request())
    assert await plain.is_closed()
    assert "does not speak TLS, which is required" in caplog.text
    assert (await server.tls(certificates.client()).ask(request(body=b"x"))).body == b"x"


@pytest.mark.parametrize("mode", ["disabled", "permissive"])
async def test_tls_without_certificate_is_refused_with_the_reason(
    nursery: trio.Nursery, certificates: Certificates, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    caplog.set_level(logging.INFO, "rmqcli.broker")
    server = await tls_server(nursery, {"tls.server.mode": mode})
    with pytest.raises(trio.BrokenResourceError):
        await server.stream(certificates.client()).do_handshake()
    assert "speaks TLS, which is not accepted: tls.server" in caplog.text
    assert (await Client(server.plain()).ask(request(body=b"x"))).body == b"x"


@pytest.mark.parametrize(
    ("policy", "with_certificate", "served"),
    [
        ("none", False, True),
        ("optional", False, True),
        ("optional", True, True),
        ("Require", False, False),
        ("Require", True, True),
    ],
)
async def test_client_certificates(
    nursery: trio.Nursery, certificates: Certificates, policy: str, with_certificate: bool, served: bool
) -> None:
    more = {"need_client_auth": policy, "trustCertPath": str(certificates.ca)}
    server = await tls_server(nursery, certificates.server(**more))
    client = server.tls(certificates.client(with_certificate=with_certificate))
    if served:
        assert (await client.ask(request(body=b"x"))).body == b"x"
    else:
        with pytest.raises(trio.BrokenResourceError):
            await client.ask(request())


async def test_an_unknown_client_certificate_is_refused_even_when_it_is_optional(
    nursery: trio.Nursery, certificates: Certificates
) -> None:
    import trustme

    more = {"need_client_auth": "optional", "trustCertPath": str(certificates.ca)}
    server = await tls_server(nursery, certificates.server(**more))
    certificates.issue("client", "stranger@example.org", by=trustme.CA())
    with pytest.raises(trio.BrokenResourceError):
        await server.tls(certificates.client(with_certificate=True)).ask(request())


async def test_a_cluster_in_memory_registers_and_serves_over_tls(
    certificates: Certificates, autojump_clock: trio.testing.MockClock
) -> None:
    """An enforcing broker registers by TLS without being told."""
    async with embedded_in_memory(tls=certificates.server()) as cluster:
        options = cluster.client() | {"tls": certificates.client()}
        async with Producer("g", **options) as producer:
            assert (await producer.send(Message(topic="t", body=b"x"))).queue_offset == 0
        async with Admin(**options) as admin:
            assert list(await admin.brokers.seats()) == [cluster.broker_name]


async def test_a_cluster_that_refuses_tls_does_not_ask_itself_by_tls(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with embedded_in_memory(tls={"tls.enable": "true"}) as cluster, Admin(**cluster.client()) as admin:
        assert list(await admin.brokers.seats()) == [cluster.broker_name]


async def test_large_replies_leave_over_sockets(nursery: trio.Nursery, certificates: Certificates) -> None:
    """More than the kernel takes at once, so that the rest waits, encrypted, for the reader."""
    from rmqcli.broker.net.tls.acceptor import TlsAcceptor

    acceptor = TlsAcceptor(certificates.server())
    await acceptor.load()
    connect, _ = await over_tcp(nursery, {ECHO: echo}, tls=acceptor)
    stream = trio.SSLStream(connect(), certificates.client(), server_hostname="127.0.0.1")
    client = Client(stream)
    body = bytes(range(256)) * 4096
    nursery.start_soon(client.send, *(request(opaque=number, body=body) for number in range(8)))
    for number in range(8):
        reply = await client.next()
        assert (reply.opaque, reply.body == body) == (number, True)
