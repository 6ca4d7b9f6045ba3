"""Queue ranges of a running cluster as record batches, each bounded in rows and bytes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import trio

from rmqcli.client import ClientError, InvalidRequest, NotFound, NotPermitted, PullConsumer, PullStatus
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.records.filter import COLUMNS
from rmqcli.codec.scan.arrow import schema
from rmqcli.counts import gone
from rmqcli.render.output import warn

BATCH_MESSAGES = 8192
BATCH_BYTES = 32 * 1024 * 1024

_MAX_MS = (2**63 - 1) // 1000


class QueueRange(NamedTuple):
    """Queue offsets [begin, end) of a queue. Store times are in ms and half-open; None is unbounded."""

    queue: MessageQueue
    begin: int
    end: int
    begin_time: int | None = None
    end_time: int | None = None

    def cut(self, count: int) -> list[QueueRange]:
        """Cut the range into `count` ranges (at least one) of about the same size."""
        count = max(count, 1)
        cuts = [self.begin + (self.end - self.begin) * number // count for number in range(count + 1)]
        return [self._replace(begin=begin, end=end) for begin, end in pairwise(cuts)]

    def takes(self, message: MessageExt) -> bool:
        after = self.begin_time is None or message.store_timestamp >= self.begin_time
        before = self.end_time is None or message.store_timestamp < self.end_time
        return self.begin <= message.queue_offset < self.end and after and before


async def read_some(
    client: PullConsumer,
    wanted: QueueRange,
    offset: int,
    batch_messages: int = BATCH_MESSAGES,
    batch_bytes: int = BATCH_BYTES,
    lost: Callable[[str], None] = lambda text: None,
) -> tuple[Any, int | None]:
    """Pull a record batch from `offset` on. Return it with the next offset, None at the end of the range.

    A batch ends after `batch_messages` messages or `batch_bytes` of bodies. Messages that retention removed
    are skipped with a warning, which is also passed to `lost`. Raises ClientError.
    """
    gathered: list[MessageExt] = []
    size = 0
    while offset < wanted.end and len(gathered) < batch_messages and size < batch_bytes:
        result = await client.pull(wanted.queue, offset)
        taken = [message for message in result.messages if wanted.takes(message)]
        gathered += taken
        size += sum(len(message.body) for message in taken)
        following = result.next_begin_offset
        # The broker has no further messages, for example a slave that lags behind.
        if following <= offset:
            return to_batch(gathered), None
        if result.status is PullStatus.OFFSET_ILLEGAL:
            text = f"{wanted.queue}: {gone(offset, following)}"
            warn(text)
            lost(text)
        offset = following
    return to_batch(gathered), offset if offset < wanted.end else None


def to_batch(messages: list[MessageExt]) -> Any:
    wanted = schema()
    return pa.RecordBatch.from_arrays(
        [pa.array(map(_COLUMNS[field.name], messages), field.type) for field in wanted], schema=wanted
    )


def _micros(milliseconds: int) -> int:
    return min(max(milliseconds, -_MAX_MS), _MAX_MS) * 1000


_COLUMNS: dict[str, Any] = {
    **COLUMNS,
    "broker_name": lambda message: message.broker_name or None,
    "keys": lambda message: message.keys,
    "properties": lambda message: list(message.properties.items()),
    "born_timestamp": lambda message: _micros(message.born_timestamp),
    "store_timestamp": lambda message: _micros(message.store_timestamp),
    "body": lambda message: message.body,
}


TRIES = 4
FIRST_WAIT = 0.5
_HOPELESS = (InvalidRequest, NotFound, NotPermitted)

T = TypeVar("T")


class QueueEnd(NamedTuple):
    """The end of a queue: all of `wanted` before offset `reached` was exported.

    `error` is the reason why the rest was not, `lost` lists the messages that were removed while it was read.
    """

    wanted: QueueRange
    reached: int
    error: ClientError | None = None
    lost: tuple[str, ...] = ()


def first_error(error: BaseException) -> BaseException:
    """Return one error of a group, because callers expect a plain one."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def patiently(attempt: Callable[[], Awaitable[T]]) -> T:
    """Return the result of the first attempt that succeeds. Raises the last ClientError if none does."""
    wait = FIRST_WAIT
    for _ in range(TRIES - 1):
        try:
            return await attempt()
        except _HOPELESS:
            raise
        except ClientError:
            await trio.sleep(wait)
            wait *= 2
    return await attempt()


async def read_queue(
    client: Any,
    wanted: QueueRange,
    take: Callable[[Any], Awaitable[None]],
    batch_messages: int = BATCH_MESSAGES,
) -> QueueEnd:
    """Pass the record batches of a range to `take`. Return the end that was reached."""
    lost: list[str] = []
    end, offset = wanted.begin, wanted.begin
    following: int | None = offset
    while following is not None:
        offset = following

        async def step(offset: int = offset) -> tuple[Any, int | None]:
            return await read_some(client, wanted, offset, batch_messages, lost=lost.append)

        try:
            batch, following = await patiently(step)
        except ClientError as error:
            return QueueEnd(wanted, end, error, tuple(lost))
        await take(batch)
        end = reached(wanted, end, batch, following)
    return QueueEnd(wanted, end, lost=tuple(lost))


def reached(wanted: QueueRange, before: int, batch: Any, following: int | None) -> int:
    """Return the offset where a resumed export continues.

    It is the one after the last message if the range ends at a time, or if the broker had no more messages
    although the range continues (a slave lags behind).
    """
    if wanted.end_time is None and following is not None:
        return following
    return batch["queue_offset"][-1].as_py() + 1 if batch.num_rows else before
