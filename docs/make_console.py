"""Draws docs/console.png, the picture in docs/console.md, from a cluster in memory: `python -m docs.make_console`.

It needs headless Chromium, as the tests of pages do.
"""

from __future__ import annotations

import itertools
import math
import tempfile
from pathlib import Path

import trio
from trio.testing import MockClock

from rmqcli.client import Producer
from rmqcli.codec.message import Message
from rmqcli.console.guard import Guard
from rmqcli.console.server import open_console
from tests.console.busy import busy
from tests.console.serving import OURS, console_of
from tests.report.browser import browser

PICTURE = Path(__file__).with_name("console.png")
WIDTH, HEIGHT, SCALE = 1080, 960, 0.75
SECONDS = 75  # of load, so that there are rates and trends


def shoot(port: int) -> bytes:
    """Return a picture of the overview."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, browser(Path(folder)) as shown:
        shown.show(f"http://127.0.0.1:{port}/", WIDTH, "light")
        return shown.screenshot(WIDTH, HEIGHT, SCALE)


async def load(producer: Producer) -> None:
    """Send more and more messages."""
    for number in itertools.count(1):
        for _ in range(number // 20 + 1):
            await producer.send(Message.of("orders", b'{"customer": "Ann Lee"}', keys=f"order-{number}"))
        await trio.sleep(0.25)


async def draw(clock: MockClock) -> bytes:
    """Return a picture of a console whose cluster has some load."""
    async with (
        busy(vip_channel_enabled=True) as found,
        open_console("127.0.0.1", 0, (console := console_of(found.admin)), Guard(OURS)) as port,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(load, found.producer)
        await console.live.join()
        await trio.sleep(SECONDS)
        clock.autojump_threshold, clock.rate = math.inf, 1.0  # the browser needs real time
        drawn = await trio.to_thread.run_sync(shoot, port)
        nursery.cancel_scope.cancel()
    return drawn


if __name__ == "__main__":
    virtual = MockClock(autojump_threshold=0)
    PICTURE.write_bytes(trio.run(draw, virtual, clock=virtual))
