"""When the event loop stays awake for the next request, with a clock that the test moves."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rmqcli.broker.net.busy_poll import BUSY_ROUNDS, LEAST_HITS, LONGEST_PAUSE, SHORTEST_PAUSE, BusyPoll

LIMIT = 400
ROUND = 10  # microseconds that a round without a read takes here
ROUNDS_IN_VAIN = LIMIT // ROUND


class Loop:
    """A busy poll whose rounds take time. `idle_rounds` are those that offer the core to others.

    `in_idle_round` is called in each of these, `at_look` each time that the poll looks at the clock.
    """

    def __init__(self, limit: int, has_spare_core: bool) -> None:
        self.now = 0
        self.limit = limit
        self.idle_rounds = 0
        self.in_idle_round: Callable[[], None] = lambda: None
        self.at_look: Callable[[], None] = lambda: None
        self.workers = 0
        self.poll = BusyPoll(
            lambda: self.limit,
            clock=self._clock,
            give_way=self._give_way,
            has_spare_core=lambda: has_spare_core,
            workers=lambda: self.workers,
        )
        self._is_noting = False

    def read(self) -> None:
        self._is_noting = True
        self.poll.note_read()
        self._is_noting = False

    def _clock(self) -> int:
        if not self._is_noting:
            self.at_look()
        return self.now

    def _give_way(self) -> None:
        self.now += ROUND
        self.idle_rounds += 1
        self.in_idle_round()

    async def polled_after(self, *gaps: int) -> int:
        """The idle rounds that polled after reads with these microseconds before each."""
        before = self.idle_rounds
        for gap in gaps:
            self.now += gap
            self.read()
            await wait_all_tasks_blocked()
        return self.idle_rounds - before


@asynccontextmanager
async def loop(limit: int = LIMIT, has_spare_core: bool = True) -> AsyncIterator[Loop]:
    one = Loop(limit, has_spare_core)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.poll.run)
        await wait_all_tasks_blocked()
        yield one
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("gaps", "rounds"),
    [
        ((1000,), 0),
        ((1000, LIMIT), 0),
        ((1000, LIMIT - 1), ROUNDS_IN_VAIN),
        ((1000, 1), ROUNDS_IN_VAIN),
        ((1000, 500, 500, 500), 0),
        ((1000, 500, 1), ROUNDS_IN_VAIN),
    ],
)
async def test_a_read_soon_after_another_begins_it(gaps: tuple[int, ...], rounds: int) -> None:
    async with loop() as one:
        assert await one.polled_after(*gaps) == rounds


@pytest.mark.parametrize(("limit", "has_spare_core"), [(0, True), (LIMIT, False)])
async def test_it_can_be_off(limit: int, has_spare_core: bool) -> None:
    async with loop(limit, has_spare_core) as one:
        assert await one.polled_after(*[1] * 1000) == 0


async def test_it_can_be_turned_off_while_it_polls() -> None:
    async with loop() as one:

        def read_and_turn_off() -> None:
            if one.idle_rounds == 10:
                one.limit = 0
                one.read()

        one.in_idle_round = read_and_turn_off
        assert await one.polled_after(1000, 1) == 10


async def test_a_read_that_comes_meanwhile_prolongs_it() -> None:
    async with loop() as one:
        one.in_idle_round = lambda: one.read() if one.idle_rounds in (30, 60) else None
        assert await one.polled_after(1000, 1) == 60 + ROUNDS_IN_VAIN


async def test_each_time_in_vain_more_reads_begin_nothing() -> None:
    async with loop() as one:
        assert await one.polled_after(1000, 1) == ROUNDS_IN_VAIN
        pause = SHORTEST_PAUSE
        while pause < LONGEST_PAUSE:
            assert await one.polled_after(*[1] * pause) == 0
            assert await one.polled_after(1) == ROUNDS_IN_VAIN
            pause *= 2
        for _ in range(2):
            assert await one.polled_after(*[1] * LONGEST_PAUSE) == 0
            assert await one.polled_after(1) == ROUNDS_IN_VAIN


@pytest.mark.parametrize(
    ("hits", "pause"), [(LEAST_HITS - 1, 2 * SHORTEST_PAUSE), (LEAST_HITS, SHORTEST_PAUSE)]
)
async def test_finding_reads_makes_the_pause_short_again(hits: int, pause: int) -> None:
    async with loop() as one:
        await one.polled_after(1000, 1)
        found = 0

        def read_in_every_other_round() -> None:
            nonlocal found
            if found < hits and one.idle_rounds % 2:
                found += 1
                one.read()

        one.in_idle_round = read_in_every_other_round
        assert await one.polled_after(*[1] * (SHORTEST_PAUSE + 1)) >= ROUNDS_IN_VAIN + hits
        assert await one.polled_after(*[1] * pause) == 0
        assert await one.polled_after(1) == ROUNDS_IN_VAIN


async def test_a_busy_loop_is_left_alone() -> None:
    async with loop() as one:
        looks = 0

        def read_in_each_round() -> None:
            nonlocal looks
            looks += 1
            one.read()

        one.at_look = read_in_each_round
        assert await one.polled_after(1000, 1) == 1
        assert looks == BUSY_ROUNDS + 1  # one to begin with
        one.at_look = lambda: None
        assert await one.polled_after(*[1] * SHORTEST_PAUSE) == 0
        assert await one.polled_after(1) == ROUNDS_IN_VAIN


async def test_a_loop_with_rounds_in_between_is_not_busy_but_finds_few() -> None:
    async with loop() as one:
        await one.polled_after(1000, 1)
        looks, last = 0, BUSY_ROUNDS * (LEAST_HITS - 1)

        def read_in_most_rounds() -> None:
            nonlocal looks
            looks += 1
            if looks % BUSY_ROUNDS and looks < last:
                one.read()

        one.at_look = read_in_most_rounds
        assert await one.polled_after(*[1] * (SHORTEST_PAUSE + 1)) > ROUNDS_IN_VAIN
        assert looks > last
        assert await one.polled_after(*[1] * 2 * SHORTEST_PAUSE) == 0
        assert await one.polled_after(1) == ROUNDS_IN_VAIN


async def test_a_worker_that_begins_ends_it() -> None:
    async with loop() as one:

        def begin_a_worker() -> None:
            one.workers = 1 if one.idle_rounds == 10 else 0

        one.in_idle_round = begin_a_worker
        assert await one.polled_after(1000, 1) == 10


async def test_while_a_worker_runs_there_is_none_and_no_pause_grows() -> None:
    async with loop() as one:
        one.workers = 1
        assert await one.polled_after(*[1] * 1000) == 0
        one.workers = 0
        assert await one.polled_after(*[1] * (SHORTEST_PAUSE + 1)) >= ROUNDS_IN_VAIN


async def test_workers_are_those_of_trio() -> None:
    rounds = 0

    def count() -> None:
        nonlocal rounds
        rounds += 1

    poll = BusyPoll(lambda: 0.05, give_way=count, has_spare_core=lambda: True)
    ready, end = trio.Event(), threading.Event()

    def work() -> None:
        trio.from_thread.run_sync(ready.set)
        end.wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(poll.run)
        await wait_all_tasks_blocked()
        nursery.start_soon(trio.to_thread.run_sync, work)
        await ready.wait()
        for _ in range(SHORTEST_PAUSE):
            poll.note_read()
            await wait_all_tasks_blocked()
        assert rounds == 0
        end.set()
        while not rounds:
            await wait_all_tasks_blocked()
            poll.note_read()
        nursery.cancel_scope.cancel()
