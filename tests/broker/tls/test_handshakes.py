"""Handshakes that stop, drag on, are too many, or are no handshakes; others are served meanwhile."""

from __future__ import annotations

import logging
import os
import ssl
import subprocess
from collections.abc import Callable

import pytest
import trio
import trio.testing

from rmqcli.broker.net.tls.acceptor import TlsAcceptor
from rmqcli.codec.remoting.tls import HANDSHAKE_BYTES, TlsConnection
from tests.broker.serving import ECHO, Client, echo, over_tcp, request
from tests.broker.tls.support import TlsServer, in_place, tls_server
from tests.certificates import Certificates


def client_hello(context: ssl.SSLContext) -> bytes:
    """The first bytes of a client."""
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


async def is_served(server: TlsServer, certificates: Certificates) -> bool:
    reply = await server.tls(certificates.client()).ask(request(body=b"x"))
    return reply.body == b"x"


async def test_a_handshake_that_stops_ends_after_ten_seconds(
    nursery: trio.Nursery,
    certificates: Certificates,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "rmqcli.broker")
    server = await tls_server(nursery, certificates.server())
    half = Client(server.plain())
    await half.stream.send_all(client_hello(certificates.client()))
    start = trio.current_time()
    assert await is_served(server, certificates)
    assert await half.is_closed_after_reading()
    assert trio.current_time() - start == pytest.approx(10)
    assert "its TLS handshake took more than 10 s" in caplog.text
    await trio.testing.wait_all_tasks_blocked()
    assert len(server.server.sessions) == 1


async def test_a_byte_from_time_to_time_makes_it_no_longer(
    nursery: trio.Nursery, certificates: Certificates, autojump_clock: trio.testing.MockClock
) -> None:
    server = await tls_server(nursery, certificates.server())
    drip = server.plain()
    with pytest.raises(trio.BrokenResourceError):
        for byte in client_hello(certificates.client()):
            await drip.send_all(bytes((byte,)))
            await trio.sleep(1)
    assert trio.current_time() < 13


async def test_the_oldest_of_too_many_unfinished_handshakes_ends(
    nursery: trio.Nursery,
    certificates: Certificates,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "rmqcli.broker")
    server = await tls_server(nursery, certificates.server(), most_handshakes=3)
    hello = client_hello(certificates.client())
    halves = [Client(server.plain()) for _ in range(5)]
    for half in halves:
        await half.stream.send_all(hello)
        await trio.testing.wait_all_tasks_blocked()
    assert len(server.server.sessions) == 3
    assert "made room: 3 were unfinished" in caplog.text
    assert await is_served(server, certificates)
    assert trio.current_time() < 1
    assert await halves[0].is_closed_after_reading()
    assert not any("took more than" in record.getMessage() for record in caplog.records)


