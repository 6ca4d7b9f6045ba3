"""Exports of a topic equal what pulling gives, on every column; memory is bounded by the batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmqcli.broker.testing.embedded import Cluster
from rmqcli.client import PullConsumer, PullStatus
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.export import QueueRange, export_topic
from rmqcli.export.from_topic.batches import read_some, to_batch
from tests.export.support import as_row, rows_of
from tests.export.topics import ScriptedTopic, fill, in_order, message
from tests.support import PATIENCE

QUEUE = MessageQueue("T", "broker-a", 0)


async def pulled(client: PullConsumer, queue: MessageQueue) -> list[MessageExt]:
    found: list[MessageExt] = []
    while (result := await client.pull(queue, len(found))).status is PullStatus.FOUND:
        found += result.messages
    return found


async def test_a_topic_equals_its_pulls(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    await fill(cluster, topic)
    told: list[int] = []
    async with PullConsumer(namesrv=cluster.namesrv, timeout=PATIENCE) as client:
        queues = await client.message_queues(topic)
        expected = [as_row(message) for queue in queues for message in await pulled(client, queue)]
        ranges = [QueueRange(queue, 0, await client.max_offset(queue)) for queue in queues]
        summary = await export_topic(client, ranges, tmp_path / "out", told.append)
    assert summary.rows == sum(told) == 60
    rows = rows_of(tmp_path / "out")
    assert in_order(rows) == in_order(expected)
    assert {row["broker_name"] for row in rows} == {"broker-a"}
    (large,) = [row for row in rows if row["flag"] == 7]
    assert (large["body"], large["sys_flag"] & 1) == (b"x" * 9000, 1)


async def batches(topic: ScriptedTopic, wanted: QueueRange, **bounds: Any) -> list[list[int]]:
    found: list[list[int]] = []
    offset: int | None = wanted.begin
    async with topic.client() as client:
        while offset is not None:
            batch, offset = await read_some(client, wanted, offset, **bounds)
            found.append(batch["queue_offset"].to_pylist())
    return found


async def test_a_batch_is_bounded_in_rows() -> None:
    found = await batches(ScriptedTopic(0, 200), QueueRange(QUEUE, 10, 150), batch_messages=40)
    assert [len(batch) for batch in found] == [64, 64, 12]
    assert [offset for batch in found for offset in batch] == list(range(10, 150))


async def test_a_batch_is_bounded_in_bytes() -> None:
    found = await batches(ScriptedTopic(0, 100, size=500), QueueRange(QUEUE, 0, 100), batch_bytes=1000)
    assert [len(batch) for batch in found] == [32, 32, 32, 4]


async def test_what_retention_took_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert await batches(ScriptedTopic(70, 100), QueueRange(QUEUE, 10, 100)) == [list(range(70, 100))]
    assert capsys.readouterr().err == "rmq: T@broker-a:0: messages 10 to 69 no longer exist\n"


async def test_a_queue_that_ends_early() -> None:
    assert await batches(ScriptedTopic(0, 50), QueueRange(QUEUE, 40, 100)) == [list(range(40, 50))]
    assert await batches(ScriptedTopic(0, 50), QueueRange(QUEUE, 50, 50)) == [[]]


async def test_times_decide_at_the_edges() -> None:
    wanted = QueueRange(QUEUE, 0, 100, begin_time=1010, end_time=1015)
    assert await batches(ScriptedTopic(0, 100), wanted) == [[10, 11, 12, 13, 14]]


@pytest.mark.parametrize("milliseconds", [2**63 - 1, -(2**63)])
def test_a_time_out_of_range_is_clamped(milliseconds: int) -> None:
    import msgspec

    batch = to_batch([msgspec.structs.replace(message(0), born_timestamp=milliseconds)])
    assert abs(batch["born_timestamp"].cast("int64")[0].as_py()) == (2**63 - 1) // 1000 * 1000
