"""A topic in memory that behaves as `PullConsumer` and `Producer` do, on trio's clock."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from codec.message import Message, MessageExt
from codec.message_queue import MessageQueue
from rmqcli.client import PullResult, PullStatus, SendResult, SendStatus
from tests.cli.messages import stored


class FakeTopic:
    """Queues of messages; `put` adds one. `first` is the minimum offset of every queue."""

    def __init__(self, queues: int, *, first: int = 0, batch: int = 2) -> None:
        self.queues = [MessageQueue("orders", "broker-a", number) for number in range(queues)]
        self.stored: dict[MessageQueue, list[MessageExt]] = {queue: [] for queue in self.queues}
        self.first = first
        self.batch = batch
        self.pulls = 0
        self.errors: list[Exception] = []
        self._came = trio.Event()

    def put(self, queue_id: int, time: int, *, tags: str = "A") -> None:
        queue = self.queues[queue_id]
        offset = self.first + len(self.stored[queue])
        message = stored(
            queue_id=queue_id, queue_offset=offset, store_timestamp=time, properties={"TAGS": tags}
        )
        self.stored[queue].append(message)
        self._came.set()
        self._came = trio.Event()

    async def message_queues(self, topic: str) -> list[MessageQueue]:
        await trio.lowlevel.checkpoint()
        return list(self.queues)

    async def min_offset(self, queue: MessageQueue) -> int:
        await trio.lowlevel.checkpoint()
        return self.first

    async def max_offset(self, queue: MessageQueue) -> int:
        await trio.lowlevel.checkpoint()
        return self.first + len(self.stored[queue])

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """As Java: any message of that millisecond, else the neighbour before or behind."""
        await trio.lowlevel.checkpoint()
        times = [message.store_timestamp for message in self.stored[queue]]
        equal = [place for place, time in enumerate(times) if time == timestamp_ms]
        later = [place for place, time in enumerate(times) if time > timestamp_ms]
        return self.first + (equal[-1] if equal else later[0] if later else max(0, len(times) - 1))

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        max_nums: int = 32,
        expression: str = "*",
        *,
        suspend: float = 0.0,
    ) -> PullResult:
        await trio.lowlevel.checkpoint()
        self.pulls += 1
        if self.errors:
            raise self.errors.pop(0)
        end = self.first + len(self.stored[queue])
        if offset < self.first:
            return PullResult(PullStatus.OFFSET_ILLEGAL, self.first, self.first, end, [])
        if offset >= end and suspend:
            with trio.move_on_after(suspend):
                await self._came.wait()
            end = self.first + len(self.stored[queue])
        if offset >= end:
            return PullResult(PullStatus.NO_NEW_MSG, offset, self.first, end, [])
        found = self.stored[queue][offset - self.first :][: min(max_nums, self.batch)]
        matching = [message for message in found if expression in ("*", message.tags)]
        status = PullStatus.FOUND if matching else PullStatus.NO_MATCHED_MSG
        return PullResult(status, offset + len(found), self.first, end, matching)


class FakeProducer:
    """Remembers what was sent. `errors` maps bodies to what sending them raises; every send takes `seconds`."""

    def __init__(self, errors: dict[bytes, Exception] | None = None, seconds: float = 1.0) -> None:
        self.errors = errors or {}
        self.seconds = seconds
        self.sent: list[tuple[list[bytes], MessageQueue | None]] = []
        self.times: list[float] = []
        self.in_flight = 0
        self.most_in_flight = 0

    async def send(self, message: Message, *, queue: MessageQueue | None = None) -> SendResult:
        return await self._send([message], queue)

    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None
    ) -> SendResult:
        return await self._send(messages, queue)

    async def send_oneway(self, message: Message, *, queue: MessageQueue | None = None) -> None:
        await self._send([message], queue)

    async def _send(self, messages: Sequence[Message], queue: MessageQueue | None) -> SendResult:
        self.times.append(trio.current_time())
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await trio.sleep(self.seconds)
        self.in_flight -= 1
        bodies = [message.body for message in messages]
        for body in bodies:
            if body in self.errors:
                raise self.errors[body]
        offset = sum(len(known) for known, _ in self.sent)
        self.sent.append((bodies, queue))
        ids = ",".join(f"id-{body.decode()}" for body in bodies)
        return SendResult(
            SendStatus.SEND_OK,
            ids,
            f"stored-{offset}",
            queue or MessageQueue("orders", "broker-a", 0),
            offset,
        )
