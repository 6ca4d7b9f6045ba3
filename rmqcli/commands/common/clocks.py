"""The clocks of brokers, where a command takes a time relative to now: messages have the times of their brokers."""

from __future__ import annotations

import re
from contextlib import suppress

from rmqcli.cli.running import now_ms, run_async
from rmqcli.cli.settings import Settings
from rmqcli.render.output import warn

_RELATIVE = re.compile(r"(?<=@)-[0-9.a-z]+")
"""`-10m` in `@-10m` and `@-1h:@-10m`."""


def warn_of_clocks(settings: Settings, text: str | None) -> None:
    """Warn of brokers whose clock differs from ours by more than a range or target spans, up to its end or now.

    Without a relative time nothing is asked. A broker that does not tell is left to the command itself.
    """
    spans = _RELATIVE.findall(text) if text and "@" in text else []
    if not spans:
        return
    from rmqcli.grammar.offset_range import parse_time

    now = now_ms()
    times = sorted(parse_time(one, now) for one in spans)
    span = (times[-1] if len(times) > 1 else now) - times[0]
    for name, skew in sorted(run_async(lambda: _skews(settings)).items()):
        if abs(skew) > span:
            seconds = abs(skew) // 1000
            warn(
                f"the clock of {name} is {seconds:,} s {'ahead of' if skew > 0 else 'behind'} this machine, more than "
                f"{text} spans: its messages have the times of that clock; name times of it, such as @ISO:@ISO"
            )


async def _skews(settings: Settings) -> dict[str, int]:
    """Return how far the clocks of brokers are ahead of ours, in ms, by name of the broker."""
    from rmqcli.client import Admin, ClientError
    from rmqcli.doctor.brokers import skew_ms
    from rmqcli.doctor.survey import Reading

    found: dict[str, int] = {}
    # What fails here, the command meets itself, and says so.
    with suppress(ClientError):
        async with Admin(**settings.client_options) as admin:
            for name, address in (await admin.brokers.masters()).items():
                before = now_ms()
                with suppress(ClientError):
                    table = await admin.brokers.runtime_info(address)
                    found[name] = skew_ms(Reading(table, before, now_ms())) or 0
    return found
