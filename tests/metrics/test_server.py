"""Scrapes that come at once."""

from __future__ import annotations

import trio
import trio.testing

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
