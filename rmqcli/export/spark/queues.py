"""Tasks that read queues: a whole one, several, or a range of a large one; and how far each queue was read."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple

import trio

from rmqcli.client import ClientError, PullConsumer
from rmqcli.export.from_topic import packing
from rmqcli.export.from_topic.batches import QueueRange, read_some
from rmqcli.export.from_topic.retrying import QueueEnd, patiently, reached

End = tuple[int, str]
"""The offset that a queue was read to, and why not further."""


class Written(NamedTuple):
    """The names of a task's files, in order, and the ends of its queues."""

    names: list[str]
    ends: list[End]


async def mean_sizes(client_options: Mapping[str, Any], ranges: list[QueueRange]) -> dict[str, int]:
    async with PullConsumer(**client_options) as consumer:
        return await packing.mean_sizes(consumer, ranges)


def joined(
    wanted: Sequence[QueueRange], tasks: Sequence[list[QueueRange]], done: Sequence[Written]
) -> tuple[list[QueueEnd], list[str]]:
    """Return how far each queue was read without a gap, and the files up to there."""
    ends = {one.queue: QueueEnd(one, one.begin) for one in wanted}
    names: list[str] = []
    for task, written in zip(tasks, done, strict=True):
        # Only a cut queue is in several tasks, and each of these has nothing else.
        if ends[task[0].queue].error is None:
            names += written.names
            for piece, end in zip(task, written.ends, strict=True):
                ends[piece.queue] = _after(ends[piece.queue], piece, end)
    return list(ends.values()), names


def _after(before: QueueEnd, piece: QueueRange, end: End) -> QueueEnd:
    offset, reason = end
    is_further = offset > piece.begin or piece.end_time is None
    return QueueEnd(
        before.wanted, offset if is_further else before.reached, ClientError(reason) if reason else None
    )


def read_queues(
    client_options: dict[str, Any], tasks: list[list[QueueRange]], index: int
) -> Generator[Any, None, list[End]]:
    ends: list[End] = []
    for wanted in tasks[index]:
        end = yield from _read_queue(client_options, wanted)
        ends.append(end)
    return ends


def _read_queue(client_options: dict[str, Any], wanted: QueueRange) -> Generator[Any, None, End]:
    """Read batches, each with its own client: a connection costs little in comparison."""
    end, offset = wanted.begin, wanted.begin
    following: int | None = offset
    while following is not None:
        offset = following
        batch, following, reason = trio.run(_step, client_options, wanted, offset)
        if reason:
            return end, reason
        yield batch
        end = reached(wanted, end, batch, following)
    return end, ""


async def _step(
    client_options: dict[str, Any], wanted: QueueRange, offset: int
) -> tuple[Any, int | None, str]:
    async with PullConsumer(**client_options) as consumer:
        try:
            return *await patiently(lambda: read_some(consumer, wanted, offset)), ""
        except ClientError as error:
            return None, None, str(error)
