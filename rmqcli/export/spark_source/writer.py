"""Rows to topics, at least once: a task that fails is run again and sends its rows again, and rows of a job
that is given up stay sent. Rows have no order.

`body` (string or binary) is required; `topic` unless the option sets one; `tags` string, `keys` string or
array of strings, `properties` map of strings to strings. Rows of one topic are sent in batches, except those
with a delay level or a body that the producer would compress.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import trio
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from codec.message import Message
from rmqcli.client import Producer, split_batch
from rmqcli.export.errors import ExportError
from rmqcli.export.from_topic.retrying import first_error
from rmqcli.export.spark_source.options import OptionError, WriteOptions
from rmqcli.export.spark_source.outages import writing

BATCH_BYTES = 256 * 1024
BATCH_MESSAGES = 512
IN_FLIGHT = 8
"""Requests of a task that wait for their response."""
COMPRESS_OVER = 4096

_TYPES: Mapping[str, tuple[str, ...]] = {
    "body": ("binary", "string"),
    "topic": ("string",),
    "tags": ("string",),
    "keys": ("string", "array<string>"),
    "properties": ("map<string,string>",),
}


@dataclass(frozen=True)
class Sent(WriterCommitMessage):
    rows: int


def check_columns(schema: StructType, options: WriteOptions) -> None:
    """Raises OptionError if these columns do not make messages."""
    for column in schema:
        kind, expected = column.dataType.simpleString(), _TYPES.get(column.name)
        if expected is None:
            raise OptionError(f"column {column.name} is not written; select from {', '.join(_TYPES)}")
        if kind not in expected:
            raise OptionError(f"column {column.name} is {kind}: expected {' or '.join(expected)}")
    if "body" not in schema.names:
        raise OptionError("column body is missing")
    if "topic" not in schema.names and options.topic is None:
        raise OptionError("there is neither a column topic nor the option topic")


class RowSender:
    """Sends rows for batches and streams; runs in executors."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    def send(self, batches: Iterator[Any]) -> Sent:
        """Sends all rows until brokers acknowledge them. Raises ClientError."""
        return Sent(trio.run(self._send, batches))

    async def _send(self, batches: Iterator[Any]) -> int:
        client = self.options.client
        rows = 0
        async with Producer(self.options.group, **client.arguments, **client.producer) as producer:
            # Spark may take long for the next rows; heartbeats continue meanwhile.
            while (batch := await trio.to_thread.run_sync(next, batches, None)) is not None:
                await _send_all(self.options, producer, self.packets(batch))
                rows += batch.num_rows
        return rows

    def packets(self, batch: Any) -> Iterator[list[Message]]:
        """Yields requests: lists of messages of one topic, or one message that is sent alone."""
        over = self.options.client.producer.get("compress_over", COMPRESS_OVER)
        together: dict[str, list[Message]] = {}
        for message in self.messages(batch):
            if message.delay_level or len(message.body) > over or message.topic.startswith("%"):
                yield [message]
            else:
                together.setdefault(message.topic, []).append(message)
        for messages in together.values():
            yield from split_batch(messages, BATCH_BYTES, BATCH_MESSAGES)

    def messages(self, batch: Any) -> Iterator[Message]:
        """Yields messages. Raises ExportError for a row without topic or body."""
        columns = {name: batch[name].to_pylist() for name in batch.schema.names}
        for values in zip(*columns.values(), strict=True):
            yield self._message(dict(zip(columns, values, strict=True)))

    def _message(self, row: Mapping[str, Any]) -> Message:
        topic, body = row.get("topic") or self.options.topic, row["body"]
        if topic is None or body is None:
            raise ExportError(f"a row has no {'topic' if topic is None else 'body'}: {dict(row)}")
        properties = {name: value for name, value in row.get("properties") or () if value is not None}
        keys = row.get("keys") or ()
        return Message.of(topic, body, tags=row.get("tags"), keys=keys, properties=properties)


async def _send_all(options: WriteOptions, producer: Any, packets: Iterable[list[Message]]) -> None:
    """Sends several requests at a time, in as many attempts as `options` allow; the first error ends it."""
    limit = trio.Semaphore(IN_FLIGHT)

    async def send(packet: list[Message]) -> None:
        async def once() -> None:
            await (producer.send(packet[0]) if len(packet) == 1 else producer.send_batch(packet))

        try:
            await writing(options, once)
        finally:
            limit.release()

    try:
        async with trio.open_nursery() as nursery:
            for packet in packets:
                await limit.acquire()
                nursery.start_soon(send, packet)
    except ExceptionGroup as group:
        raise first_error(group) from None


class Writer(DataSourceArrowWriter):
    """Batch append."""

    def __init__(self, options: WriteOptions) -> None:
        self.sender = RowSender(options)

    def write(self, iterator: Iterator[Any]) -> Sent:
        return self.sender.send(iterator)
