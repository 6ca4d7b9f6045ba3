"""Sends that the application does not wait for, each with a callback (Java `send(Message, SendCallback)`).

Limits: `in_flight` sends at once, their callbacks included; `send_soon` waits while there are so many. Only inside of a
callback it does not wait: if all were callbacks that send again, each would wait for the others.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

import trio

from codec.message import Message
from codec.message_queue import MessageQueue
from rmqcli.client.errors import InvalidRequest
from rmqcli.client.instance import ClientInstance
from rmqcli.client.produce.queue_selectors import QueueSelector
from rmqcli.client.produce.request_reply import Sending
from rmqcli.client.results import SendResult

IN_FLIGHT = 1000

log = logging.getLogger("rmqcli.client.produce.send_soon")

SendCallback = Callable[[SendResult | Exception], Awaitable[object] | object]
"""Gets what `send` returned or raised. An async function, or a plain one, which runs in trio's thread and must not block."""

_Send = Callable[[], Awaitable[SendResult]]


class Underway:
    """The sends of one producer that nobody waits for, between `open` and `close`."""

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
        """Waits for what is under way, callbacks included; without `wait`, or when cancelled, cancels it."""
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
        """Returns when `send` is under way."""
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
        except Exception as error:
            # Whatever it is: the callback is the one to know it, as the caller of `send` would
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
        except Exception:
            # Of the application: one bad callback must not end the sends of others
            log.exception("the callback of a send failed")
        finally:
            self._calling.discard(task)


class SendingProducer(Sending, Protocol):
    """What this needs of a Producer."""

    _underway: Underway


class SendingSoon:
    """Mixin of Producer."""

    _underway: Underway

    async def send_soon(
        self: SendingProducer,
        message: Message,
        callback: SendCallback | None = None,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout: float | None = None,
    ) -> None:
        """Sends in the background; returns as soon as fewer than `in_flight` sends were under way.

        `callback` gets the SendResult, or the exception that `send` would have raised; without one a failure is logged.
        Messages may overtake each other. Leaving the producer's block waits for what is under way, callbacks included.
        Leaving it by an exception or a cancellation cancels that: no callback is called then, and whether a message was
        stored is not known.
        """

        async def send() -> SendResult:
            return await self.send(message, queue=queue, selector=selector, timeout=timeout)

        await self._underway.start(send, callback)
