"""Topics to export: filled through a producer, or served by a client that needs no broker."""

from __future__ import annotations

from broker.testing.embedded import Cluster
from codec.message import Message, MessageExt
from codec.message_queue import MessageQueue
from rmqcli.client import Producer, PullResult, PullStatus
from tests.export.support import Row
from tests.support import PATIENCE


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["queue_id"], row["queue_offset"]))


async def fill(cluster: Cluster, topic: str, count: int = 60) -> None:
    """Sends bodies of all kinds; one of them is large enough to be compressed."""
    async with Producer(
        "G_fill", namesrv=cluster.namesrv, timeout=PATIENCE, send_timeout=PATIENCE
    ) as producer:
        for number in range(count):
            message = Message.of(
                topic,
                b"\xff\x00" * (number + 1) if number != 7 else b"x" * 9000,
                tags=f"tag{number % 3}" if number % 4 else None,
                keys=[f"k{number}", "ü"] if number % 5 else (),
                properties={"a": "1", "ä": "ö"} if number % 2 else None,
                flag=number,
            )
            await producer.send(message)


def message(offset: int, size: int = 1) -> MessageExt:
    return MessageExt(
        topic="T",
        queue_id=0,
        queue_offset=offset,
        commit_log_offset=offset * 100,
        flag=0,
        sys_flag=0,
        born_timestamp=1,
        born_host="127.0.0.1:1",
        store_timestamp=1000 + offset,
        store_host="127.0.0.1:2",
        reconsume_times=0,
        prepared_transaction_offset=0,
        body_crc=0,
        store_size=100,
        body=b"x" * size,
        properties={},
        broker_name="broker-a",
    )


class FakeClient:
    """A queue whose first `first` messages are deleted."""

    def __init__(self, first: int, end: int, size: int = 1) -> None:
        self.first, self.end, self.size = first, end, size

    async def pull(self, queue: MessageQueue, offset: int) -> PullResult:
        if offset < self.first:
            return PullResult(PullStatus.OFFSET_ILLEGAL, self.first, self.first, self.end, [])
        if offset >= self.end:
            return PullResult(PullStatus.NO_NEW_MSG, offset, self.first, self.end, [])
        found = [message(n, self.size) for n in range(offset, min(offset + 32, self.end))]
        return PullResult(PullStatus.FOUND, offset + len(found), self.first, self.end, found)
