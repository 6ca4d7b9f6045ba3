"""Asynchronous sends with callbacks (Java `send(Message, SendCallback)`).

Limit: `in_flight` concurrent sends, including their callbacks; `send_soon` waits while it is reached. Inside
a callback it does not wait, because callbacks that all send again would wait for each other.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from contextvars import copy_context

import trio

from rmqcli.client.errors import InvalidRequest
from rmqcli.client.instance import ClientInstance
from rmqcli.client.results import SendResult

IN_FLIGHT = 1000
TOGETHER = 32
"""The number of calls of `send_soon` without waiting after which other tasks run.

A round of the scheduler costs as much as a third of a send.
"""

log = logging.getLogger("rmqcli.client.produce.send_soon")

SendCallback = Callable[[SendResult | Exception], Awaitable[object] | object]
"""Called with the result or exception of `send`.

A plain function runs in trio's thread and must not block.

```python
outcomes = []
await producer.send_soon(Message.of("orders", b"hello"), outcomes.append)
```
"""

_Send = Callable[[], Awaitable[SendResult]]


class _Worker:
    """A task that carries out one send after another; `job` is the next one while the task is idle."""

    __slots__ = ("job", "task")

    def __init__(self, job: tuple[_Send, SendCallback | None]) -> None:
        self.job = job
        self.task: trio.lowlevel.Task | None = None


class Underway:
    """The asynchronous sends of one producer, between `open` and `close`.

    Starting a task costs as much as a send, so idle tasks are reused.
    """

    def __init__(self, instance: ClientInstance, limit: int) -> None:
        if limit < 1:
            raise InvalidRequest(f"in_flight is {limit}: 1 or more is expected")
        self._instance = instance
        self._limit = limit
        self._open = False
        self._running = 0
        self._since_turn = 0
        self._idle: list[_Worker] = []
        self._scopes: set[trio.CancelScope] = set()
        self._calling: set[trio.lowlevel.Task] = set()
        self._waiting = trio.lowlevel.ParkingLot()
        self._closing = trio.lowlevel.ParkingLot()

    def open(self) -> None:
        self._open = True

    async def close(self, *, wait: bool) -> None:
        """Wait for all sends and callbacks. Without `wait`, or when cancelled, cancel them instead."""
        try:
            while wait and self._running:
                await self._closing.park()
        finally:
            self._open = False
            self._waiting.unpark_all()
            for scope in self._scopes:
                scope.cancel()
            with trio.CancelScope(shield=True):
                while self._scopes:
                    await self._closing.park()

    async def start(self, send: _Send, callback: SendCallback | None) -> None:
        """Return when `send` is about to start."""
        self._check_open()
        self._since_turn += 1
        if self._since_turn < TOGETHER:
            await trio.lowlevel.checkpoint_if_cancelled()
        else:
            self._since_turn = 0
            await trio.lowlevel.checkpoint()
        # A callback must not wait for its own send to end.
        while self._open and self._running >= self._limit and not self._is_callback():
            await self._waiting.park()
            self._since_turn = 0
        self._check_open()
        job = send, callback
        self._running += 1
        if self._idle:
            worker = self._idle.pop()
            assert worker.task is not None
            worker.job = job
            worker.task.context = copy_context()  # the context that a new task would have
            trio.lowlevel.reschedule(worker.task)
        else:
            self._begin(_Worker(job))

    def _check_open(self) -> None:
        if not self._open:
            raise InvalidRequest("a producer sends only inside its `async with` block")

    def _begin(self, worker: _Worker) -> None:
        async def run() -> None:
            try:
                await self._work(worker)
            finally:
                self._scopes.discard(scope)
                if not self._scopes:
                    self._closing.unpark_all()

        scope = self._instance.start(run, "send")
        self._scopes.add(scope)

    async def _work(self, worker: _Worker) -> None:
        """Carry out sends until there are more idle tasks than sends may run."""

        def give_up(_: object) -> trio.lowlevel.Abort:
            self._idle.remove(worker)
            return trio.lowlevel.Abort.SUCCEEDED

        worker.task = trio.lowlevel.current_task()
        while len(self._idle) < self._limit:
            try:
                await self._carry_out(*worker.job)
            finally:
                self._running -= 1
                if self._waiting:
                    self._waiting.unpark()
                if not self._running:
                    self._closing.unpark_all()
            self._idle.append(worker)
            await trio.lowlevel.wait_task_rescheduled(give_up)

    def _is_callback(self) -> bool:
        return trio.lowlevel.current_task() in self._calling

    async def _carry_out(self, send: _Send, callback: SendCallback | None) -> None:
        outcome: SendResult | Exception
        try:
            outcome = await send()
        except Exception as error:  # passed to the callback, as `send` would raise it
            outcome = error
        if callback is None:
            if isinstance(outcome, Exception):
                log.warning("a message was not sent: %s", outcome)
            return
        task = trio.lowlevel.current_task()
        self._calling.add(task)
        try:
            said = callback(outcome)
            if said is not None and inspect.isawaitable(said):
                await said
        except Exception:  # raised by the application; it must not end other sends
            log.exception("the callback of a send failed")
        finally:
            self._calling.discard(task)
