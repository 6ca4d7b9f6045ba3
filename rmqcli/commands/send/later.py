"""Options of `rmq send` for messages that are delivered later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

from typer import Option

from rmqcli.cli.exit_codes import usage_error

if TYPE_CHECKING:
    from rmqcli.client import Producer
    from rmqcli.codec.message_queue import MessageQueue
    from rmqcli.flows.outgoing import Stamp

LevelOption = Annotated[
    int | None,
    Option("--delay-level", metavar="N", min=1, max=2**31 - 1, help="Delay level of the message."),
]
DelayOption = Annotated[
    str | None,
    Option(
        "--delay",
        metavar="TIME",
        help="Delay of the message, e.g. 90s; without timers (5.x), one of the broker's delay levels.",
    ),
]
AtOption = Annotated[
    str | None,
    Option(
        "--at",
        metavar="@T",
        help="Time of delivery, e.g. @2030-01-01T08:00 or +90s; the broker needs timers (5.x).",
    ),
]


class Later(NamedTuple):
    """The chosen delay, at most one of a level, a duration and a time, which is in `at_ms` too."""

    level: int | None = None
    delay: str | None = None
    at: str = ""
    at_ms: int | None = None

    @classmethod
    def of(cls, level: int | None, delay: str | None, at: str | None) -> Later:
        """Return the choice of the options; warn of a time that has passed, which means no delay."""
        from rmqcli.grammar.values import check_duration

        if level is not None and delay is not None:
            raise usage_error("--delay-level and --delay cannot be combined")
        if delay is not None:
            check_duration("--delay", delay)
        if at is None:
            return cls(level, delay)
        if level is not None or delay is not None:
            raise usage_error("--at cannot be combined with --delay-level or --delay")

        from rmqcli.cli.running import now_ms
        from rmqcli.grammar.times import parse_moment

        now = now_ms()
        found = parse_moment("--at", at, now)
        if found > now:
            return cls(at=at, at_ms=found)

        from rmqcli.render.output import warn

        warn(f"--at {at} has passed: delivered immediately")
        return cls()

    async def stamped(self, stamp: Stamp, producer: Producer, queues: Sequence[MessageQueue]) -> Stamp:
        """Return the stamp with the property that delays a message on the brokers of these queues."""
        if self == Later():
            return stamp
        from rmqcli.flows.delays import delay_property, level_property, time_property

        if self.at_ms is not None:
            found = await time_property(producer, stamp.topic, queues, self.at, self.at_ms)
        elif self.delay is not None:
            found = await delay_property(producer, stamp.topic, queues, self.delay)
        else:
            found = await level_property(producer, stamp.topic, queues, self.level or 0)
        return stamp.delayed(*found)
