"""Queue ranges as record batches, and the treatment of missing messages.

Every offset of a queue has a message. Messages that a pull leaves out, unless by a selector, are lost:
deleted by retention, or with a topic that was deleted and created again.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    """Raises DataLoss, or warns on standard error when `failOnDataLoss` is false."""
    if options.fail_on_data_loss:
        raise DataLoss(f"{text}; set failOnDataLoss=false to continue without them")
    warn(text)


def read_range(wanted: QueueRange, options: ReadOptions) -> Iterator[Any]:
    """Yields record batches of the export schema. Runs in the caller's thread; raises ClientError, Outage."""

    async def step(offset: int) -> _Pulled:
        return await reading(
            options,
            lambda consumer: pull_some(consumer, wanted, offset, options),
            [wanted.queue.broker_name],
        )

    offset = wanted.begin
    while offset < wanted.end:
        # A connection for each batch: Spark may pause for any time between batches, and a connection costs
        # little.
        pulled = trio.run(step, offset)
        if pulled.messages:
            yield to_batch(pulled.messages)
        offset = pulled.next


class _Pulled(NamedTuple):
    messages: list[MessageExt]
    next: int


async def pull_some(consumer: PullConsumer, wanted: QueueRange, offset: int, options: ReadOptions) -> _Pulled:
    """Pulls messages from `offset` on, up to BATCH_MESSAGES or BATCH_BYTES; also returns the next offset."""
    gathered: list[MessageExt] = []
    size = 0
    while offset < wanted.end and len(gathered) < BATCH_MESSAGES and size < BATCH_BYTES:
        result = await consumer.pull(
            wanted.queue, offset, options.pull_batch, options.selector, expression_type=options.selector_type
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
