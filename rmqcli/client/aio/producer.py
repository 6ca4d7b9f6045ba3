"""Producers for asyncio."""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import copy_context
from functools import partial
from typing import TypeVar, Unpack

from rmqcli.client.aio.guest import settle
from rmqcli.client.aio.methods import Client, carried, documented, hostable, hosted, relayed
from rmqcli.client.bridge.soon import Soon
from rmqcli.client.bridge.traces import Traceable
from rmqcli.client.calls import closed
from rmqcli.client.produce.producer import Producer as TrioProducer
from rmqcli.client.produce.producer import ProducerSettings
from rmqcli.client.produce.send_soon import IN_FLIGHT
from rmqcli.client.produce.targets import QueueSelector
from rmqcli.client.produce.transaction import (
    CHECKS_WAITING,
    CheckAnswered,
    LocalTransaction,
    TransactionCheck,
    TransactionResult,
)
from rmqcli.client.produce.transaction import TransactionProducer as TrioTransactionProducer
from rmqcli.client.results import SendResult
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue

ProducerT = TypeVar("ProducerT", bound=TrioProducer)


class BaseProducer(Client[ProducerT], Traceable):
    """The methods of both producers."""

    def __init__(self, client: ProducerT, in_flight: int) -> None:
        super().__init__(client)
        self.group = client.group
        self._limit = in_flight
        self._soon: Soon[asyncio.Future[SendResult]] = Soon(client, self._settle)
        self._waiting: deque[asyncio.Future[None]] = deque()

    metrics = relayed(TrioProducer.metrics)
    message_queues = hosted(TrioProducer.message_queues)
    send = carried(TrioProducer.send)
    send_batch = carried(TrioProducer.send_batch)
    send_oneway = hosted(TrioProducer.send_oneway)
    request = hosted(TrioProducer.request)
    reply = hosted(TrioProducer.reply)
    recall = hosted(TrioProducer.recall)

    async def send_soon(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout: float | None = None,
    ) -> asyncio.Future[SendResult]:
        """Send in the background; wait only while `in_flight` sends are running.

        The future gets the SendResult, or the exception that `send` would have raised. Messages may overtake
        each other. Cancelling the future prevents only a send that has not begun. If the `async with` block
        ends normally, all sends are awaited. If an exception or a cancellation ends it, they are cancelled,
        as are their futures: the messages may or may not have been stored.
        """
        guest, soon = self._guest, self._soon
        while len(soon.unsettled) >= self._limit:
            room = guest.loop.create_future()
            self._waiting.append(room)
            await room
        future: asyncio.Future[SendResult] = guest.loop.create_future()
        if soon.closed:
            raise closed()
        soon.unsettled.add(future)
        soon.begin(future, message, queue, selector, timeout, copy_context())
        return future

    def _settle(self, future: asyncio.Future[SendResult], outcome: SendResult | Exception | None) -> None:
        if outcome is None:
            future.cancel()
        elif isinstance(outcome, Exception):
            settle(future, None, outcome)
        else:
            settle(future, outcome, None)
        if self._waiting:
            settle(self._waiting.popleft(), None, None)

    def _context(self) -> Soon[asyncio.Future[SendResult]]:
        return self._soon


class Producer(BaseProducer[TrioProducer]):
    __doc__ = TrioProducer.__doc__

    def __init__(self, group: str = "rmq", **options: Unpack[ProducerSettings]) -> None:
        super().__init__(TrioProducer(group, **options), options.get("in_flight", IN_FLIGHT))


class TransactionProducer(BaseProducer[TrioTransactionProducer]):
    __doc__ = TrioTransactionProducer.__doc__

    def __init__(
        self,
        group: str,
        check: TransactionCheck,
        *,
        checks: int = 1,
        checks_waiting: int = CHECKS_WAITING,
        on_answered: CheckAnswered | None = None,
        **options: Unpack[ProducerSettings],
    ) -> None:
        client = TrioTransactionProducer(
            group,
            hostable(check),
            checks=checks,
            checks_waiting=checks_waiting,
            on_answered=on_answered,
            **options,
        )
        super().__init__(client, options.get("in_flight", IN_FLIGHT))

    @documented(TrioTransactionProducer.send_in_transaction)
    async def send_in_transaction(
        self,
        message: Message,
        local: LocalTransaction,
        *,
        selector: QueueSelector | None = None,
        timeout: float | None = None,
    ) -> TransactionResult:
        send = partial(self._trio.send_in_transaction, message, hostable(local))
        return await self._guest.call(partial(send, selector=selector, timeout=timeout))
