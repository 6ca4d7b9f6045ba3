"""Reads ranges of a topic without a group: one task per queue, merged by store time.

Reading ends at the offsets that the queues have when it starts, even while others send. Memory is bounded: at
most `_AHEAD` pulled batches per queue. Messages of one queue keep their order; between queues, store time
decides.
"""

from __future__ import annotations

import heapq
import re
import warnings
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from types import MappingProxyType
from typing import NamedTuple, Protocol

import trio

from rmqcli.client import UNREACHED, ClientError, PullResult, PullStatus
from rmqcli.codec.errors import SelectorError
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.records.filter import COLUMNS, Columns, condition
from rmqcli.codec.selector import Predicate
from rmqcli.counts import gone
from rmqcli.flows.errors import InvalidInput, QueueNotFound, QueueNotPermitted
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.render.output import warn
from rmqcli.render.text import many, number_ranges

_NONE_LOST: Mapping[MessageQueue, ClientError] = MappingProxyType({})
BATCH = 32  # messages per request; Java brokers allow no more by default
_AHEAD = 2  # batches per queue kept in memory


class Reader(Protocol):
    """The part of `PullConsumer` that reading needs."""

    async def message_queues(self, topic: str) -> list[MessageQueue]: ...
    async def min_offset(self, queue: MessageQueue) -> int: ...
    async def max_offset(self, queue: MessageQueue) -> int: ...
    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int: ...
    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        max_nums: int = ...,
        expression: str = ...,
        *,
        suspend: float = ...,
    ) -> PullResult: ...


class Chooser(Reader, Protocol):
    """The part of `PullConsumer` that the choice of queues needs."""

    async def unread_queues(self, topic: str) -> list[MessageQueue]: ...


class Span(NamedTuple):
    """The offsets to read of one queue, from `begin` up to `end` (exclusive)."""

    queue: MessageQueue
    begin: int
    end: int


async def choose_queues(
    reader: Chooser, topic: str, broker: str | None = None, queue_id: int | None = None
) -> list[MessageQueue]:
    """Return the selected queues of a topic. Raise QueueNotFound, with the available ones, if there are none.

    Warn of messages in queues that can be written but not read, which brokers also refuse to read.
    """
    queues = await reader.message_queues(topic)
    found = select_queues(queues, topic, broker, queue_id)
    if queue_id is None:
        await _warn_of_unread(reader, topic, broker)
    return found


async def _warn_of_unread(reader: Chooser, topic: str, broker: str | None) -> None:
    unread = [one for one in await reader.unread_queues(topic) if broker in (None, one.broker_name)]
    counts: dict[int, int] = {}
    for queue in unread:
        with suppress(ClientError):  # lost brokers are reported elsewhere
            count = await reader.max_offset(queue) - await reader.min_offset(queue)
            counts[queue.queue_id] = counts.get(queue.queue_id, 0) + count
    numbers = [number for number, count in counts.items() if count > 0]
    if numbers:
        where = f"{'queue' if len(numbers) == 1 else 'queues'} {number_ranges(numbers)} of topic {topic}"
        warn(
            f"{many(sum(counts.values()), 'message')} in {where} cannot be read: make it a read queue with "
            f"rmq topic update {topic} --read-queues {max(numbers) + 1}"
        )


def select_queues(
    queues: Sequence[MessageQueue],
    topic: str,
    broker: str | None,
    queue_id: int | None,
    *,
    kind: str = "readable",
) -> list[MessageQueue]:
    """Return the selected ones of `queues`, which are all of one `kind`."""
    if not queues:
        text = f"topic {topic} has no {kind} queue; see: rmq topic route {topic}"
        raise QueueNotPermitted(text)
    found = [
        queue
        for queue in queues
        if (broker is None or queue.broker_name == broker)
        and (queue_id is None or queue.queue_id == queue_id)
    ]
    if found:
        return found
    wanted = ("queue" if queue_id is None else f"queue {queue_id}") + (f" on {broker}" if broker else "")
    brokers = sorted({queue.broker_name for queue in queues})
    there = "; ".join(f"{name}: {_numbers(queues, name)}" for name in brokers)
    raise QueueNotFound(f"topic {topic} has no {wanted} (available: {there})")


def queues_to_send_to(
    queues: Sequence[MessageQueue], topic: str, broker: str | None, queue_id: int | None
) -> list[MessageQueue]:
    """Return the selected ones of the writable queues.

    Raise InvalidInput if several brokers have a queue of this number: messages sent to them in turn would not
    be in order.
    """
    found = select_queues(queues, topic, broker, queue_id, kind="writable")
    if queue_id is not None and len(found) > 1:
        names = " and ".join(sorted(queue.broker_name for queue in found))
        raise InvalidInput(f"--queue {queue_id}: {names} have this queue; choose one with --broker")
    return found


