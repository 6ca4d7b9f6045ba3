"""The strings of pop consumption (Java `ExtraInfoUtil`): the receipt handle of a message, and the description
of messages in a pop reply.

A handle has eight fields, joined by spaces: start offset, pop time, invisible time, revive queue, retry flag,
broker name, queue id, offset. A proxy appends a ninth, the commit-log offset. The strings of a reply have
three fields for each queue, and `;` between queues. Times are ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from rmqcli.codec.errors import HeaderError
from rmqcli.codec.names import RETRY_PREFIX

ORDER_QUEUE: Final = 999
"""The revive queue in the handles of FIFO pops."""
REVIVE_QUEUES: Final = 8
NORMAL, RETRY_V1, RETRY_V2 = "0", "1", "2"
"""The retry flags: a message of the topic itself, or of one of the two retry topics of group and topic."""
_SEPARATORS: Final = {RETRY_V1: "_", RETRY_V2: "+"}
_FIELDS: Final = 8
_LONGEST: Final = 512
_INT64: Final = 1 << 63


def pop_retry_topic(group: str, topic: str, flag: str = RETRY_V1) -> str:
    """Return the topic in which popped messages that were not acknowledged are stored again."""
    return f"{RETRY_PREFIX}{group}{_SEPARATORS[flag]}{topic}"


def retry_flag(stored: str) -> str:
    """Return the flag of the topic in which a message is stored (Java `ExtraInfoUtil.getRetry`)."""
    if not stored.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if "+" in stored else RETRY_V1


class ReceiptHandle(NamedTuple):
    """The handle with which a consumer acknowledges one delivery of a message, or changes the time of the next."""

    start_offset: int
    """The offset of the first message of this queue in the reply."""
    pop_time: int
    invisible_time: int
    revive_queue: int
    retry: str
    broker_name: str
    queue_id: int
    offset: int
    log_offset: int = -1
    """The commit-log offset; -1 if the handle does not have it."""

    @property
    def is_order(self) -> bool:
        """True for a message of a FIFO pop."""
        return self.revive_queue == ORDER_QUEUE

    def topic(self, group: str, topic: str) -> str:
        """Return the topic in which the message is stored, given the topic that the consumer requested."""
        return topic if self.retry == NORMAL else pop_retry_topic(group, topic, self.retry)

    def encode(self) -> str:
        """Return the handle as a string."""
        fields = self if self.log_offset >= 0 else self[:_FIELDS]
        return " ".join(map(str, fields))

    @classmethod
    def decode(cls, text: str) -> ReceiptHandle:
        """Parse a handle. Raises HeaderError if it is invalid."""
        fields = text.split(" ") if len(text) <= _LONGEST else []
        if len(fields) < _FIELDS:
            raise _no_handle(text)
        start, pop_time, invisible, revive, retry, broker, queue, offset, *more = fields
        try:
            numbers = [int(part) for part in (start, pop_time, invisible, revive, queue, offset, *more[:1])]
        except ValueError:
            raise _no_handle(text) from None
        if retry not in (NORMAL, RETRY_V1, RETRY_V2) or not all(-_INT64 <= one < _INT64 for one in numbers):
            raise _no_handle(text)
        start_, pop_time_, invisible_, revive_, queue_, offset_, *log = numbers
        return cls(start_, pop_time_, invisible_, revive_, retry, broker, queue_, offset_, *log)


def _no_handle(text: str) -> HeaderError:
    return HeaderError(
        f"extraInfo {text[:64]!r} is no receipt handle, such as '0 1700000000000 60000 0 0 broker-a 0 7'"
    )


class PartInfo(NamedTuple):
    """The messages of one queue in a pop reply."""

    retry: str
    queue_id: int
    start_offset: int
    offsets: Sequence[int]


def start_offset_info(parts: Iterable[PartInfo]) -> str:
    return ";".join([f"{part.retry} {part.queue_id} {part.start_offset}" for part in parts])


def msg_offset_info(parts: Iterable[PartInfo]) -> str:
    return ";".join([f"{part.retry} {part.queue_id} {','.join(map(str, part.offsets))}" for part in parts])


def order_count_info(retry: str, queue_id: int, counts: dict[int, int], least: int) -> str:
    """Return the description of one queue in a FIFO pop: the earlier deliveries of messages that had any, and
    the smallest number of deliveries of all messages.
    """
    each = [f"{retry} qo{queue_id}%{offset} {count}" for offset, count in counts.items()]
    return ";".join([*each, f"{retry} {queue_id} {least}"])


def parse_part_infos(start_info: str | None, offset_info: str | None) -> list[PartInfo]:
    """Return the parts of a reply; none for a broker that does not list them. Raises HeaderError."""
    try:
        starts = {(retry, queue): int(start) for retry, queue, start in _triples(start_info)}
        return [
            PartInfo(retry, int(queue), starts[retry, queue], [int(one) for one in offsets.split(",")])
            for retry, queue, offsets in _triples(offset_info)
        ]
    except (ValueError, KeyError):
        raise HeaderError("startOffsetInfo and msgOffsetInfo do not fit together", "msgOffsetInfo") from None


def parse_order_counts(text: str | None) -> dict[tuple[str, int, int], int]:
    """Return the number of earlier deliveries by retry flag, queue id and offset. Raises HeaderError."""
    counts: dict[tuple[str, int, int], int] = {}
    try:
        for retry, place, count in _triples(text):
            queue, percent, offset = place.removeprefix("qo").partition("%")
            if percent:
                counts[retry, int(queue), int(offset)] = int(count)
    except ValueError:
        raise HeaderError(f"orderCountInfo cannot be {(text or '')[:64]!r}", "orderCountInfo") from None
    return counts


def _triples(text: str | None) -> list[tuple[str, str, str]]:
    triples: list[tuple[str, str, str]] = []
    for part in text.split(";") if text else ():
        first, second, third = part.split(" ")
        triples.append((first, second, third))
    return triples
