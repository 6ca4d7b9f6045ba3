"""Rows to topics, at least once.

A failed task is run again and sends its rows again, and rows of an abandoned job remain sent. Rows that
request a queue, by an ordering key or its number, are sent in the order of their task, one request per queue
at a time; others have no order. Rows of one topic are sent in batches, except those with a delay level or a
body that the producer would compress.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import trio
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from rmqcli.client import Producer, split_batch
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.export.from_topic.batches import first_error
from rmqcli.export.spark_source.options import WriteOptions
from rmqcli.export.spark_source.outages import plainly, writing
from rmqcli.export.spark_source.rows import Outgoing, outgoing

BATCH_BYTES = 256 * 1024
BATCH_MESSAGES = 512
IN_FLIGHT = 8
"""The number of requests of a task that wait for their replies."""
COMPRESS_OVER = 4096

Queues = Mapping[str, Sequence[MessageQueue]]
"""The writable queues, by topic."""


@dataclass(frozen=True)
class Sent(WriterCommitMessage):
    rows: int


class Packet(NamedTuple):
    """Messages of one topic for one request, and their queue (None: any)."""

    messages: list[Message]
    queue: MessageQueue | None = None


class RowSender:
    """Sends rows for batches and streams; runs in executors."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    @plainly
    def send(self, batches: Iterator[Any]) -> Sent:
        """Send all rows and wait until brokers acknowledge them. Raises ClientError and ExportError."""
        return Sent(trio.run(self._send, batches))

    async def _send(self, batches: Iterator[Any]) -> int:
        client = self.options.client
        rows = 0
        async with Producer(self.options.group, **client.arguments, **client.producer) as producer:
            # Spark may take long for the next rows; heartbeats continue meanwhile.
            while (batch := await trio.to_thread.run_sync(next, batches, None)) is not None:
                found = list(outgoing(batch, self.options))
                queues = {topic: await self._queues(producer, topic) for topic in _placed_topics(found)}
                await self._send_all(producer, self.packets(found, queues))
                rows += batch.num_rows
        return rows

    async def _queues(self, producer: Producer, topic: str) -> Sequence[MessageQueue]:
        return await writing(self.options, lambda: producer.message_queues(topic))

    def packets(self, rows: Iterable[Outgoing], queues: Queues) -> list[list[Packet]]:
        """Return lists of requests. The requests of one list must be sent one after another."""
        placed: dict[MessageQueue, list[Message]] = {}
        free: dict[str, list[Message]] = {}
        for message, place in rows:
            if place is None:
                free.setdefault(message.topic, []).append(message)
            else:
                placed.setdefault(place.queue(queues[message.topic], message), []).append(message)
        ordered = [[Packet(some, queue) for some in self._cut(found)] for queue, found in placed.items()]
        return ordered + [[Packet(some)] for found in free.values() for some in self._apart(found)]

    def _apart(self, messages: Sequence[Message]) -> Iterator[list[Message]]:
        """Yield the messages that are sent alone, then the others in batches."""
        yield from ([message] for message in messages if self._is_alone(message))
        together = [message for message in messages if not self._is_alone(message)]
        yield from split_batch(together, BATCH_BYTES, BATCH_MESSAGES)

    def _cut(self, messages: Sequence[Message]) -> Iterator[list[Message]]:
        """Yield the messages, alone or in batches, in their order."""
        for alone, some in groupby(messages, self._is_alone):
            if alone:
                yield from ([message] for message in some)
            else:
                yield from split_batch(list(some), BATCH_BYTES, BATCH_MESSAGES)

    def _is_alone(self, message: Message) -> bool:
        over = self.options.client.producer.get("compress_over", COMPRESS_OVER)
        return bool(message.delay_level or len(message.body) > over or message.topic.startswith("%"))

    async def _send_all(self, producer: Any, packets: Iterable[Sequence[Packet]]) -> None:
        """Send several lists of requests at a time. The first error ends all of them."""
        limit = trio.Semaphore(IN_FLIGHT)

        async def send(some: Sequence[Packet]) -> None:
            try:
                for packet in some:
                    await writing(self.options, partial(_sent, producer, packet))
            finally:
                limit.release()

        try:
            async with trio.open_nursery() as nursery:
                for some in packets:
                    await limit.acquire()
                    nursery.start_soon(send, some)
        except ExceptionGroup as group:
            raise first_error(group) from None


def _placed_topics(rows: Iterable[Outgoing]) -> set[str]:
    return {message.topic for message, place in rows if place is not None}


async def _sent(producer: Any, packet: Packet) -> None:
    messages, queue = packet
    if len(messages) == 1:
        await producer.send(messages[0], queue=queue)
    else:
        await producer.send_batch(messages, queue=queue)


class Writer(DataSourceArrowWriter):
    """Append in a batch query."""

    def __init__(self, options: WriteOptions) -> None:
        self.sender = RowSender(options)

    def write(self, iterator: Iterator[Any]) -> Sent:
        return self.sender.send(iterator)
