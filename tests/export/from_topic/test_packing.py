"""Tasks of as many bytes as are asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqcli.broker.testing.embedded import Cluster
from rmqcli.client import PullConsumer
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.export.from_topic.batches import QueueRange
from rmqcli.export.from_topic.ranges import QUEUE_BYTES, bytes_of, in_tasks, mean_sizes
from rmqcli.export.packing import SMALL_TASK_BYTES, TASK_BYTES, task_bytes
from tests.export.topics import fill
from tests.support import PATIENCE

KIB, MIB = 1 << 10, 1 << 20
Place = tuple[MessageQueue, int]


def ranges_of(counts: list[int], topic: str = "T") -> list[QueueRange]:
    return [
        QueueRange(MessageQueue(topic, "broker-a", number), 5, 5 + count)
        for number, count in enumerate(counts)
    ]


def places(ranges: list[QueueRange]) -> list[Place]:
    return [(wanted.queue, offset) for wanted in ranges for offset in range(wanted.begin, wanted.end)]


@pytest.mark.parametrize(
    ("total", "most", "cores", "size"),
    [
        (0, TASK_BYTES, 8, SMALL_TASK_BYTES),
        (SMALL_TASK_BYTES, TASK_BYTES, 8, SMALL_TASK_BYTES),
        (64 * MIB, TASK_BYTES, 8, 8 * MIB),
        (1 << 40, TASK_BYTES, 8, TASK_BYTES),
        (1 << 40, 1000, 8, 1000),
    ],
)
def test_the_size_of_tasks(total: int, most: int, cores: int, size: int) -> None:
    """The figures of Spark's file sources."""
    assert task_bytes(total, most, cores) == size


def test_small_queues_share_a_task_and_large_ones_are_cut() -> None:
    ranges = ranges_of([280] * 64)
    assert in_tasks(ranges, {"T": KIB}, TASK_BYTES) == [ranges]
    sizes = {"T": 200}
    found = in_tasks(ranges_of([10, 3_000_000, 10, 20]), sizes, 128 * MIB)
    assert [[wanted.queue.queue_id for wanted in task] for task in found] == [[0], *[[1]] * 5, [2, 3]]
    assert {-(-bytes_of(wanted, sizes) // MIB) for (wanted,) in found[1:6]} == {115}


def test_many_queues_of_little_are_not_one_task() -> None:
    """Each costs requests."""
    found = in_tasks(ranges_of([1] * 10_000), {"T": 100}, 128 * MIB)
    assert len(found) == -(-10_000 // (128 * MIB // (QUEUE_BYTES + 100)))


@given(
    st.lists(st.integers(1, 1000), min_size=1, max_size=8),
    st.integers(1, 40),
    st.integers(1, 1 << 20),
    st.integers(1, 5000),
)
def test_any_ranges(counts: list[int], at_least: int, size: int, message: int) -> None:
    ranges = ranges_of(counts)
    found = in_tasks(ranges, {"T": message}, size, at_least)
    assert len(found) >= min(at_least, sum(counts))
    assert places([wanted for task in found for wanted in task]) == places(ranges)
    assert all(wanted.begin < wanted.end for task in found for wanted in task)
    assert all(wanted in ranges for task in found for wanted in task if len(task) > 1)


async def test_messages_show_their_size(cluster: Cluster, topic: str) -> None:
    await fill(cluster, topic, 56)
    async with PullConsumer(namesrv=cluster.namesrv, timeout=PATIENCE) as client:
        queues = await client.message_queues(topic)
        ranges = [QueueRange(queue, 0, await client.max_offset(queue)) for queue in queues]
        pulled = (await client.pull(ranges[-1].queue, 0, 32)).messages
        mean = sum(message.store_size for message in pulled) // len(pulled)
        assert await mean_sizes(client, ranges) == {topic: mean}
        away = [QueueRange(MessageQueue("NoSuchTopic", "broker-x", 0), 0, 9)]
        assert await mean_sizes(client, away) == {}
