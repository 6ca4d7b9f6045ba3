"""The place and time of the next pull of a queue. Pauses are seconds."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import trio
from msgspec.structs import force_setattr

from codec.message import MessageExt
from rmqcli.client.errors import CorruptReply, UnexpectedReply

log = logging.getLogger("rmqcli.client.pull")

PAUSED = 1.0  # while the application has paused the queue
FLOW_CONTROL = 0.05  # while too much is cached
BUSY = 0.02  # after FLOW_CONTROL from the broker
FAILED = 1.0  # after any other error

QUICK = 0.5  # a broker that has nothing and replies sooner does not hold pulls
IDLE = (0.0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0)  # after such replies in a row

SHORT_STEP = 32
"""Offsets: quick replies without messages that go on by fewer are paused after `SHORT_STEPS` in a row."""
SHORT_STEPS = 16
SHORT_PAUSE = 0.01


def check_next_offset(following: int, broker_name: str, *, above: int = -1) -> None:
    """Raise UnexpectedReply unless the next offset that a broker named is greater than `above`.

    That is the offset of a pull that found messages, which would else be consumed again and again.
    """
    if following <= above:
        raise UnexpectedReply(broker_name, "PULL_MESSAGE", f"{following} is the offset of the next pull")


def place(messages: Sequence[MessageExt], first: int, end: int, broker_name: str, delta: int = 0) -> None:
    """Give messages of a pull from offset `first`, whose next one is `end`, offsets in this order.

    `delta` is offsetDelta of 5.x, from the offsets of records to those of a static topic. No CRC covers the
    queue offset of a record: one that cannot be is replaced by the lowest that can, since a consumer would
    acknowledge what it never had, or never its own. CorruptReply if there are fewer offsets than messages.
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
    """Return the reason why a broker refused an offset: inside of the queue, it holds a reset of its own
    (`OFFSET_RESET` of 5.x).
    """
    inside = offset is not None and low <= offset <= high
    return "is overridden by a reset" if inside else "is not in the queue"


class Idle:
    """The pauses of one queue after quick replies without messages."""

    def __init__(self) -> None:
        self._count = 0
        self._short = 0

    def after(self, begun: float, step: int, *, found: bool = False) -> float:
        """Return the pause after a pull that began at `begun` (trio's clock); the next is `step` offsets
        further.

        A broker that filters goes on by hundreds. One that goes back lags behind another, or lies.
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
CLOCKS = 60_000
"""Milliseconds by which the clocks of a client and a broker may differ."""


class QueueLife:
    """The knowledge of a consumer about one queue.

    `absent_since`: when a broker or name server first said that the topic does not exist, by the clock of the
    client (epoch ms); None while it exists.
    """

    def __init__(self) -> None:
        self.absent_since: int | None = None
        self._seen = -1

    def see(self, messages: Sequence[MessageExt]) -> None:
        """Note messages that were pulled."""
        if messages:
            self._seen = messages[-1].store_timestamp

    def vanish(self, now_ms: int) -> None:
        """Note that the topic does not exist."""
        if self.absent_since is None:
            self.absent_since = now_ms

    def is_doubtful(self, offset: int, low: int, high: int, following: int) -> bool:
        """Return True if the reply to a pull from `offset` may be that of another queue: the topic was away,
        or the queue from `low` to `high` begins at 0, end below the offset, and the broker goes on at its
        end.
        """
        return low <= 0 < offset and (self.absent_since is not None or following == high < offset)

    def is_another(self, earliest: int) -> bool:
        """Return True if a doubtful queue is another one, because its oldest message, stored at `earliest`
        (epoch ms), is younger than what was read before, or than the absence of the topic.

        A queue that lost its end in a power cut has older ones; then the broker's correction holds. So it
        does for an empty queue (-1), which begins at its end.
        """
        if earliest < 0:
            return False
        if self._seen >= 0:
            return earliest > self._seen
        return self.absent_since is None or is_younger(earliest, self.absent_since)


def is_younger(earliest: int, absent_since: int) -> bool:
    """Return True if a message of a broker was stored after this client heard that there is no topic."""
    return earliest > absent_since - CLOCKS
