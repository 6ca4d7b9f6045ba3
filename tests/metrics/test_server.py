"""Scrapes that come at once, and brokers that the name server forgot."""

from __future__ import annotations

import trio
import trio.testing

from rmqcli.metrics.collect import FORGOTTEN, Seen, Survey
from rmqcli.metrics.families import NAME_SERVER_UP, Sample
from rmqcli.metrics.server import Shared


async def test_scrapes_that_wait_share_the_samples(autojump_clock: trio.testing.MockClock) -> None:
    runs = 0

    async def collect() -> list[Sample]:
        nonlocal runs
        runs += 1
        await trio.sleep(6)
        return [Sample(NAME_SERVER_UP, (), runs)]

    shared = Shared(collect)
    values: list[float] = []

    async def scrape(delay: float) -> None:
        await trio.sleep(delay)
        values.append((await shared.samples())[0].value)

    async with trio.open_nursery() as nursery:
        for delay in (0, 1, 2, 7):
            nursery.start_soon(scrape, delay)
    assert (values, trio.current_time()) == ([1, 1, 1, 2], 13)


def test_a_broker_that_is_no_longer_registered_is_down_for_a_day() -> None:
    seen = Seen()
    both = Survey({"a": "c", "b": "c"}, {"a": "1:1", "b": "1:2", "b:1": "1:3"})
    one = Survey({"a": "c"}, {"a": "1:1"})
    assert seen.missing(both, 0.0) == []
    gone = [(sample.labels, sample.value) for sample in seen.missing(one, 30.0)]
    assert gone == [(("c", "1:2", "b"), 0), (("c", "1:3", "b:1"), 0)]
    assert seen.missing(both, 60.0) == []
    assert len(seen.missing(one, FORGOTTEN)) == 2
    assert seen.missing(one, FORGOTTEN + 61) == []
