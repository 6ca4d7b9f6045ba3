"""One client must not stall the others: the work between two turns of the event loop is bounded."""

from __future__ import annotations

import gc
import weakref
from itertools import pairwise

import pytest
import trio
import trio.testing

from rmqcli.broker.errors import NotReady
from rmqcli.broker.net.dispatch import REPLIES_PER_WRITE
from rmqcli.broker.net.server import Server
from rmqcli.broker.net.session import COMMANDS_AT_ONCE, Session
from rmqcli.broker.net.turns import (
    EMPTIED_PER_STEP,
    TURN_SECONDS,
    Job,
    Jobs,
    LongWork,
    Pace,
    Steps,
    Turns,
    emptied_on_error,
)
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.connection import Connection
from tests.broker.serving import ECHO, Client, in_memory, request

LAST = 9
STEPS = 2001
ROUND_TRIP = 10
"""Rounds of the loop in which a request and its reply pass through the streams of a test."""


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


@pytest.mark.parametrize("workers", [1, 3])
async def test_what_arrives_during_a_turn_goes_before_the_next_turn(
    workers: int, mock_clock: trio.testing.MockClock
) -> None:
    """Tasks of one round run in any order, so the next turn may not be in the round of the request."""
    turns, begun = Turns(), 0
    late: list[int] = []
    arrived = trio.Event()

    async def work() -> None:
        nonlocal begun
        pace = turns.pace()
        await pace.next()
        for _ in range(100):
            begun += 1
            arrived.set()
            mock_clock.jump(TURN_SECONDS)
            await pace.step()

    async def handle_requests() -> None:
        nonlocal arrived
        while True:
            before = begun
            await arrived.wait()
            arrived = trio.Event()
            late.append(begun - before)

    async with trio.open_nursery() as handling:
        handling.start_soon(handle_requests)
        async with trio.open_nursery() as working:
            for _ in range(workers):
                working.start_soon(work)
        handling.cancel_scope.cancel()
    assert late == [1] * (100 * workers)


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
    """With requests that cost a turn, another connection waits for a few of them."""
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
    assert handled.index(LAST) <= ROUND_TRIP


async def test_few_frames_are_decoded_before_the_first_of_them_is_handled(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []
    handled: list[int] = []
    ahead: list[int] = []
    read = Connection._read_frames

    def counted(self: Connection, data: bytes, position: int, commands: list[RemotingCommand]) -> None:
        read(self, data, position, commands)
        if commands and commands[0].code == ECHO:
            decoded.extend(command.opaque for command in commands)
            ahead.append(len(decoded) - len(handled))

    def handle(_session: Session, command: RemotingCommand) -> None:
        handled.append(command.opaque)

    monkeypatch.setattr(Connection, "_read_frames", counted)
    client, _ = await in_memory(nursery, {ECHO: handle})
    await client.send(*(request(opaque=n) for n in range(500)))
    await trio.testing.wait_all_tasks_blocked()
    assert handled == decoded == list(range(500))
    assert max(ahead) == COMMANDS_AT_ONCE


class Hogs:
    """Connections with more work than can be done; every call and every step costs a turn, and is counted."""

    def __init__(self, nursery: trio.Nursery, clock: trio.testing.MockClock) -> None:
        self.calls = 0
        self._clock = clock
        self._nursery = nursery
        self.turns = Turns()
        self.jobs = Jobs(self.turns)
        self.server = Server({ECHO: self._call, STEPS: self._steps}, turns=self.turns)

    async def start(self, kind: str, count: int) -> Client:
        """Begins with the work of one kind; returns a connection with other intentions."""
        await self._nursery.start(self.server.serve)
        self._nursery.start_soon(self.jobs.run)
        for _ in range(count):
            if kind == "jobs":
                self.jobs.start(self._endless())
                continue
            hog = await _connected(self.server)
            if kind == "requests":
                await hog.send(*(request(opaque=n) for n in range(10, 10 + 100 * REPLIES_PER_WRITE)))
            else:
                await hog.send(request(STEPS, 1))
        meek = await _connected(self.server)
        for _ in range(4 * count):
            await trio.lowlevel.checkpoint()
        return meek

    def _cost(self) -> None:
        self.calls += 1
        self._clock.jump(TURN_SECONDS)

    def _call(self, _session: Session, command: RemotingCommand) -> RemotingCommand:
        self._cost()
        return command.reply(0)

    def _endless(self) -> Job:
        while True:
            self._cost()
            yield

    def _steps(self, session: Session, _command: RemotingCommand) -> RemotingCommand:
        async def ready() -> None:
            await session.turns.run(self._endless())

        raise NotReady(ready, in_order=True)


@pytest.mark.parametrize("kind", ["requests", "steps", "jobs"])
@pytest.mark.parametrize("hogs", [1, 8])
async def test_a_request_waits_for_few_calls_of_others_however_many_they_are(
    nursery: trio.Nursery, mock_clock: trio.testing.MockClock, kind: str, hogs: int
) -> None:
    """In each round of the loop one of them goes on, for one call or step."""
    work = Hogs(nursery, mock_clock)
    meek = await work.start(kind, hogs)
    waits = []
    for _ in range(20):
        before = work.calls
        await meek.ask(request(opaque=LAST))
        waits.append(work.calls - before - 1)
    assert 0 < max(waits) <= ROUND_TRIP
    nursery.cancel_scope.cancel()


async def test_long_work_that_fails_keeps_nothing(mock_clock: trio.testing.MockClock) -> None:
    """What it has read is freed when its error is, without the collector."""

    class Read:
        """What a request brought."""

    def steps() -> Steps:
        read = Read()
        alive.append(weakref.ref(read))
        yield
        raise ValueError("no more")

    alive: list[weakref.ref[Read]] = []
    gc.disable()
    try:
        work = LongWork(steps())
        await work.run(Turns())
        with pytest.raises(ValueError, match="no more"):
            work.finish()
        del work
        assert alive[0]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("table", [dict.fromkeys(range(1000)), list(range(1000))], ids=["dict", "list"])
async def test_a_table_that_is_given_up_is_emptied_in_steps(
    table: dict[int, None] | list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if whoever filled it was cancelled, as at the end of a connection."""
    turns, sizes = Turns(), list[int]()

    async def next_turn() -> None:
        sizes.append(len(table))
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr(turns, "next", next_turn)
    monkeypatch.setattr(Pace, "is_over", True)
    with trio.CancelScope() as scope:
        async with emptied_on_error(turns, table):
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert [before - after for before, after in pairwise([1000, *sizes])][:-1] == [EMPTIED_PER_STEP] * 7
    assert not table
