"""How much of what connections send is read and sent in one round of the event loop, counted in bytes."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator

import pytest
import trio

from rmqcli.broker.net.transport import (
    READ_SIZE,
    SEND_SIZE,
    SHORT_READ_SIZE,
    Buffer,
    SocketTransport,
    front,
    read_buffer,
)
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.connection import Connection
from rmqcli.codec.remoting.frame import encode_frame
from tests.broker.serving import ECHO, Client, echo, over_tcp, request
from tests.support import PATIENCE

CONNECTIONS = 16
FRAME = 2 << 20


class Rounds(trio.abc.Instrument):
    """Counts the rounds of the loop."""

    def __init__(self) -> None:
        self.number = 0

    def before_io_wait(self, timeout: float) -> None:
        self.number += 1


@pytest.fixture
def pairs() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    with near, far:
        yield near, far


async def test_of_those_who_send_much_one_is_read_in_each_round(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever they send; and who sends little is read in the round in which it comes."""
    rounds, long_reads = Rounds(), Counter[int]()
    read = Connection.receive

    def counted(self: Connection, data: bytes) -> list[RemotingCommand]:
        if len(data) > SHORT_READ_SIZE:
            long_reads[rounds.number] += 1
        return read(self, data)

    monkeypatch.setattr(Connection, "receive", counted)
    trio.lowlevel.add_instrument(rounds)
    connect, server = await over_tcp(nursery, {ECHO: echo})
    hogs, meek = [Client(connect()) for _ in range(CONNECTIONS)], Client(connect())
    half = encode_frame(request(body=bytes(FRAME)))[:-1]
    await meek.ask(request())
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as sending:
            for hog in hogs:
                sending.start_soon(hog.stream.send_all, half)
            for number in range(20):
                assert (await meek.ask(request(opaque=number))).opaque == number
        while sum(session.connection.buffered for session in server.sessions) < CONNECTIONS * len(half):
            await trio.lowlevel.checkpoint()
    trio.lowlevel.remove_instrument(rounds)
    assert sum(long_reads.values()) >= CONNECTIONS * FRAME // READ_SIZE // 2
    assert max(long_reads.values()) <= 2  # whose turn it was last goes on at once if it had to wait


async def test_so_much_is_sent_at_a_time_and_no_more(pairs: tuple[socket.socket, socket.socket]) -> None:
    near, far = pairs
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
    transport = SocketTransport(near, read_buffer())
    content = bytes(range(256)) * 1024
    buffers: list[Buffer] = [content, memoryview(content), content[:1000], content]
    expected, received = b"".join(buffers), bytearray()
    while buffers:
        sent = transport.send_now(buffers)
        assert sent <= SEND_SIZE
        while len(received) < len(expected) - sum(map(len, buffers)):
            received += far.recv(1 << 20)
    assert received == expected


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6])
def test_the_front_of_buffers(size: int) -> None:
    assert b"".join(front([b"ab", b"c", memoryview(b"def"), b"gh"], size)) == b"abcdefgh"[:size]
