"""Asynchronous sends with callbacks (Java `send(Message, SendCallback)`).

Limits: `in_flight` concurrent sends, including their callbacks; `send_soon` waits for room. Inside a callback
it does not wait, because callbacks that all send again would wait for each other.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable

import trio

from rmqcli.client.errors import InvalidRequest
from rmqcli.client.instance import ClientInstance
from rmqcli.client.results import SendResult

IN_FLIGHT = 1000

log = logging.getLogger("rmqcli.client.produce.send_soon")

SendCallback = Callable[[SendResult | Exception], Awaitable[object] | object]
"""Called with the result or exception of `send`. A plain function in trio's thread must not block."""

_Send = Callable[[], Awaitable[SendResult]]


class Underway:
    """The asynchronous sends of one producer, between `open` and `close`."""

    def __init__(self, instance: ClientInstance, limit: int) -> None:
        if limit < 1:
            raise InvalidRequest(f"in_flight is {limit}: 1 or more is expected")
        self._instance = instance
        self._limit = limit
        self._open = False
        self._scopes: set[trio.CancelScope] = set()
        self._calling: set[trio.lowlevel.Task] = set()
        self._waiting = trio.lowlevel.ParkingLot()
        self._closing = trio.lowlevel.ParkingLot()

    def open(self) -> None:
        self._open = True

    async def close(self, *, wait: bool) -> None:
        """Waits for all sends and callbacks; without `wait`, or when cancelled, cancels them."""
        try:
            while wait and self._scopes:
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
        """Returns when `send` has started."""
        await trio.lowlevel.checkpoint()
        while self._open and len(self._scopes) >= self._limit and not self._is_callback():
            await self._waiting.park()
        if not self._open:
            raise InvalidRequest("a producer sends only inside its `async with` block")

        async def run() -> None:
            try:
                await self._carry_out(send, callback)
            finally:
                self._scopes.discard(scope)
                self._waiting.unpark()
                if not self._scopes:
                    self._closing.unpark_all()

        scope = self._instance.start(run, "send")
        self._scopes.add(scope)

    def _is_callback(self) -> bool:
        return trio.lowlevel.current_task() in self._calling

    async def _carry_out(self, send: _Send, callback: SendCallback | None) -> None:
        outcome: SendResult | Exception
        try:
            outcome = await send()
        except Exception as error:  # the callback gets every exception, as the caller of `send` would
            outcome = error
        if callback is None:
            if isinstance(outcome, Exception):
                log.warning("a message was not sent: %s", outcome)
            return
        task = trio.lowlevel.current_task()
        self._calling.add(task)
        try:
            said = callback(outcome)
            if inspect.isawaitable(said):
                await said
        except Exception:  # of the application; it must not end other sends
            log.exception("the callback of a send failed")
        finally:
            self._calling.discard(task)
