"""A trio loop in a separate thread, for DuckDB's threads, which do not use trio.

Calls can be cancelled from any thread, so that Ctrl-C does not wait for a server that does not respond.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Generic, Self, TypeVar

import trio

from rmqcli.export.from_topic.batches import first_error

T = TypeVar("T")
R = TypeVar("R")


class Cancelled(Exception):
    """The call was cancelled."""


class Portal(Generic[T]):
    """A context manager that keeps the result of `opened` open, and passes it to calls."""

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._opened = opened
        self._thread = threading.Thread(target=self._run, name="rmq sql", daemon=True)
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._scopes: set[trio.CancelScope] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise first_error(self._failure)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()
        self._token.run_sync_soon(self._end.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._token, self._end = trio.lowlevel.current_trio_token(), trio.Event()
        async with self._opened() as self._content:
            self._ready.set()
            await self._end.wait()

    def call(self, function: Callable[[T], Awaitable[R]]) -> R:
        """Return the result of `function`. Must be called from a thread without trio. Raises Cancelled."""
        return trio.from_thread.run(self._call, function, trio_token=self._token)

    async def _call(self, function: Callable[[T], Awaitable[R]]) -> R:
        with trio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                return await function(self._content)
            finally:
                self._scopes.discard(scope)
        raise Cancelled

    def cancel(self) -> None:
        """Cancel all calls in progress."""

        def cancel() -> None:
            for scope in tuple(self._scopes):
                scope.cancel()

        self._token.run_sync_soon(cancel)
