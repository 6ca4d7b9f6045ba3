"""Follows a topic with long polls on every queue, including new queues, through restarts of brokers.

A failed request is repeated every `_RETRY_S` seconds and reported once.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Sequence

import trio

from rmqcli.client import UNREACHED
from rmqcli.client.outages import Outages
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.flows.reading import BATCH, Reader, Span, next_offset
from rmqcli.render.output import Output, warn

_POLL_S = 15.0  # how long a broker holds a pull without new messages; the same as in Java's pull consumer
_RETRY_S = 1.0
_ROUTE_S = 30.0  # interval between checks for new queues

Sink = trio.MemorySendChannel[list[MessageExt]]


async def _fresh_queues(
    reader: Reader, topics: Sequence[str], known: set[MessageQueue]
) -> list[MessageQueue]:
    try:
        return [
            queue for topic in topics for queue in await reader.message_queues(topic) if queue not in known
        ]
    except UNREACHED:
        return []


async def _follow_queue(
    reader: Reader,
    queue: MessageQueue,
    offset: int | None,
    expression: str,
    sink: Sink,
    outages: Outages,
    since_ms: int | None = None,
) -> None:
    while True:
        try:
            if offset is None:
                offset = await _begin(reader, queue, since_ms)
            result = await reader.pull(queue, offset, BATCH, expression, suspend=_POLL_S)
        except UNREACHED as error:
            outages.failed("pulling", queue, error)
            await trio.sleep(_RETRY_S)
            continue
        outages.works(queue)
        # A search by time may return the message before that time.
        messages = [m for m in result.messages if since_ms is None or m.store_timestamp >= since_ms]
        if messages:
            await sink.send(messages)
        following = next_offset(queue, offset, result)
        if following == offset and not result.messages:
            await trio.lowlevel.checkpoint()
        offset = following


async def _begin(reader: Reader, queue: MessageQueue, since_ms: int | None) -> int:
    if since_ms is None:
        return await reader.max_offset(queue)
    return await reader.search_offset(queue, since_ms)


class Printer:
    """Prints messages until there are `count` (None: no limit), and flushes when a reader may be waiting.

    Messages stored at `until_ms` (epoch) or later are skipped.
    """

    def __init__(
        self,
        output: Output,
        render: Callable[[MessageExt], bytes],
        count: int | None = None,
        until_ms: int | None = None,
    ) -> None:
        self._until_ms = math.inf if until_ms is None else until_ms
        self._output = output
        self._render = render
        self._left = count
        self.printed = 0

    @property
    def done(self) -> bool:
        return self._left == 0

    def _print(self, message: MessageExt) -> None:
        if message.store_timestamp >= self._until_ms:
            return
        self._output.write(self._render(message))
        self.printed += 1
        if self._left is not None:
            self._left -= 1

    async def print_all(self, messages: AsyncIterator[MessageExt]) -> None:
        """Print until the messages end or there are enough."""
        async for message in messages:
            self._print(message)
            if self.done:
                break
        self._output.flush()

    def print_batch(self, messages: Sequence[MessageExt]) -> None:
        """Print the messages of a batch until there are enough."""
        for message in messages:
            if not self.done:
                self._print(message)
        self._output.flush()


async def follow_and_print(
    reader: Reader,
    topics: Sequence[str],
    ends: Sequence[Span],
    expression: str,
    printer: Printer,
    *,
    idle: float | None = None,
    absent: Sequence[MessageQueue] = (),
    new_queues: bool = True,
    since_ms: int = 0,
    deadline: float = math.inf,
) -> None:
    """Print new messages of all queues until there are enough, none arrives for `idle` seconds, or the
    deadline on trio's clock is reached.

    Each queue starts at the end of its span; `absent` queues start at their end when their broker responds. A
    queue that appears later may belong to a broker that was unavailable: it starts with the messages stored
    at `since_ms` (epoch) or later.
    """
    starts: dict[MessageQueue, int | None] = {span.queue: span.end for span in ends}
    starts |= dict.fromkeys(absent)
    send, receive = trio.open_memory_channel[list[MessageExt]](0)
    outages = Outages(warn)

    async def follow_new_queues() -> None:
        known = set(starts)
        while True:
            await trio.sleep(_ROUTE_S)
            for queue in await _fresh_queues(reader, topics, known):
                known.add(queue)
                nursery.start_soon(_follow_queue, reader, queue, None, expression, send, outages, since_ms)

    async with trio.open_nursery() as nursery:
        for queue, start in starts.items():
            nursery.start_soon(_follow_queue, reader, queue, start, expression, send, outages)
        if new_queues:
            nursery.start_soon(follow_new_queues)
        while not printer.done:
            silent = math.inf if idle is None else trio.current_time() + idle
            with trio.move_on_at(min(silent, deadline)) as waiting:
                printer.print_batch(await receive.receive())
            if waiting.cancelled_caught:
                break
        nursery.cancel_scope.cancel()
