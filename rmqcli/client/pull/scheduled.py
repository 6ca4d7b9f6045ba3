"""Periodic tasks for the queues of a pull consumer (Java `MQPullConsumerScheduleService`).

A task does one round of work on one queue, including the pull, and returns the seconds until its next round
(None: NEXT). Rebalance starts and cancels tasks; at most `at_once` run at a time. An exception of a task is
logged, and the task is called again after FAILED seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

import trio

from rmqcli.client.functions import called
from rmqcli.client.pull.consumer import PullConsumer
from rmqcli.codec.message_queue import MessageQueue

NEXT = 0.2
FAILED = 1.0
AT_ONCE = 20

log = logging.getLogger("rmqcli.client.pull.scheduled")

PullTask = Callable[[PullConsumer, MessageQueue], Awaitable[float | None]]
"""One round on one queue. It must commit offsets itself, with `consumer.commit`.

```python
async def work(consumer, queue):
    result = await consumer.pull(queue, await consumer.committed(queue) or 0)
    await consumer.commit(queue, result.next_begin_offset)
    return 0.0 if result.messages else 1.0
```
"""


class ScheduledPull:
    """Runs pull tasks: `await ScheduledPull(consumer, {"topic": task}).run()`. `consumer` must be entered.

    ```python
    async def work(consumer, queue):
        result = await consumer.pull(queue, await consumer.committed(queue) or 0)
        await consumer.commit(queue, result.next_begin_offset)

    async with PullConsumer("readers") as consumer:
        with trio.move_on_after(60):
            await ScheduledPull(consumer, {"orders": work}).run()
    ```
    """

    def __init__(
        self, consumer: PullConsumer, tasks: Mapping[str, PullTask], *, at_once: int = AT_ONCE
    ) -> None:
        self._consumer = consumer
        self._tasks = dict(tasks)
        self._limiter = trio.CapacityLimiter(at_once)
        self._running: dict[MessageQueue, trio.CancelScope] = {}
        self._nursery: trio.Nursery | None = None

    @property
    def queues(self) -> list[MessageQueue]:
        return sorted(self._running)

    async def run(self) -> None:
        """Join the group for all topics and run their tasks forever. Raises NoRoute for an unknown topic."""
        try:
            async with trio.open_nursery() as self._nursery:
                await self._consumer.register(dict.fromkeys(self._tasks, self._divided))
                await trio.sleep_forever()
        finally:
            self._nursery = None
            self._running.clear()

    def _divided(self, topic: str, queues: Sequence[MessageQueue], mine: Sequence[MessageQueue]) -> None:
        nursery = self._nursery
        if nursery is None:
            return  # the consumer stays registered after `run` has ended
        for queue in [queue for queue in self._running if queue.topic == topic and queue not in mine]:
            self._running.pop(queue).cancel()
        for queue in mine:
            if queue not in self._running:
                scope = self._running[queue] = trio.CancelScope()
                nursery.start_soon(self._serve, queue, scope)

    async def _serve(self, queue: MessageQueue, scope: trio.CancelScope) -> None:
        task = self._tasks[queue.topic]
        with scope:
            while True:
                pause = await self._round(task, queue)
                await trio.sleep(pause)

    async def _round(self, task: PullTask, queue: MessageQueue) -> float:
        async with self._limiter:
            try:
                following: float | None = await called(task, self._consumer, queue)
            except Exception:  # raised by the application; it must not end the other tasks
                log.exception("the pull task of %s failed", queue)
                return FAILED
        return NEXT if following is None else following
