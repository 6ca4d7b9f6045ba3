"""The thread in which the clients of `rmqcli.client.sync` run: one trio run for all clients of the process.

It starts with the first client and ends with the last. Threads post jobs to it; a job that is posted while
others wait costs no additional wake-up. After a fork, the child has no such thread: clients of the parent
raise UsedAfterFork there, and new clients start a thread. Clients that are still open when the interpreter
exits are closed within EXIT seconds.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import FIRST_COMPLETED, Future, InvalidStateError, wait
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

import trio

from rmqcli.client.bridge.life import Life
from rmqcli.client.calls import Call, Calls
from rmqcli.client.errors import InvalidRequest, UsedAfterFork

EXIT = 5.0

T = TypeVar("T")


class Portal:
    """A trio run in a daemon thread, and the clients that are open there."""

    def __init__(self) -> None:
        self.lives: set[OpenClient] = set()
        self.forked = False
        self._jobs: deque[tuple[Any, ...]] = deque()  # of functions, with their arguments
        self._awake = False
        self._calls = Calls()
        self._end = trio.Event()
        started: Future[trio.lowlevel.TrioToken] = Future()
        self._thread = threading.Thread(
            target=trio.run, args=(self._main, started), name="rmq clients", daemon=True
        )
        self._thread.start()
        self._token = started.result()

    async def _main(self, started: Future[trio.lowlevel.TrioToken]) -> None:
        token = trio.lowlevel.current_trio_token()
        await self._calls.run(partial(started.set_result, token), self._end)

    def end(self) -> None:
        """End the run after the last client."""
        self.post(self._end.set)
        self._thread.join()

    def post(self, job: Callable[..., object], *arguments: object) -> None:
        """Have a job done in the thread, in the order of posting. Raises UsedAfterFork."""
        if self.forked:
            raise UsedAfterFork
        # Without a lock: `_work` clears the flag before it takes jobs, so either it finds this one, or it is
        # called again below. If two threads have it called, the second call finds nothing to do.
        self._jobs.append((job, *arguments))
        if self._awake:
            return
        self._awake = True
        try:
            self._token.run_sync_soon(self._work)
        except trio.RunFinishedError:
            self._work()  # calls finish with an error

    def _work(self) -> None:
        self._awake = False  # before the jobs are taken, or one that is posted meanwhile would wait
        jobs = self._jobs
        while jobs:
            job = jobs.popleft()
            job[0](*job[1:])

    def start(self, function: Callable[[], Awaitable[T]], future: Future[T]) -> Call:
        """Start a trio function whose outcome the future gets."""
        self.check_thread()
        call = Call(function, partial(settle, future), copy_context())
        self.post(self._calls.start, call)
        return call

    def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run a trio function and wait for its outcome."""
        future: Future[T] = Future()
        call = self.start(function, future)
        try:
            return future.result()
        except BaseException:
            self.abort(call, future)
            raise

    def value(self, function: Callable[[], T]) -> T:
        """Run a plain function in the thread of the portal, and return its result."""

        async def run() -> T:
            return function()

        return self.call(run)

    def abort(self, call: Call, future: Future[Any]) -> None:
        """Cancel a call that has not ended, and wait for its end."""
        if not future.done():  # Ctrl-C, perhaps
            self.post(call.cancel)
            wait((future,))

    @property
    def is_current(self) -> bool:
        """True in the thread of the portal, where the callbacks of futures run."""
        return threading.current_thread() is self._thread

    def check_thread(self) -> None:
        if self.is_current:
            raise InvalidRequest("a callback of a future must not wait for a client, only call `send_soon`")


def settle(future: Future[T], value: T | None, error: BaseException | None) -> None:
    """Set the outcome of a future, which its owner may have cancelled."""
    try:
        if error is None:
            future.set_result(value)  # type: ignore[arg-type]  # None only if T includes it
        else:
            future.set_exception(error)
    except InvalidStateError:
        # Without this, `wait` and `as_completed` would not learn that the future is cancelled.
        future.set_running_or_notify_cancel()


class OpenClient:
    """A trio client in the portal, between `open` and `close`."""

    def __init__(self, client: AbstractAsyncContextManager[object]) -> None:
        """Enter the client. Raises the errors of its `__aenter__`."""
        self._life = Life(client)
        self._over: Future[None] = Future()
        opened: Future[None] = Future()
        with _lock:
            self.portal = _the_portal()
            self.portal.lives.add(self)
        run = partial(self._life.run, partial(opened.set_result, None))
        try:
            self._call = self.portal.start(run, self._over)
            try:
                wait((self._over, opened), return_when=FIRST_COMPLETED)
            except BaseException:
                self.portal.abort(self._call, self._over)
                raise
            if self._over.done():
                self._over.result()
        except BaseException:
            self._leave()
            raise

    def close(self, error: BaseException | None = None) -> None:
        """Leave the client; `error` is the exception that ended the block. Do nothing in a forked process."""
        if self.portal.forked:
            return
        self.portal.check_thread()
        over = self.begin_close(error)
        try:
            over.result()
        except BaseException:
            self.portal.abort(self._call, over)
            raise
        finally:
            self._leave()

    def begin_close(self, error: BaseException | None = None) -> Future[None]:
        """Begin to leave the client, and return the future that is done when it has been left."""
        self.portal.post(self._life.close, error)
        return self._over

    def _leave(self) -> None:
        global _portal  # noqa: PLW0603  one for the process
        with _lock:
            self.portal.lives.discard(self)
            if not self.portal.lives and _portal is self.portal:
                _portal = None
                self.portal.end()


_lock = threading.Lock()
_portal: Portal | None = None


def _the_portal() -> Portal:
    global _portal  # noqa: PLW0603
    if _portal is None:
        _portal = Portal()
    return _portal


def _in_forked_child() -> None:
    global _lock, _portal  # noqa: PLW0603
    _lock = threading.Lock()  # another thread of the parent may have held it
    if _portal is not None:
        _portal.forked = True
        _portal = None


def _at_exit() -> None:
    portal = _portal
    if portal is None:
        return
    wait([client.begin_close() for client in list(portal.lives)], timeout=EXIT)


os.register_at_fork(after_in_child=_in_forked_child)
atexit.register(_at_exit)
