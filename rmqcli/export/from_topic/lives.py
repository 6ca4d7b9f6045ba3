"""The queues of a cluster whose topics were deleted and created again since an export: see
`rmqcli.export.lives`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from rmqcli.client import ClientError, PullConsumer
from rmqcli.export.from_topic.batches import QueueRange
from rmqcli.export.from_topic.retrying import QueueEnd, patiently
from rmqcli.export.lives import explained, is_another
from rmqcli.export.output.manifest import Manifest
from rmqcli.export.output.spans import LastRow, QueueKey


class AnotherLife(ClientError):
    """A topic was deleted and created again since it was exported."""


class Lives(NamedTuple):
    """Ranges of queues that an export can be continued with, and the ends of those of recreated topics."""

    same: list[QueueRange]
    others: list[QueueEnd]


def lasts_of(previous: Manifest | None) -> Mapping[QueueKey, LastRow]:
    return {last.key: last for last in previous.last} if previous else {}


async def lives(client: Any, ranges: Sequence[QueueRange], previous: Manifest | None) -> Lives:
    """Compare the last exported record of each queue with what is there. Errors are left to who reads
    the queue.
    """
    known = lasts_of(previous)
    found = Lives([], [])
    for wanted in ranges:
        last = known.get((wanted.queue.topic, wanted.queue.broker_name, wanted.queue.queue_id))
        if last is not None and await _is_another(client, wanted, last):
            error = AnotherLife(explained(wanted.queue, last))
            found.others.append(QueueEnd(wanted, last.queue_offset + 1, error))
        else:
            found.same.append(wanted)
    return found


async def lives_for(
    client_options: Mapping[str, Any], ranges: Sequence[QueueRange], previous: Manifest | None
) -> Lives:
    if not lasts_of(previous):
        return Lives(list(ranges), [])
    async with PullConsumer(**client_options) as consumer:
        return await lives(consumer, ranges, previous)


async def _is_another(client: Any, wanted: QueueRange, last: LastRow) -> bool:
    offset = min(last.queue_offset, wanted.end - 1)
    if offset < 0:
        # Retention leaves the end of a queue where it is: one that is empty from 0 on has begun again.
        return wanted.end_time is None
    try:
        result = await patiently(partial(client.pull, wanted.queue, offset, 1))
    except ClientError:
        return False
    there = next(iter(result.messages), None)
    if there is None or there.queue_offset > last.queue_offset:
        return False  # retention has removed what could be compared
    return is_another(last, there.queue_offset, there.commit_log_offset)
