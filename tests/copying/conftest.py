"""Two clusters in memory, a topic to copy, and what happens to the sends that reach the target."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from rmqcli.broker.testing.in_memory import LOST, Lost, MemoryCluster, embedded_in_memory
from rmqcli.client import Admin, Producer, PullConsumer
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.copying.copier import Copier, Plan
from rmqcli.copying.progress import Job, Progress, Source
from rmqcli.grammar.offset_range import OffsetRange

COUNT = 60
SENDS = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)


class Pair:
    """Two clusters with the topics `orders` and `copies`, of some queues each, and what happens to sends."""

    def __init__(self, source: MemoryCluster, target: MemoryCluster, path: Path) -> None:
        self.source, self.target, self.path = source, target, path
        self.warnings: list[str] = []
        self.job = Job(source.namesrv, "orders", "target:9876", "copies", "keep")

    async def fill(self, count: int = COUNT, first: int = 0, **properties: str) -> None:
        async with Producer("p", **self.source.client()) as producer:
            for number in range(first, first + count):
                message = Message.of(
                    "orders",
                    b"body %d" % number,
                    keys=f"k{number % 7}",
                    tags="odd" if number // 4 % 2 else "even",
                    properties={"n": str(number), **properties},
                    flag=number,
                )
                await producer.send(message)

    @asynccontextmanager
    async def copier(self, plan: Plan, job: Job, *, resume: bool) -> AsyncIterator[tuple[Copier, Progress]]:
        async with (
            PullConsumer(**self.source.client()) as source,
            Producer("rmq-copy", allow_empty=True, **self.target.client()) as sink,
            PullConsumer(instance=sink.instance) as tail,
        ):
            with Progress(self.path, job, resume=resume) as progress:
                yield Copier(source, sink, tail, progress, plan, tell=self.warnings.append), progress

    async def copy(
        self, *, resume: bool = False, job: Job | None = None, **plan: Any
    ) -> tuple[Copier, Progress]:
        """Copy `orders` to its end."""
        whole = OffsetRange()
        async with self.copier(Plan(wanted=whole, **plan), job or self.job, resume=resume) as (
            copier,
            progress,
        ):
            async with PullConsumer(**self.source.client()) as reader:
                queues = await reader.message_queues("orders")
                ends: dict[MessageQueue, int | None] = {}
                for queue in queues:
                    progress.state.sources.setdefault(queue, Source(queue.broker_name, queue.queue_id, 0, 0))
                    ends[queue] = None if plan.get("follow") else await reader.max_offset(queue)
            await copier.prepare(queues)
            await copier.run(ends)
        return copier, progress

    async def read(self, cluster: MemoryCluster, topic: str) -> dict[int, list[MessageExt]]:
        found: dict[int, list[MessageExt]] = defaultdict(list)
        async with PullConsumer(**cluster.client()) as consumer:
            for queue in await consumer.message_queues(topic):
                offset, end = 0, await consumer.max_offset(queue)
                while offset < end:
                    result = await consumer.pull(queue, offset)
                    found[queue.queue_id] += result.messages
                    offset = result.next_begin_offset
        return found

    async def originals(self) -> dict[int, list[bytes]]:
        return bodies(await self.read(self.source, "orders"))

    async def copies(self) -> dict[int, list[bytes]]:
        return bodies(await self.read(self.target, "copies"))


def bodies(found: dict[int, list[MessageExt]]) -> dict[int, list[bytes]]:
    return {number: [one.body for one in messages] for number, messages in sorted(found.items()) if messages}


class Script:
    """What happens to the sends that reach the target."""

    def __init__(self) -> None:
        self.delays: list[float] = []
        self.lost = 0
        self.refused: bytes | None = None
        self.kept: list[RemotingCommand] = []
        self.losing = trio.Event()

    async def __call__(self, address: str, request: RemotingCommand) -> RemotingCommand | Lost | None:
        if request.code not in SENDS:
            return None
        if self.refused is not None and self.refused in request.body:
            return request.reply(ResponseCode.MESSAGE_ILLEGAL, "too large")
        if self.lost:
            self.lost -= 1
            self.kept.append(request)
            self.losing.set()
            return LOST
        if self.delays:
            await trio.sleep(self.delays.pop())
        return None


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
async def pair(tmp_path: Path, script: Script) -> AsyncIterator[Pair]:
    async with embedded_in_memory() as source, embedded_in_memory(on_request=script) as target:
        async with Admin(**source.client()) as admin:
            await admin.topics.create("orders", read_queues=4, write_queues=4)
        async with Admin(**target.client()) as admin:
            await admin.topics.create("copies", read_queues=4, write_queues=4)
        yield Pair(source, target, tmp_path / "progress.json")
