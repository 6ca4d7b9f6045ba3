"""One client must not stall the others: the work between two turns of the event loop is bounded."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from broker.net.dispatch import REPLIES_PER_WRITE
from broker.net.server import LONG_PIECE, Server
from broker.net.session import Session
from broker.net.turns import TURN_SECONDS, Turns
from codec.remoting.connection import Connection
from codec.remoting.frame import RemotingCommand
from tests.broker.serving import ECHO, Client, in_memory, request

LAST = 9


async def _connected(server: Server) -> Client:
    near, far = trio.testing.memory_stream_pair()
    await server.adopt(far, ("127.0.0.1", 1))
    return Client(near)


async def test_long_work_of_many_takes_turns(mock_clock: trio.testing.MockClock) -> None:
    """In each round of the loop one of them goes on, and whoever came first is the first again."""
    turns, order, rounds = Turns(), [], []
    round_number = 0

    async def work(name: int) -> None:
        pace = turns.pace()
        for _ in range(4):
            mock_clock.jump(TURN_SECONDS)
            await pace.step()
            order.append(name)
            rounds.append(round_number)
        assert pace.waits == 4

    async def count_rounds() -> None:
        nonlocal round_number
        while True:
            await trio.lowlevel.checkpoint()
            round_number += 1

    async with trio.open_nursery() as counting:
        counting.start_soon(count_rounds)
        async with trio.open_nursery() as working:
            for name in range(3):
                working.start_soon(work, name)
        counting.cancel_scope.cancel()
    assert order == order[:3] * 4
    assert len(rounds) == 12
    assert max(rounds.count(number) for number in rounds) <= 2  # tasks of one round run in any order


async def test_who_gives_up_waiting_lets_the_next_go_on(mock_clock: trio.testing.MockClock) -> None:
    turns = Turns()
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(turns.next)
        nursery.cancel_scope.cancel()
    with trio.fail_after(1):
        await turns.next()


async def test_many_requests_of_one_connection_leave_room_for_another(
    nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    """With requests that cost a turn, another connection waits for as many as one write has replies."""
    handled: list[int] = []

    def costly(_session: Session, command: RemotingCommand) -> RemotingCommand:
        handled.append(command.opaque)
        mock_clock.jump(TURN_SECONDS)
        return command.reply(0)

    server = await nursery.start(Server({ECHO: costly}).serve)
    hog, meek = [await _connected(server) for _ in range(2)]
    await hog.send(*(request(opaque=n) for n in range(10, 10 + 20 * REPLIES_PER_WRITE)))
    await meek.send(request(opaque=LAST))
    await meek.next()
    assert handled.index(LAST) <= 4 * REPLIES_PER_WRITE


async def test_after_a_long_turn_frames_are_decoded_in_pieces(
    nursery: trio.Nursery, mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    receive = Connection.receive

    def counted(self: Connection, data: bytes) -> list[RemotingCommand]:
        sizes.append(len(data))
        return receive(self, data)

    def costly(_session: Session, command: RemotingCommand) -> RemotingCommand:
        mock_clock.jump(TURN_SECONDS)
        return command.reply(0)

    monkeypatch.setattr(Connection, "receive", counted)
    client, _ = await in_memory(nursery, {ECHO: costly})
    frames = [request(opaque=n, body=bytes(4000)) for n in range(60)]
    for _ in range(2):
        del sizes[:]
        await client.send(*frames)
        for _ in frames:
            await client.next()
    server_sizes = [size for size in sizes if size > 8000]
    assert max(server_sizes) == LONG_PIECE
