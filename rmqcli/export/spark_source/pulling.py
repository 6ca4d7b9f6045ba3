"""Queue ranges as record batches, and the treatment of missing messages.

Every offset of a queue has a message. Messages that a pull leaves out, unless by a selector, are lost:
deleted by retention, or with a topic that was deleted and created again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import trio

from codec.message import MessageExt
from rmqcli.client import PullConsumer, PullStatus
from rmqcli.export.errors import ExportError
from rmqcli.export.from_topic.batches import BATCH_BYTES, BATCH_MESSAGES, QueueRange, to_batch
from rmqcli.export.spark_source.options import ReadOptions
from rmqcli.export.spark_source.outages import reading
from rmqcli.render.output import warn
from rmqcli.words import messages_at


class DataLoss(ExportError):
    """Messages to read are missing, and `failOnDataLoss` is true (the default)."""


def lose(text: str, options: ReadOptions) -> None:
    """Raise DataLoss, or warns on standard error when `failOnDataLoss` is false."""
    if options.fail_on_data_loss:
        raise DataLoss(f"{text}; set failOnDataLoss=false to continue without them")
    warn(text)


def read_ranges(wanted: Sequence[QueueRange], options: ReadOptions) -> Iterator[Any]:
    """Yield record batches of the export schema, range after range.

    Runs in the caller's thread; raise ClientError, Outage.
    """

    async def step(rest: Sequence[QueueRange]) -> _Gathered:
        brokers = {item.queue.broker_name for item in rest}
        return await reading(options, lambda consumer: _pull_batch(consumer, rest, options), brokers)

    rest = [item for item in wanted if item.begin < item.end]
    while rest:
        # A connection for each batch: Spark may pause for any time between batches, and a connection costs
        # little.
        messages, rest = trio.run(step, rest)
        if messages:
            yield to_batch(messages)


class _Gathered(NamedTuple):
    messages: list[MessageExt]
    rest: list[QueueRange]


async def _pull_batch(
    consumer: PullConsumer, wanted: Sequence[QueueRange], options: ReadOptions
) -> _Gathered:
    """Pull messages of one range after the other until they are enough for a batch; return what is left."""
    gathered: list[MessageExt] = []
    size = 0
    rest = list(wanted)
    while rest and len(gathered) < BATCH_MESSAGES and size < BATCH_BYTES:
        pulled = await pull_some(consumer, rest[0], rest[0].begin, options)
        gathered += pulled.messages
        size += sum(len(message.body) for message in pulled.messages)
        rest[0] = rest[0]._replace(begin=pulled.next)
        if pulled.next >= rest[0].end:
            del rest[0]
    return _Gathered(gathered, rest)


class _Pulled(NamedTuple):
    messages: list[MessageExt]
    next: int


async def pull_some(consumer: PullConsumer, wanted: QueueRange, offset: int, options: ReadOptions) -> _Pulled:
    """Pull messages from `offset` on, up to BATCH_MESSAGES or BATCH_BYTES; also returns the next offset."""
    gathered: list[MessageExt] = []
    size = 0
    while offset < wanted.end and len(gathered) < BATCH_MESSAGES and size < BATCH_BYTES:
        most = min(options.pull_batch, wanted.end - offset)
        result = await consumer.pull(
            wanted.queue, offset, most, options.selector, expression_type=options.selector_type
        )
        following = result.next_begin_offset
        if result.status is PullStatus.NO_NEW_MSG or following <= offset:
            lose(
                f"{wanted.queue}: the queue is shorter now, without {messages_at(offset, wanted.end)}",
                options,
            )
            return _Pulled(gathered, wanted.end)
        taken = [message for message in result.messages if offset <= message.queue_offset < wanted.end]
        _check(wanted, offset, min(following, wanted.end), result.status, taken, options)
        gathered += taken
        size += sum(len(message.body) for message in taken)
        offset = following
    return _Pulled(gathered, offset)


def _check(
    wanted: QueueRange,
    offset: int,
    following: int,
    status: PullStatus,
    taken: list[MessageExt],
    options: ReadOptions,
) -> None:
    is_selected = options.selector.strip() not in ("", "*") and status is not PullStatus.OFFSET_ILLEGAL
    missing = 0 if is_selected else following - offset - len(taken)
    if missing:
        lose(
            f"{wanted.queue}: of {messages_at(offset, following)}, {missing} no longer "
            f"exist{'s' if missing == 1 else ''}",
            options,
        )
