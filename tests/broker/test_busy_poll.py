"""When the event loop stays awake for the next request, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from broker.net.busy_poll import BUSY_ROUNDS, READS_AFTER_BUSY, READS_AFTER_VAIN, BusyPoll

LIMIT = 400
ROUND = 10  # microseconds that each round of the loop takes here
ROUNDS_IN_VAIN = LIMIT // ROUND


class Loop:
    """A busy poll in a loop whose rounds take time; `in_round` is called in each of them that polls."""

    def __init__(self, limit: int, has_spare_core: bool) -> None:
        self.now = 0
        self.rounds = 0
        self.in_round: Callable[[], None] = lambda: None
        self.poll = BusyPoll(
            lambda: limit,
            clock=lambda: self.now,
            give_way=self._give_way,
            has_spare_core=lambda: has_spare_core,
        )

    def _give_way(self) -> None:
        self.now += ROUND
        self.rounds += 1
        self.in_round()

    async def polled_after(self, *gaps: int) -> int:
        """The rounds that polled after reads with these microseconds before each."""
        before = self.rounds
        for gap in gaps:
            self.now += gap
            self.poll.note_read()
            await wait_all_tasks_blocked()
        return self.rounds - before


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


async def test_a_read_that_comes_meanwhile_prolongs_it() -> None:
    async with loop() as one:
        one.in_round = lambda: one.poll.note_read() if one.rounds in (30, 60) else None
        assert await one.polled_after(1000, 1) == 60 + ROUNDS_IN_VAIN


async def test_after_polling_in_vain_some_reads_begin_nothing() -> None:
    async with loop() as one:
        await one.polled_after(1000, 1)
        assert await one.polled_after(*[1] * READS_AFTER_VAIN) == 0
        assert await one.polled_after(1) == ROUNDS_IN_VAIN


async def test_a_busy_loop_is_left_alone() -> None:
    async with loop() as one:
        one.in_round = one.poll.note_read
        assert await one.polled_after(1000, 1) == BUSY_ROUNDS
        assert await one.polled_after(*[1] * READS_AFTER_BUSY) == 0
        assert await one.polled_after(1) == BUSY_ROUNDS


async def test_rounds_without_a_read_in_between_are_not_busy() -> None:
    async with loop() as one:
        one.in_round = lambda: one.poll.note_read() if one.rounds % BUSY_ROUNDS and one.rounds < 100 else None
        assert await one.polled_after(1000, 1) > 100
