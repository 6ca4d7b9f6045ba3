"""Runs work with an `Admin`, and compares clocks for times relative to now: messages have the times of their
brokers.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from rmqcli.cli.running import now_ms, run_async
from rmqcli.cli.settings import Settings

if TYPE_CHECKING:
    from rmqcli.client import Admin


# A text, which re compiles when it is first used: most commands do not use it.
_RELATIVE = r"(?<=@)-[0-9.a-z]+"
"""Matches `-10m` in `@-10m`, and `-1h` and `-10m` in `@-1h:@-10m`."""


def warn_of_clocks(settings: Settings, text: str | None) -> None:
    """Warn of brokers whose clock differs from ours by more than the length of a range, or of a target up to
    now.

    Without a relative time, no broker is queried. A broker that does not respond is left to the command
    itself.
    """
    spans = re.findall(_RELATIVE, text) if text and "@" in text else []
    if not spans:
        return
    from rmqcli.grammar.times import parse_time
    from rmqcli.render.output import warn

    now = now_ms()
    times = sorted(parse_time(one, now) for one in spans)
    span = (times[-1] if len(times) > 1 else now) - times[0]
    for name, skew in sorted(run_async(lambda: clock_skews(settings)).items()):
        if abs(skew) > span:
            seconds = abs(skew) // 1000
            warn(
                f"the clock of {name} is {seconds:,} s {'ahead of' if skew > 0 else 'behind'} this machine, more than "
                f"{text} spans: its messages have the times of that clock; name times of it, such as @ISO:@ISO"
            )


async def clock_skews(settings: Settings) -> dict[str, int]:
    """Return how far the clocks of brokers are ahead of ours, in ms, by name of the broker."""
    from rmqcli.client import Admin, ClientError
    from rmqcli.doctor.brokers import skew_ms
    from rmqcli.doctor.survey import Reading

    found: dict[str, int] = {}
    # The command itself meets the same errors, and reports them.
    with suppress(ClientError):
        async with Admin(**settings.client_options) as admin:
            for name, address in (await admin.brokers.masters()).items():
                before = now_ms()
                with suppress(ClientError):
                    table = await admin.brokers.runtime_info(address)
                    found[name] = skew_ms(Reading(table, before, now_ms())) or 0
    return found


T = TypeVar("T")
PATIENCE_S = 2.5
"""Seconds that a command waits for a server before it reports that it is waiting."""


def with_admin(settings: Settings, work: Callable[[Admin], Awaitable[T]]) -> T:
    """Run `work` with an Admin that has the options of the command line, and return its result."""

    async def main() -> T:
        from rmqcli.client import Admin

        async with Admin(**settings.client_options) as admin:
            if sys.stderr.isatty() and not settings.json:
                admin.instance.start(lambda: _tell_who_is_silent(admin), name="silent servers")
            return await work(admin)

    return run_async(main)


async def _tell_who_is_silent(admin: Admin) -> None:
    """Warn once of each server that sent nothing between two checks."""
    import trio

    from rmqcli.render.output import warn

    told: set[str] = set()
    former: dict[str, int] = {}
    while True:
        await trio.sleep(PATIENCE_S / 2)
        now = admin.instance.pool.waiting
        for address in sorted(address for address, heard in now.items() if former.get(address) == heard):
            if address not in told:
                warn(f"waiting for {address}, which has not answered yet")
                told.add(address)
        former = now
