"""The choice of the way to wait, by the times of replies."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from trio.testing import MockClock

from rmqcli.client.wire.reader import FIRST_PERIOD, LOOK_SECONDS, LOOKS, MAX_PERIOD, TRIAL, Polling

QUICK, SLOW = 80e-6, 140e-6
Took = Callable[[bool, int], float]
"""Seconds of a reply, by way of waiting and number of the request."""


async def ways(clock: MockClock, took: Took, count: int) -> list[bool]:
    """The way of waiting for each reply; True for polling."""
    polling, found = Polling(), []
    for number in range(count):
        polling.begin()
        assert polling.left in (0, LOOKS)
        found.append(polling.left > 0)
        clock.jump(took(found[-1], number))
        polling.end()
    return found


def changes(found: list[bool]) -> list[tuple[int, bool]]:
    """The requests at which the way changed."""
    return [(n, way) for n, way in enumerate(found) if way is not (found[n - 1] if n else False)]


async def test_the_quicker_way_is_kept(mock_clock: MockClock) -> None:
    found = await ways(mock_clock, lambda looks, _: QUICK if looks else SLOW, 1000)
    most, at, period, expected = TRIAL // 2 + 1, FIRST_PERIOD, FIRST_PERIOD, [(FIRST_PERIOD, True)]
    while (at := at + most + period) < 1000:
        expected += [(at, False), (at + most, True)]
        period *= 2
    assert changes(found) == expected


@pytest.mark.parametrize(("slept", "looked"), [(SLOW, SLOW), (SLOW, 0.9 * SLOW), (QUICK, SLOW), (0.0, 0.0)])
async def test_a_way_that_is_hardly_better_is_not_chosen(
    mock_clock: MockClock, slept: float, looked: float
) -> None:
    found = await ways(mock_clock, lambda looks, _: looked if looks else slept, 20 * MAX_PERIOD)
    assert found.count(True) < 25 * TRIAL
    longest = max(b - a for (a, _), (b, _) in zip(changes(found)[1:], changes(found)[2:], strict=False))
    assert longest == MAX_PERIOD


async def test_one_pause_of_the_system_decides_nothing(mock_clock: MockClock) -> None:
    def took(looks: bool, number: int) -> float:
        return 0.05 if number in (FIRST_PERIOD - 3, FIRST_PERIOD + 2) else (QUICK if looks else SLOW)

    found = await ways(mock_clock, took, 2 * FIRST_PERIOD)
    assert changes(found) == [(FIRST_PERIOD, True)]


async def test_a_world_that_changes_is_followed(mock_clock: MockClock) -> None:
    def took(looks: bool, number: int) -> float:
        return QUICK if looks is (number // (4 * MAX_PERIOD) % 2 == 0) else SLOW

    found = await ways(mock_clock, took, 12 * MAX_PERIOD)
    for part, way in enumerate((True, False, True)):
        rest = found[(4 * part + 2) * MAX_PERIOD : 4 * (part + 1) * MAX_PERIOD]
        assert rest.count(way) > 0.98 * len(rest)


@pytest.fixture
async def looking(mock_clock: MockClock) -> Polling:
    """A choice that has found polling to be quicker."""
    polling = Polling()
    for _ in range(2 * FIRST_PERIOD):
        polling.begin()
        mock_clock.jump(QUICK if polling.left else SLOW)
        polling.end()
    return polling


async def test_looks_are_counted(looking: Polling, mock_clock: MockClock) -> None:
    """The clock stands still, as it does in a test of an application."""
    looking.begin()
    for left in range(LOOKS - 1, -1, -1):
        looking.in_vain()
        assert looking.left == left
    looking.in_vain()
    assert looking.left == 0


async def test_looks_end_when_others_used_the_processor_for_long(
    looking: Polling, mock_clock: MockClock
) -> None:
    looking.begin()
    mock_clock.jump(LOOK_SECONDS * 0.9)
    looking.in_vain()
    assert looking.left == LOOKS - 1
    mock_clock.jump(LOOK_SECONDS * 0.2)
    looking.in_vain()
    assert looking.left == 0
