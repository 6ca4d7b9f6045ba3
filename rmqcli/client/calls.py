"""Calls of async functions in reused tasks, because starting a task costs as much as a send.

`Calls` belongs to one trio run, and only its thread uses it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any

import trio

from rmqcli.client.errors import InvalidRequest

IDLE = 1000  # tasks that wait for a call; further ones end with theirs

Function = Callable[[], Awaitable[Any]]
Finish = Callable[[Any, BaseException | None], object]
"""Called with the value or the exception of a call, in the thread of the run. It must not raise."""


class Call:
    """One call. The function runs in `context`; `finish` is called once."""

    __slots__ = ("context", "finish", "function", "worker")

    def __init__(self, function: Function, finish: Finish, context: Context) -> None:
        self.function = function
        self.finish = finish
        self.context = context
        self.worker: _Worker | None = None

    def cancel(self) -> None:
        """Cancel the call. It still finishes, with a value if it does not notice."""
        if self.worker is not None:
            self.worker.scope.cancel()


class _Worker:
    """A task that carries out one call after another."""

    __slots__ = ("call", "scope", "task")

    def __init__(self, call: Call) -> None:
        self.call = call
        self.scope = trio.CancelScope()
        self.task: trio.lowlevel.Task | None = None


class Calls:
    """The running calls."""

    def __init__(self) -> None:
        self._idle: list[_Worker] = []
        self._nursery: trio.Nursery | None = None

    async def run(self, started: Callable[[], object], end: trio.Event) -> None:
        """Carry out calls until `end` is set; then cancel those still running."""
        try:
            async with trio.open_nursery() as self._nursery:
                started()
                await end.wait()
                self._nursery.cancel_scope.cancel()
        finally:
            self._nursery = None

    def start(self, call: Call) -> None:
        """Start a call. After the end of the run it finishes at once, with InvalidRequest."""
        if self._nursery is None:
            call.finish(None, closed())
        elif self._idle:
            worker = self._idle.pop()
            assert worker.task is not None
            worker.call, call.worker = call, worker
            worker.task.context = call.context
            trio.lowlevel.reschedule(worker.task)
        else:
            call.worker = _Worker(call)
            self._nursery.start_soon(self._work, call.worker)

    async def _work(self, worker: _Worker) -> None:
        def give_up(_: object) -> trio.lowlevel.Abort:
            self._idle.remove(worker)
            return trio.lowlevel.Abort.SUCCEEDED

        worker.task = trio.lowlevel.current_task()
        worker.task.context = worker.call.context  # from the next step of the task on
        # Shielded, because a call that is cancelled here would never finish.
        await trio.lowlevel.cancel_shielded_checkpoint()
        with worker.scope:
            while len(self._idle) < IDLE:
                call = worker.call
                value: object = None
                failure: BaseException | None = None
                try:
                    value = await call.function()
                except trio.Cancelled:
                    failure = closed()
                    raise
                except BaseException as error:  # passed to the caller, whatever it is
                    failure = error
                finally:
                    call.worker = None
                    call.finish(value, failure)
                self._idle.append(worker)
                await trio.lowlevel.wait_task_rescheduled(give_up)


def closed() -> InvalidRequest:
    return InvalidRequest("a client works only between `open` and `close`, or inside its `with` block")