def _numbers(queues: Sequence[MessageQueue], broker: str) -> str:
    return ",".join(str(queue.queue_id) for queue in queues if queue.broker_name == broker)


async def spans(reader: Reader, queues: Sequence[MessageQueue], wanted: OffsetRange) -> list[Span]:
    """Return the span of each queue as of now, in the order of `queues`."""
    found, failures = await reachable_spans(reader, queues, wanted)
    if failures:
        raise next(iter(failures.values()))
    return found


async def reachable_spans(
    reader: Reader,
    queues: Sequence[MessageQueue],
    wanted: OffsetRange,
    lost: Mapping[MessageQueue, ClientError] = _NONE_LOST,
) -> tuple[list[Span], dict[MessageQueue, ClientError]]:
    """Return the spans of the queues whose broker responds, and the errors of the others. Raise the first
    error if none responds.

    Queues in `lost` did not respond before and are not requested again, which would cost another timeout.
    """
    found: dict[MessageQueue, Span] = {}
    failures = dict(lost)

    async def find(queue: MessageQueue) -> None:
        try:
            found[queue] = await _span(reader, queue, wanted)
        except UNREACHED as error:
            failures[queue] = error

    async with trio.open_nursery() as nursery:
        for queue in queues:
            if queue not in lost:
                nursery.start_soon(find, queue)
    if failures and not found:
        raise next(failures[queue] for queue in queues)
    return (
        [found[queue] for queue in queues if queue in found],
        {queue: failures[queue] for queue in queues if queue in failures},
    )


async def _span(reader: Reader, queue: MessageQueue, wanted: OffsetRange) -> Span:
    first, end = await reader.min_offset(queue), await reader.max_offset(queue)
    begin, end = wanted.offsets(max(0, first), end)
    # A search may return any message of that millisecond, or the neighbor of a gap: search one millisecond
    # early and one message late; the store time of each message decides.
    if wanted.begin_time and begin < end:
        begin = max(begin, await reader.search_offset(queue, wanted.begin_time - 1))
    if wanted.end_time is not None and begin < end:
        end = min(end, await reader.search_offset(queue, wanted.end_time) + 1)
    return Span(queue, begin, max(begin, end))


def total(found: Sequence[Span]) -> int:
    """Return the maximum number of messages in the spans."""
    return sum(span.end - span.begin for span in found)


def last_spans(found: Sequence[Span], count: int) -> list[Span]:
    """Return the last `count` offsets of each span, which together contain the last `count` messages of all."""
    return [span._replace(begin=max(span.begin, span.end - count)) for span in found]


Batches = trio.MemoryReceiveChannel[list[MessageExt]]


@asynccontextmanager
async def open_range(
    reader: Reader,
    found: Sequence[Span],
    wanted: OffsetRange,
    expression: str = "*",
    unread: list[MessageQueue] | None = None,
) -> AsyncIterator[AsyncIterator[MessageExt]]:
    """Yield the merged messages of all spans; exiting stops the tasks. Queues whose reading ended early are
    added to `unread`.
    """
    async with trio.open_nursery() as nursery:
        sources: list[Batches] = []
        for span in found:
            send, receive = trio.open_memory_channel[list[MessageExt]](_AHEAD)
            nursery.start_soon(_read_span, reader, span, wanted, expression, send, unread)
            sources.append(receive)
        async with aclosing(_merge(sources)) as merged:
            if wanted.last is None or len(found) == 1:
                yield merged
            else:
                async with aclosing(_last(merged, wanted.last)) as last:
                    yield last
        nursery.cancel_scope.cancel()


async def _last(messages: AsyncIterator[MessageExt], count: int) -> AsyncGenerator[MessageExt, None]:
    kept: deque[MessageExt] = deque(maxlen=count)
    async for message in messages:
        kept.append(message)
    for message in kept:
        yield message


async def _merge(sources: Sequence[Batches]) -> AsyncGenerator[MessageExt, None]:
    waiting: list[deque[MessageExt]] = [deque() for _ in sources]
    heap: list[tuple[int, int]] = []

    async def advance(number: int) -> None:
        while not waiting[number]:
            try:
                waiting[number].extend(await sources[number].receive())
            except trio.EndOfChannel:
                return
        heapq.heappush(heap, (waiting[number][0].store_timestamp, number))

    for number in range(len(sources)):
        await advance(number)
    while heap:
        _, number = heapq.heappop(heap)
        yield waiting[number].popleft()
        await advance(number)


