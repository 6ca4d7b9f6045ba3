"""TLS of the client over sockets and in memory: bytes in order, whatever the kernel takes, and the end."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest
import trio
import trio.testing

from rmqcli.client.wire.link import Outbox
from rmqcli.client.wire.streams import DirectStream, Stream, TcpStream
from rmqcli.client.wire.tls_stream import TlsStream, tls_stream
from rmqcli.codec.errors import TlsError
from tests.certificates import Certificates, make_certificates

Pair = tuple[TlsStream, "trio.SSLStream[trio.abc.Stream]"]


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return make_certificates(tmp_path / "tls")


async def shaken(certificates: Certificates, near: Stream, far: trio.abc.Stream) -> Pair:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificates.pair("server"))
    client = tls_stream(near, certificates.client(), "127.0.0.1")
    server = trio.SSLStream(far, context, server_side=True, https_compatible=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.do_handshake)
        nursery.start_soon(server.do_handshake)
    return client, server


async def over_sockets(certificates: Certificates) -> Pair:
    near, far = socket.socketpair()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    streams = [trio.SocketStream(trio.socket.from_stdlib_socket(one)) for one in (near, far)]
    return await shaken(certificates, TcpStream(streams[0]), streams[1])


async def test_frames_arrive_whole_and_in_order(nursery: trio.Nursery, certificates: Certificates) -> None:
    """The kernel takes only a part of what is written without waiting: the writer sends the rest."""
    client, server = await over_sockets(certificates)
    assert isinstance(client, DirectStream)
    outbox = Outbox(client)
    nursery.start_soon(outbox.run)
    await trio.testing.wait_all_tasks_blocked()
    frames = [bytes((number,)) * size for number, size in enumerate((10, 300_000, 1, 70_000, 0, 500_000, 7))]
    for number, frame in enumerate(frames):
        outbox.put(frame, alone=number % 2 == 0)
    expected, received = b"".join(frames), b""
    while len(received) < len(expected):
        received += bytes(await server.receive_some(65536))
    assert received == expected


@pytest.mark.parametrize("politely", [True, False])
async def test_the_end(certificates: Certificates, politely: bool) -> None:
    """Servers of Java often leave without a last message of TLS."""
    client, server = await over_sockets(certificates)
    await server.send_all(b"last words")
    await (server.aclose() if politely else server.transport_stream.aclose())
    received = b""
    while data := await client.receive_some():
        received += data
    assert received == b"last words"
    with trio.testing.assert_checkpoints():  # a reader that goes on has to be cancelled
        assert await client.receive_some() == b""
    await client.aclose()


async def test_a_stream_that_cannot_write_at_once(certificates: Certificates) -> None:
    near, far = trio.testing.memory_stream_pair()
    client, server = await shaken(certificates, near, far)
    assert not isinstance(client, DirectStream)
    assert client.send_now(b"x") == 0
    await client.send_all(b"hello")
    assert await server.receive_some() == b"hello"


async def test_garbage_instead_of_records(certificates: Certificates) -> None:
    client, server = await over_sockets(certificates)
    await server.transport_stream.send_all(b"\x17\x03\x03\x00\x20" + bytes(32))
    with pytest.raises(TlsError):
        await client.receive_some()


async def test_a_peer_that_leaves_during_the_handshake(certificates: Certificates) -> None:
    near, far = trio.testing.memory_stream_pair()
    client = tls_stream(near, certificates.client(), "127.0.0.1")
    await far.send_stream.aclose()
    with pytest.raises(TlsError, match="ended the TLS handshake"):
        await client.do_handshake()


async def test_a_server_that_never_ends_the_handshake(certificates: Certificates) -> None:
    near, far = trio.testing.memory_stream_pair()
    client = tls_stream(near, certificates.client(), "127.0.0.1")

    async def endless() -> None:
        with pytest.raises(trio.BrokenResourceError):
            while True:
                await far.send_all(b"\x16\x03\x03\x40\0" + bytes(16_384))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(endless)
        with pytest.raises(TlsError, match="handshake is too long"):
            await client.do_handshake()
        await near.aclose()
