"""`send_soon` with futures: the sends of one producer between the caller and the trio client.

The caller puts sends into a queue and gets futures; one task hands them to the trio client's `send_soon`, as
many per wake-up as there are. The trio client limits how many run, `Soon` how many futures are unsettled, so
the queue stays short.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

import trio

from rmqcli.client.produce.producer import Producer
from rmqcli.client.results import SendResult
from rmqcli.codec.message import Message


class AnyFuture(Protocol):
    """A future of concurrent.futures or of asyncio."""

    def cancelled(self) -> bool: ...


FutureT = TypeVar("FutureT", bound=AnyFuture)
Settle = Callable[[FutureT, SendResult | Exception | None], object]
"""Sets the outcome of a future, None for a send that was cancelled. It must not raise.

The caller may have cancelled the future.
"""


class Soon(Generic[FutureT]):
    """A producer and its unsettled futures; entering it enters the producer."""

    def __init__(self, producer: Producer, settle: Settle[FutureT]) -> None:
        self._producer = producer
        self._settle = settle
        self._waiting: deque[tuple[FutureT, Message, dict[str, Any]]] = deque()
        self._idle = trio.lowlevel.ParkingLot()
        self._flushed = trio.lowlevel.ParkingLot()
        self._scope: trio.CancelScope | None = None
        self.unsettled: set[FutureT] = set()
        self._broken = False
        self.closed = False
        self.needs_wake = False
        """True while the task waits for a send; `wake` must then be called, in the thread of the run."""

    def put(self, future: FutureT, message: Message, options: dict[str, Any]) -> None:
        """Queue a send, from any thread."""
        self.unsettled.add(future)
        self._waiting.append((future, message, options))

    def wake(self) -> None:
        self._idle.unpark()

    async def __aenter__(self) -> Self:
        await self._producer.__aenter__()
        self._scope = self._producer.instance.start(self._run, "sends with futures")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._broken = error is not None
        try:
            while error is None and (self._waiting or not self._idle):
                await self._flushed.park()
            if self._scope is not None:
                self._scope.cancel()
        finally:
            try:
                await self._producer.__aexit__(kind, error, trace)
            finally:
                self.closed = True  # before the futures are read: one that is added later sees it
                for future in list(self.unsettled):
                    self._settled(future, None)

    async def _run(self) -> None:
        waiting = self._waiting
        while True:
            while waiting:
                future, message, options = waiting.popleft()
                if future.cancelled():
                    self._settled(future, None)
                    continue
                try:
                    await self._producer.send_soon(message, partial(self._settled, future), **options)
                except Exception as refused:  # nothing was sent
                    self._settled(future, None if self._broken else refused)
            self.needs_wake = True
            if not waiting:  # otherwise the caller may not have seen that a wake-up is needed
                self._flushed.unpark_all()
                await self._idle.park()
            self.needs_wake = False

    def _settled(self, future: FutureT, outcome: SendResult | Exception | None) -> None:
        self.unsettled.discard(future)
        self._settle(future, outcome)
