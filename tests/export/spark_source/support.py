"""Topics of a cluster through the data source: fill, read, stream, write, on the one session of the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import trio
from pyspark.sql import DataFrame, Row, SparkSession

from rmqcli.client import Admin, Producer, PullConsumer
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.message_queue import MessageQueue
from tests.support import PATIENCE

Place = tuple[int, int]
"""Queue id and queue offset."""


def fill(namesrv: str, topic: str, bodies: Iterable[bytes], queues: int = 4) -> None:
    """Sends one message for each body, to the queues in turn; tags t0, t1, t2 in turn. Creates the topic if
    needed.
    """

    async def main() -> None:
        async with (
            Admin(namesrv=namesrv, timeout=PATIENCE) as admin,
            Producer(namesrv=namesrv, timeout=PATIENCE, send_timeout=PATIENCE) as producer,
        ):
            if topic not in await admin.topics.names():
                await admin.topics.create(topic, read_queues=queues, write_queues=queues)
            targets = await producer.message_queues(topic)
            for number, body in enumerate(bodies):
                message = Message.of(topic, body, tags=f"t{number % 3}", keys=[f"k{number}"])
                await producer.send(message, queue=targets[number % len(targets)])

    trio.run(main)


def pulled(namesrv: str, topic: str) -> list[MessageExt]:
    """Returns every message of a topic."""

    async def main() -> list[MessageExt]:
        found: list[MessageExt] = []
        async with PullConsumer(namesrv=namesrv, timeout=PATIENCE) as consumer:
            for queue in await consumer.message_queues(topic):
                offset = await consumer.min_offset(queue)
                while (result := await consumer.pull(queue, offset)).messages:
                    found += result.messages
                    offset = result.next_begin_offset
        return found

    return trio.run(main)


def committed(namesrv: str, topic: str, group: str) -> dict[int, int | None]:
    """Returns the offsets of a group by queue id."""

    async def main() -> dict[int, int | None]:
        async with PullConsumer(group, namesrv=namesrv, timeout=PATIENCE) as consumer:
            queues = await consumer.message_queues(topic)
            return {queue.queue_id: await consumer.committed(queue) for queue in queues}

    return trio.run(main)


def queue(topic: str, number: int) -> MessageQueue:
    return MessageQueue(topic, "broker-a", number)


class Source(NamedTuple):
    """The format `rocketmq` with a name server."""

    session: SparkSession
    namesrv: str

    def batch(self, **options: str) -> DataFrame:
        return self.session.read.format("rocketmq").options(namesrv=self.namesrv, **options).load()

    def stream(self, **options: str) -> DataFrame:
        return self.session.readStream.format("rocketmq").options(namesrv=self.namesrv, **options).load()


class Sink:
    """Rows by batch: a repeated batch replaces the first. Batch `fail_in` raises after it was stored."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.batches: dict[int, list[Row]] = {}
        self.taken: list[int] = []
        self.fail_in: int | None = None

    def take(self, frame: DataFrame, number: int) -> None:
        self.taken.append(number)
        self.batches[number] = frame.select("topic", "queue_id", "queue_offset", "body").collect()
        if number == self.fail_in:
            raise ValueError(f"the sink fails in batch {number}")

    def run(self, frame: DataFrame) -> list[dict[str, Any]]:
        """Runs to the end of the topics; returns the progress of each batch."""
        writer = frame.writeStream.foreachBatch(self.take).option("checkpointLocation", str(self.checkpoint))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return [dict(progress) for progress in query.recentProgress]

    @property
    def rows(self) -> Iterator[Row]:
        return (row for number in sorted(self.batches) for row in self.batches[number])

    @property
    def places(self) -> list[Place]:
        return sorted((row.queue_id, row.queue_offset) for row in self.rows)


def places(queues: int, begin: int, end: int) -> list[Place]:
    """Returns offsets [begin, end) of queues 0 to `queues`."""
    return [(number, offset) for number in range(queues) for offset in range(begin, end)]


def says(error: Exception, text: str) -> bool:
    """Returns True if the error says so in the first of its own lines, without a traceback."""
    lines = str(error).splitlines()
    telling = next((number for number, line in enumerate(lines) if text in line), len(lines))
    return telling <= 1 and "Traceback" not in str(error)
