"""The trio run in which the clients of `rmqcli.client.aio` run: trio's guest mode, one run for an asyncio loop.

The run starts with the first client of the loop and ends with the last. Trio and asyncio take turns in one
thread, so a call costs no lock and no wake-up of another thread; trio's wait for sockets uses a thread while
nothing else runs. A task of the loop owns the run: asyncio.run, which cancels all tasks at the end, closes
clients that are still open. Clients of a loop that was closed in another way are closed when the thread opens
clients on another loop, or at the latest when the interpreter exits, within EXIT seconds.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import Context, copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import outcome
import trio

from rmqcli.client.bridge.life import Life
from rmqcli.client.calls import Call, Calls, Finish, closed
from rmqcli.client.errors import ClientError, InvalidRequest
from rmqcli.client.wire.detached import attached, step

EXIT = 5.0

log = logging.getLogger("rmqcli.client.aio")
T = TypeVar("T")
_guests: dict[asyncio.AbstractEventLoop, Guest] = {}
_guest: trio.lowlevel.RunVar[Guest] = trio.lowlevel.RunVar("guest")


class Guest:
    """A trio run that is a guest of an asyncio loop, and the clients that are open there."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.lives: set[OpenClient] = set()
        self.ending = self.finishing = False
        self.loop = loop
        self.thread = threading.current_thread()
        self._jobs = SimpleQueue[Callable[[], object]]()
        self._calls = Calls()
        self._end = trio.Event()
        self._started = loop.create_future()
        self._ended = loop.create_future()
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=self._from_thread,
            run_sync_soon_not_threadsafe=self._soon,
            done_callback=self._done,
            # asyncio has set it for its loop; trio must leave it alone.
            host_uses_signal_set_wakeup_fd=True,
        )
        self._keeper = loop.create_task(self._keep(), name="rmq clients")

    async def _main(self) -> None:
        _guest.set(self)
        await self._calls.run(partial(self._started.set_result, None), self._end)

    # The loop gets only the request to do the next job: a closed loop drops its callbacks, and trio cannot
    # continue without its next tick.

    def _soon(self, job: Callable[[], object]) -> None:
        self._jobs.put(job)
        with suppress(RuntimeError):  # a closed loop
            self.loop.call_soon(self._work)

    def _from_thread(self, job: Callable[[], object]) -> None:
        self._jobs.put(job)
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._work)

    def _work(self) -> None:
        with suppress(Empty):  # `finish` has already done the job
            self._jobs.get_nowait()()

    def finish(self) -> None:
        """Close all clients without the loop, which no longer runs."""
        log.warning("an event loop ended before its clients were closed: they are closed now")
        self.finishing = True
        until = time.monotonic() + EXIT
        for client in list(self.lives):
            client.begin_close(None)
        with suppress(Empty):
            while not self._ended.done():
                self._jobs.get(timeout=max(0.0, until - time.monotonic()))()
        _guests.pop(self.loop, None)

    def _done(self, result: outcome.Outcome[None]) -> None:
        _guests.pop(self.loop, None)
        for future in (self._started, self._ended):
            settle(future, None, None)

    async def _keep(self) -> None:
        while not self._ended.done():
            try:
                await asyncio.wait([self._ended])
            except asyncio.CancelledError:
                # The loop is about to end. Blocks that it cancels as well find their clients closed.
                for client in list(self.lives):
                    client.begin_close(None)
                if not self.lives:
                    self.end()

    def end(self) -> None:
        """Begin to end the run after the last client."""
        self.ending = True
        self._end.set()

    async def until_started(self) -> None:
        # A plain `await` would pass a cancellation on to the future, for which other clients wait.
        await asyncio.wait([self._started])

    async def until_ended(self) -> None:
        await asyncio.wait([self._ended])

    def start(
        self, function: Callable[[], Awaitable[object]], finish: Finish, context: Context | None = None
    ) -> Call:
        """Start a trio function."""
        call = Call(function, finish, copy_context() if context is None else context)
        self._calls.start(call)
        return call

    async def call(self, function: Callable[[], Awaitable[T]], context: Context | None = None) -> T:
        """Run a trio function and wait for its outcome. A cancellation cancels it and waits for its end."""
        future: asyncio.Future[T] = self.loop.create_future()
        call = self.start(function, partial(settle, future), context)
        try:
            return await future
        except asyncio.CancelledError:
            await self.abort(call)
            raise

    async def carry(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Carry out a coroutine in the task of the caller, or in a trio task once it needs one."""
        if self._ended.done():
            coroutine.close()
            raise closed()
        context = copy_context()
        try:
            while (call := context.run(step, coroutine)) is not None:
                over = self.loop.create_future()
                call.resume = partial(settle, over, None, None)
                await over
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        except asyncio.CancelledError as error:
            context.run(coroutine.throw, error)
            raise
        try:
            return await self.call(partial(attached, coroutine), context)
        finally:
            # A call that was refused, or cancelled before its start, has left the coroutine as it was.
            context.run(coroutine.close)

    async def abort(self, call: Call) -> None:
        """Cancel a call, and wait for its end, however often the waiting task is cancelled."""
        if call.worker is None:
            return
        over = self.loop.create_future()
        call.finish = partial(settle, over)
        call.cancel()
        while not over.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([over])
        # Retrieved here, because asyncio logs exceptions that nobody retrieves.
        over.exception()


def settle(future: asyncio.Future[Any], value: object, error: BaseException | None) -> None:
    """Set the outcome of a future, which its owner may have cancelled."""
    if future.done():
        return
    with suppress(RuntimeError):  # of a closed loop, where nobody waits for the future
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)


class OpenClient:
    """A trio client in the guest run of the running loop, between `open` and `close`."""

    def __init__(self, client: AbstractAsyncContextManager[object]) -> None:
        self._life = Life(client)
        self.loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self.loop.create_future()
        self._call: Call | None = None
        self.guest: Guest

    async def open(self) -> None:
        """Enter the client. Raises the errors of its `__aenter__`."""
        self.guest = await _guest_of(self.loop)
        self.guest.lives.add(self)
        opened = self.loop.create_future()
        await self._until(opened, partial(self._life.run, partial(settle, opened, None, None)))

    async def close(self, error: BaseException | None) -> None:
        """Leave the client; `error` is the exception that ended the block."""
        self.begin_close(error)
        await self._until(self._over)

    def begin_close(self, error: BaseException | None) -> None:
        self._life.close(error)

    async def _until(
        self, future: asyncio.Future[None], start: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Wait for the future or the end of the client. A cancellation ends the client."""
        try:
            await self.guest.until_started()
            if start is not None:
                self._call = self.guest.start(start, self._finish)
            await asyncio.wait([future, self._over], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if self._call is not None:
                await self.guest.abort(self._call)
            self._finish(None, None)
            raise
        finally:
            if self.guest.ending:
                await self.guest.until_ended()
        if self._over.done():
            self._over.result()

    def _finish(self, value: object, error: BaseException | None) -> None:
        settle(self._over, value, error)
        self.guest.lives.discard(self)
        if not self.guest.lives:
            self.guest.end()


async def _guest_of(loop: asyncio.AbstractEventLoop) -> Guest:
    for other in list(_guests.values()):
        if other.loop.is_closed() and other.thread is threading.current_thread():
            other.finish()
    guest = _guests.get(loop)
    while guest is not None and guest.ending:
        await guest.until_ended()
        guest = _guests.get(loop)
    if guest is None:
        if trio.lowlevel.in_trio_run():
            raise InvalidRequest(
                "this thread runs trio, or another event loop with open clients: close these clients first"
            )
        guest = _guests[loop] = Guest(loop)
    return guest


def on_loop(function: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
    """Return the trio function that runs an asyncio function, in a task of the loop."""

    async def run(*arguments: Any) -> T:
        guest = _guest.get()
        if guest.finishing:
            await trio.sleep_forever()  # the client that called is being closed
        task = trio.lowlevel.current_task()
        cancelled: list[trio.lowlevel.RaiseCancelT] = []

        async def carry_out() -> None:
            result: outcome.Outcome[T]
            try:
                result = outcome.Value(await function(*arguments))
            except asyncio.CancelledError:
                result = outcome.capture(cancelled[0]) if cancelled else outcome.Error(_cancelled())
            except BaseException as error:
                result = outcome.Error(error)
            trio.lowlevel.reschedule(task, result)

        def abort(raise_cancel: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            if guest.finishing:  # the loop no longer runs
                return trio.lowlevel.Abort.SUCCEEDED
            cancelled.append(raise_cancel)
            running.cancel()
            return trio.lowlevel.Abort.FAILED  # the task ends first

        running = guest.loop.create_task(carry_out())
        return await trio.lowlevel.wait_task_rescheduled(abort)  # type: ignore[no-any-return]

    return run


def _cancelled() -> ClientError:
    return ClientError("the asyncio task of a function that a client called was cancelled")


@atexit.register
def _at_exit() -> None:
    for guest in list(_guests.values()):
        if guest.thread is threading.current_thread():
            guest.finish()