HOSTILE: dict[str, Callable[[bytes], bytes]] = {
    "truncated hello": lambda hello: hello[: len(hello) // 2],
    "garbage after the type": lambda _: b"\x16" + b"\xff" * 64,
    "half a record head": lambda _: b"\x16\x03\x01",
    "a record of another type": lambda hello: hello[:5] + b"\x02" + hello[6:],
    "lengths inside that do not fit": lambda hello: hello[:6] + b"\xff\xff\xff" + hello[9:],
    "hello without an end": lambda _: b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + b"\0" * 16_384,
    "plain frame after the hello": lambda hello: hello + b"\0\0\0\x10" * 32,
    "alert first": lambda _: b"\x16\x03\x01\0\x02\x02\x28",
}


@pytest.mark.parametrize("made", HOSTILE.values(), ids=HOSTILE.keys())
async def test_hostile_handshakes_end_and_others_are_served(
    nursery: trio.Nursery,
    certificates: Certificates,
    autojump_clock: trio.testing.MockClock,
    made: Callable[[bytes], bytes],
) -> None:
    server = await tls_server(nursery, certificates.server())
    hostile = Client(server.plain())
    await hostile.stream.send_all(made(client_hello(certificates.client())))
    assert await is_served(server, certificates)
    assert await hostile.is_closed_after_reading()
    assert trio.current_time() <= 11


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_no_step_of_a_handshake_runs_in_the_loop(
    nursery: trio.Nursery,
    certificates: Certificates,
    monkeypatch: pytest.MonkeyPatch,
    version: ssl.TLSVersion,
) -> None:
    """Which step is costly is the peer's choice: its curve, a second hello, its certificate."""
    works, steps = [False], list[bool]()
    step = TlsConnection.shake

    async def in_worker(function: Callable[..., object], *arguments: object) -> object:
        works.append(True)
        try:
            return await in_place(function, *arguments)
        finally:
            works.pop()

    def counted(connection: TlsConnection, data: bytes) -> bool:
        steps.append(works[-1])
        return step(connection, data)

    monkeypatch.setattr(TlsConnection, "shake", counted)
    more = {"need_client_auth": "require", "trustCertPath": str(certificates.ca)}
    acceptor = TlsAcceptor(certificates.server(**more), in_thread=in_worker)
    await acceptor.load()
    server = TlsServer(nursery, acceptor)
    await nursery.start(server.server.serve)
    context = certificates.client(with_certificate=True)
    context.maximum_version = version
    assert (await server.tls(context).ask(request(body=b"x"))).body == b"x"
    assert len(steps) >= 2 and all(steps)


async def test_a_peer_that_never_ends_its_handshake_is_bounded(
    nursery: trio.Nursery, certificates: Certificates, autojump_clock: trio.testing.MockClock
) -> None:
    server = await tls_server(nursery, certificates.server())
    hostile = server.plain()
    record = b"\x16\x03\x01\x40\x00" + b"\0" * 16_384  # hello requests of no length, which TLS ignores
    sent = 0
    with pytest.raises(trio.BrokenResourceError):
        while sent < 4 * HANDSHAKE_BYTES:
            await hostile.send_all(record)
            sent += len(record)
            await trio.testing.wait_all_tasks_blocked()
    assert sent <= 2 * HANDSHAKE_BYTES


async def test_random_bytes_after_the_handshake_end_that_connection_only(
    nursery: trio.Nursery, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rmqcli.broker")
    server = await tls_server(nursery, certificates.server())
    good = server.tls(certificates.client())
    raw = server.plain()
    secured = trio.SSLStream(raw, certificates.client(), server_hostname="127.0.0.1")
    assert (await Client(secured).ask(request(body=b"x"))).body == b"x"
    await raw.send_all(b"\x17\x03\x03\x00\x40" + os.urandom(64))
    assert await Client(raw).is_closed_after_reading()
    assert (await good.ask(request(body=b"x"))).body == b"x"
    assert "TLS: decryption failed" in caplog.text


async def test_half_a_record_waits_and_the_connection_ends_when_it_is_silent(
    nursery: trio.Nursery, certificates: Certificates, autojump_clock: trio.testing.MockClock
) -> None:
    server = await tls_server(nursery, certificates.server())
    raw = server.plain()
    secured = trio.SSLStream(raw, certificates.client(), server_hostname="127.0.0.1")
    await Client(secured).ask(request(body=b"x"))
    await raw.send_all(b"\x17\x03\x03\x40")
    assert await is_served(server, certificates)
    assert await Client(raw).is_closed_after_reading()
    assert 120 <= trio.current_time() <= 131


async def test_records_that_come_byte_by_byte(nursery: trio.Nursery, certificates: Certificates) -> None:
    server = await tls_server(nursery, certificates.server())
    near, far = trio.testing.memory_stream_pair()
    raw = server.plain()

    async def forward(source: trio.abc.Stream, target: trio.abc.Stream, size: int) -> None:
        async for data in source:
            for start in range(0, len(data), size):
                await target.send_all(data[start : start + size])

    nursery.start_soon(forward, far, raw, 1)
    nursery.start_soon(forward, raw, far, 1 << 20)
    client = Client(trio.SSLStream(near, certificates.client(), server_hostname="127.0.0.1"))
    assert (await client.ask(request(body=b"x" * 100))).body == b"x" * 100


async def test_renegotiation_is_refused(nursery: trio.Nursery, certificates: Certificates) -> None:
    """Each would cost the server another signature. Python has no call to ask for one, openssl has."""
    acceptor = TlsAcceptor(certificates.server())
    await acceptor.load()
    connect, _ = await over_tcp(nursery, {ECHO: echo}, tls=acceptor)
    probe = connect()
    assert isinstance(probe, trio.SocketStream)
    async with probe:
        address = "{}:{}".format(*probe.socket.getpeername())
    said = await trio.to_thread.run_sync(_renegotiating, address)
    assert "RENEGOTIATING" in said
    assert "no renegotiation" in said


def _renegotiating(address: str) -> str:
    """All that a client of openssl prints until the connection ends."""
    command = ["openssl", "s_client", "-connect", address, "-tls1_2"]
    output = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=output, stdout=output, stderr=subprocess.STDOUT, text=True
    ) as client:
        assert client.stdin is not None and client.stdout is not None
        client.stdin.write("R\n")
        client.stdin.flush()
        return client.stdout.read()