async def _read_span(
    reader: Reader,
    span: Span,
    wanted: OffsetRange,
    expression: str,
    channel: trio.MemorySendChannel[list[MessageExt]],
    unread: list[MessageQueue] | None,
) -> None:
    # Not `async with`: its checkpoint after closing would let the reader end and cancel this task.
    with channel:
        offset = span.begin
        while offset < span.end:
            result = await reader.pull(span.queue, offset, min(BATCH, span.end - offset), expression)
            following = next_offset(span.queue, offset, result)
            kept = [
                m
                for m in result.messages
                if m.queue_offset < span.end and wanted.holds_time(m.store_timestamp)
            ]
            if kept:
                await channel.send(kept)
            last = result.messages[-1] if result.messages else None
            if last and wanted.end_time is not None and last.store_timestamp >= wanted.end_time:
                return
            if following <= offset:
                warn(f"{span.queue}: no messages at offset {offset}, although the queue ended at {span.end}")
                if unread is not None:
                    unread.append(span.queue)
                return
            offset = following


def next_offset(queue: MessageQueue, offset: int, result: PullResult) -> int:
    """Return the next offset. Warn if messages were deleted in between, or the topic was created again."""
    if _begins_again(offset, result):
        warn(f"{queue} ends at {result.max_offset}, before offset {offset}, and is read from its start again")
        return 0
    if result.status is PullStatus.OFFSET_ILLEGAL and result.next_begin_offset > offset:
        warn(f"{queue}: {gone(offset, result.next_begin_offset)}")
    return result.next_begin_offset


def _begins_again(offset: int, result: PullResult) -> bool:
    """Return True if the queue begins at 0 and ends below the offset, and the broker continues at its end."""
    is_moved = result.status is PullStatus.OFFSET_ILLEGAL and result.next_begin_offset == result.max_offset
    return is_moved and result.min_offset == 0 and result.max_offset < offset


Test = Callable[[MessageExt], bool]


def body_test(pattern: str) -> Test:
    """Return a test of bodies by a Python regular expression. Raise InvalidInput if it is invalid.

    Bodies are read as UTF-8; a byte that is not valid UTF-8 matches itself.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search = re.compile(pattern).search
    except re.error as error:
        raise InvalidInput(f"--grep {pattern!r}: {error}") from error
    return lambda message: search(message.body.decode("utf-8", "surrogateescape")) is not None


def where_condition(where: str) -> Predicate:
    """Parse a condition as `rmq inspect` does. Raise InvalidInput if it is invalid."""
    try:
        predicate = condition(where)
    except SelectorError as error:
        raise InvalidInput(f"--where: {error}") from error
    for name, column in mistaken_columns(predicate).items():
        warn(f"--where: {name} is read as a property; the column is {column}")
    return predicate


def mistaken_columns(predicate: Predicate) -> dict[str, str]:
    """Return names of properties that are written like columns in JSON, with the columns that they resemble."""
    spelled = {
        name: re.sub(r"(?<=[a-z])[A-Z]", lambda one: f"_{one[0]}", name).lower() for name in predicate.names
    }
    return {name: column for name, column in spelled.items() if name not in COLUMNS and column in COLUMNS}


def names_columns(predicate: Predicate) -> bool:
    """Return True if the condition needs more than properties, the only data that brokers evaluate."""
    return not predicate.names.isdisjoint(COLUMNS)


def where_test(predicate: Predicate) -> Test:
    return lambda message: predicate.matches(Columns(message))


def all_of(tests: list[Test]) -> Test:
    """Return a test that accepts a message if all of them do."""
    return lambda message: all(test(message) for test in tests)


class MatchingReader:
    """A `Reader` of the messages that pass a test."""

    def __init__(self, reader: Reader, test: Test) -> None:
        self._reader = reader
        self._test = test
        self.message_queues = reader.message_queues
        self.min_offset = reader.min_offset
        self.max_offset = reader.max_offset
        self.search_offset = reader.search_offset

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        max_nums: int = 32,
        expression: str = "*",
        *,
        suspend: float = 0.0,
    ) -> PullResult:
        """Pull from the underlying reader, and keep the messages that pass the test."""
        result = await self._reader.pull(queue, offset, max_nums, expression, suspend=suspend)
        return result._replace(messages=[message for message in result.messages if self._test(message)])
