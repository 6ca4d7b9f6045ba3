"""The offset and time of the next pull of a queue. Pauses are in seconds."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import trio
from msgspec.structs import force_setattr

from rmqcli.client.errors import CorruptReply, UnexpectedReply
from rmqcli.codec.message import MessageExt

log = logging.getLogger("rmqcli.client.pull")

PAUSED = 1.0  # while the application has paused the queue
FLOW_CONTROL = 0.05  # while too much is cached
BUSY = 0.02  # after FLOW_CONTROL from the broker
FAILED = 1.0  # after any other error

QUICK = 0.5  # a broker that replies sooner without messages does not hold pulls
IDLE = (0.0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0)  # after consecutive replies of this kind

SHORT_STEP = 32
"""In offsets: quick replies without messages that advance by less are paused after `SHORT_STEPS` in a row.

Without a pause, a broker with such replies gets over 2,000 pulls per second.
"""
SHORT_STEPS = 16
SHORT_PAUSE = 0.01


def check_next_offset(following: int, broker_name: str, *, above: int = -1) -> None:
    """Raise UnexpectedReply unless the next offset named by a broker is greater than `above`.

    `above` is the offset of a pull that found messages, which would otherwise be consumed again and again.
    """
    if following <= above:
        raise UnexpectedReply(broker_name, "PULL_MESSAGE", f"{following} is the offset of the next pull")


def place(messages: Sequence[MessageExt], first: int, end: int, broker_name: str, delta: int = 0) -> None:
    """Assign increasing queue offsets to messages pulled from offset `first`, whose next offset is `end`.

    `delta` is offsetDelta of 5.x, from the offsets of records to those of a static topic. No CRC covers the
    queue offset of a record, so an impossible one is replaced with the lowest possible one; otherwise a
    consumer would acknowledge messages it never got, or never acknowledge this one. Raises CorruptReply if
    there are fewer offsets than messages.
    """
    if len(messages) > end - first:
        text = f"{len(messages)} messages at queue offsets from {first} to below {end}"
        raise CorruptReply(broker_name, text)
    for left, message in zip(range(len(messages), 0, -1), messages, strict=True):
        offset = message.queue_offset + delta
        if not first <= offset <= end - left:
            log.error(
                "%s: a record between queue offsets %d and %d says that it has offset %d; it is taken for %d",
                message.queue,
                first,
                end,
                offset,
                first,
            )
            offset = first
        if offset != message.queue_offset:
            force_setattr(message, "queue_offset", offset)
        first = offset + 1


def why_moved(offset: int | None, low: int, high: int) -> str:
    """Return the reason why a broker refused an offset.

    For an offset inside the queue, the broker has a pending reset (`OFFSET_RESET` of 5.x).
    """
    inside = offset is not None and low <= offset <= high
    return "is overridden by a reset" if inside else "is not in the queue"


class Idle:
    """The pauses of one queue after quick replies without messages."""

    def __init__(self) -> None:
        self._count = 0
        self._short = 0

    def after(self, begun: float, step: int, *, found: bool = False) -> float:
        """Return the pause after a pull that began at `begun` (trio's clock) and advanced by `step` offsets.

        A broker that filters advances by hundreds. A broker that goes back lags behind another, or sends
        wrong offsets.
        """
        if step < 0 and not found:
            return FAILED
        if found or trio.current_time() - begun >= QUICK:
            self._count = self._short = 0
            return 0.0
        if step:
            self._count = 0
            self._short = self._short + 1 if step < SHORT_STEP else 0
            return SHORT_PAUSE if self._short > SHORT_STEPS else 0.0
        pause = IDLE[min(self._count, len(IDLE) - 1)]
        self._count += 1
        return pause


FORMER = "offset %d of %s is of a former queue of this name; continuing at %d"
