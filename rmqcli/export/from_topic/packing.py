"""Ranges of queues as tasks, by the sizes that their messages are estimated to have.

Offsets say how many messages a range has; how large they are, the first messages of the longest range of each
topic show.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

import trio

from rmqcli.client import ClientError, PullConsumer
from rmqcli.export.from_topic.batches import QueueRange
from rmqcli.export.packing import packed

AT_ONCE = 16
"""Topics that are asked at the same time."""
SAMPLE = 32
DEFAULT_BYTES = 1024
"""The size of a message of a topic of which no message shows one."""
QUEUE_BYTES = 64 * 1024
"""The cost of the requests for a queue: bytes that are read in that time."""


async def mean_sizes(consumer: PullConsumer, ranges: Sequence[QueueRange]) -> dict[str, int]:
    """Return the mean stored size of messages by topic, from one pull each, as far as brokers respond."""
    longest = {wanted.queue.topic: wanted for wanted in sorted(ranges, key=len_of)}
    found: dict[str, int] = {}
    limit = trio.CapacityLimiter(AT_ONCE)

    async def ask(wanted: QueueRange) -> None:
        # Nothing depends on the answer but the sizes of tasks: what is away is told where it is read.
        with suppress(ClientError):
            async with limit:
                most = min(SAMPLE, len_of(wanted))
                messages = (await consumer.pull(wanted.queue, wanted.begin, most)).messages
            if messages:
                found[wanted.queue.topic] = sum(one.store_size for one in messages) // len(messages)

    async with trio.open_nursery() as nursery:
        for wanted in longest.values():
            nursery.start_soon(ask, wanted)
    return found


def len_of(wanted: QueueRange) -> int:
    """Return the number of messages."""
    return wanted.end - wanted.begin


def bytes_of(wanted: QueueRange, sizes: Mapping[str, int]) -> int:
    return len_of(wanted) * sizes.get(wanted.queue.topic, DEFAULT_BYTES) + QUEUE_BYTES


def in_tasks(
    ranges: Collection[QueueRange], sizes: Mapping[str, int], size: int, at_least: int = 1
) -> list[list[QueueRange]]:
    """Return tasks of about `size` bytes, `at_least` so many if there are as many messages.

    A task has several ranges only if it has them whole.
    """

    def cut(wanted: QueueRange, count: int) -> list[QueueRange]:
        return wanted.cut(min(count, len_of(wanted)))

    tasks = packed(ranges, lambda wanted: bytes_of(wanted, sizes), cut, size)
    if len(tasks) >= at_least:
        return tasks
    return packed(ranges, len_of, cut, max(1, sum(map(len_of, ranges)) // at_least))
