"""`send_soon` with futures: the sends of one producer, whose futures the caller holds.

The caller limits how many futures are unsettled.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from rmqcli.client.produce.producer import Producer
from rmqcli.client.produce.targets import QueueSelector
from rmqcli.client.results import SendResult
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue


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
        self._called_back = self._settled  # bound once, not for every send
        self.unsettled: set[FutureT] = set()
        self._broken = False
        self.closed = False

    def begin(
        self,
        future: FutureT,
        message: Message,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        timeout: float | None,
        context: Context,
    ) -> None:
        """Begin a send whose future is in `unsettled`, in the thread of the run."""
        if future.cancelled():
            self._settled(future, None)
            return
        producer = self._producer
        try:
            send = producer.delivery(message, queue, selector, timeout)
            producer.underway.begin(send, self._called_back, context, future)
        except Exception as refused:  # nothing was sent
            # After an exception in the block, this future is cancelled like those that were left.
            self._settled(future, None if self._broken else refused)

    async def __aenter__(self) -> Self:
        await self._producer.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._broken = error is not None
        try:
            await self._producer.__aexit__(kind, error, trace)
        finally:
            self.closed = True  # before the futures are read: one that is added later sees it
            for future in list(self.unsettled):
                self._settled(future, None)

    def _settled(self, future: FutureT, outcome: SendResult | Exception | None) -> None:
        self.unsettled.discard(future)
        self._settle(future, outcome)
