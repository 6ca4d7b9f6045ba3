"""The in-memory network: complete frames, ends of connections, addresses."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rmqcli.broker.testing.in_memory import MemoryNetwork
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.connection import Connection
from rmqcli.codec.remoting.frame import encode_frame

HOST, PORT = "127.0.0.1", 1
ASK, NEWS = 11, 40


class Listening:
    """A server whose end of the connection belongs to the test."""

    def __init__(self) -> None:
        self.stream: Any = None

    async def adopt(self, stream: trio.abc.Stream, peer: tuple[str, int]) -> None:
        self.stream = stream


def served(network: MemoryNetwork) -> Any:
    server: Any = Listening()
    network.listen(HOST, PORT).serve_with(server)
    return server


async def answer(address: str, request: RemotingCommand) -> RemotingCommand | None:
    assert address == f"{HOST}:{PORT}"
    return request.reply(0, "from the test") if request.code == ASK else None


async def test_a_reply_is_not_sent_inside_a_frame(nursery: trio.Nursery) -> None:
    network = MemoryNetwork(nursery, answer)
    server = served(network)
    ours = await network.open_stream(HOST, PORT)
    frame = encode_frame(RemotingCommand(NEWS, {"consumerGroup": "G"}, b"body", 5))
    await server.stream.send_all(frame[:7])
    await ours.send_all(encode_frame(RemotingCommand(ASK, None, b"", 77)))
    await wait_all_tasks_blocked()
    await server.stream.send_all(frame[7:])
    await wait_all_tasks_blocked()
    got = Connection().receive(bytes(await ours.receive_some()))
    assert [(command.opaque, bytes(command.body)) for command in got] == [(77, b""), (5, b"body")]


async def test_requests_in_pieces_and_many_together(nursery: trio.Nursery) -> None:
    heard: list[int] = []

    async def hear(address: str, request: RemotingCommand) -> None:
        heard.append(request.opaque)

    network = MemoryNetwork(nursery, hear)
    server = served(network)
    ours = await network.open_stream(HOST, PORT)
    data = b"".join(encode_frame(RemotingCommand(ASK, None, b"x" * number, number)) for number in range(20))
    for start in range(200):
        await ours.send_all(data[start : start + 1])
    await ours.send_all(data[200:])
    await wait_all_tasks_blocked()
    assert bytes(await server.stream.receive_some()) == data
    assert heard == list(range(20))


@pytest.mark.parametrize("hears", [False, True])
async def test_each_side_sees_the_other_close(nursery: trio.Nursery, hears: bool) -> None:
    network = MemoryNetwork(nursery, answer if hears else None)
    server = served(network)
    ours = await network.open_stream(HOST, PORT)
    await ours.aclose()
    assert await server.stream.receive_some() == b""
    ours = await network.open_stream(HOST, PORT)
    await server.stream.aclose()
    assert await ours.receive_some() == b""


async def test_bytes_that_are_not_a_frame_pass(nursery: trio.Nursery) -> None:
    network = MemoryNetwork(nursery, answer)
    server = served(network)
    ours = await network.open_stream(HOST, PORT)
    await ours.send_all(b"\0\0\0\2xy")
    assert bytes(await server.stream.receive_some()) == b"\0\0\0\2xy"


async def test_addresses(nursery: trio.Nursery) -> None:
    network = MemoryNetwork(nursery)
    with pytest.raises(ConnectionRefusedError):
        await network.open_stream(HOST, PORT)
    listener = network.listen(HOST, PORT)
    with pytest.raises(ConnectionRefusedError):  # nobody serves there yet
        await network.open_stream(HOST, PORT)
    with pytest.raises(OSError, match="in use"):
        network.listen(HOST, PORT)
    listener.close()
    listener.close()
    network.listen(HOST, PORT)
