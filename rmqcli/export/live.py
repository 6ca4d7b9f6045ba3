"""Queue ranges of a running cluster as record batches."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, NamedTuple

from codec.message import MessageExt
from codec.queue import MessageQueue
from rmqcli.client import PullConsumer, PullStatus

__all__ = ["QueueRange", "pull_batches", "pull_messages", "to_batch"]

BATCH_MESSAGES = 8192


class QueueRange(NamedTuple):
    """Queue offsets [begin, end) of a queue; store times in ms, half-open, None is open."""

    queue: MessageQueue
    begin: int
    end: int
    begin_time: int | None = None
    end_time: int | None = None

    def takes(self, message: MessageExt) -> bool:
        """Whether a pulled message is inside."""
        after = self.begin_time is None or message.store_timestamp >= self.begin_time
        before = self.end_time is None or message.store_timestamp < self.end_time
        return self.begin <= message.queue_offset < self.end and after and before


async def pull_messages(client: PullConsumer, wanted: QueueRange) -> AsyncGenerator[MessageExt, None]:
    """Messages of a queue in order. What retention took meanwhile is skipped; a refusal is raised."""
    offset = wanted.begin
    while offset < wanted.end:
        result = await client.pull(wanted.queue, offset)
        for message in result.messages:
            if wanted.takes(message):
                yield message
        behind = result.next_begin_offset
        if result.status is PullStatus.NO_NEW_MSG or behind <= offset:
            return
        offset = behind


async def pull_batches(client: PullConsumer, wanted: QueueRange) -> AsyncIterator[Any]:
    """The same as record batches of at most BATCH_MESSAGES rows."""
    gathered: list[MessageExt] = []
    async with aclosing(pull_messages(client, wanted)) as messages:
        async for message in messages:
            gathered.append(message)
            if len(gathered) == BATCH_MESSAGES:
                yield to_batch(gathered)
                gathered = []
    if gathered:
        yield to_batch(gathered)


def to_batch(messages: list[MessageExt]) -> Any:
    """Messages as a record batch of the export schema."""
    import pyarrow as pa

    from codec.scan.arrow import schema

    columns = {name: [read(message) for message in messages] for name, read in _COLUMNS.items()}
    wanted = schema()
    return pa.RecordBatch.from_arrays(
        [pa.array(columns[field.name], field.type) for field in wanted], schema=wanted
    )


_COLUMNS: dict[str, Any] = {
    "topic": lambda m: m.topic,
    "broker_name": lambda m: m.broker_name or None,
    "queue_id": lambda m: m.queue_id,
    "queue_offset": lambda m: m.queue_offset,
    "commit_log_offset": lambda m: m.commit_log_offset,
    "msg_id": lambda m: m.msg_id,
    "offset_msg_id": lambda m: m.offset_msg_id,
    "tags": lambda m: m.tags,
    "keys": lambda m: m.keys,
    "properties": lambda m: list(m.properties.items()),
    "born_timestamp": lambda m: m.born_timestamp * 1000,
    "born_host": lambda m: m.born_host,
    "store_timestamp": lambda m: m.store_timestamp * 1000,
    "store_host": lambda m: m.store_host,
    "flag": lambda m: m.flag,
    "sys_flag": lambda m: m.sys_flag,
    "reconsume_times": lambda m: m.reconsume_times,
    "prepared_transaction_offset": lambda m: m.prepared_transaction_offset,
    "store_size": lambda m: m.store_size,
    "body_crc": lambda m: m.body_crc,
    "body": lambda m: m.body,
}
