"""Producers for threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar, Unpack

import trio

from rmqcli.client.bridge.soon import Soon
from rmqcli.client.bridge.traces import Traceable
from rmqcli.client.calls import closed
from rmqcli.client.errors import UsedAfterFork
from rmqcli.client.produce.producer import Producer as TrioProducer
from rmqcli.client.produce.producer import ProducerSettings
from rmqcli.client.produce.send_soon import IN_FLIGHT
from rmqcli.client.produce.targets import QueueSelector
from rmqcli.client.produce.transaction import (
    CHECKS_WAITING,
    CheckAnswered,
    TransactionResult,
    TransactionState,
)
from rmqcli.client.produce.transaction import TransactionProducer as TrioTransactionProducer
from rmqcli.client.results import SendResult
from rmqcli.client.sync.futures import SendFuture
from rmqcli.client.sync.methods import Client, at_once, blocking, plain
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.message_queue import MessageQueue

ProducerT = TypeVar("ProducerT", bound=TrioProducer)


class BaseProducer(Client[ProducerT], Traceable):
    """The methods of both producers."""

    def __init__(self, client: ProducerT, in_flight: int) -> None:
        super().__init__(client)
        self.group = client.group
        self._limit = in_flight
        self._soon: Soon[SendFuture] = Soon(client, self._settle)
        self._room = threading.Condition()
        self._full = False

    metrics = at_once(TrioProducer.metrics)
    message_queues = blocking(TrioProducer.message_queues)
    send = blocking(TrioProducer.send)
    send_batch = blocking(TrioProducer.send_batch)
    send_oneway = blocking(TrioProducer.send_oneway)
    request = blocking(TrioProducer.request)
    reply = blocking(TrioProducer.reply)
    recall = blocking(TrioProducer.recall)

    def send_soon(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout: float | None = None,
    ) -> Future[SendResult]:
        """Send in the background; wait only while `in_flight` sends are running.

        The future gets the SendResult, or the exception that `send` would have raised. Its callbacks run in
        the thread of the clients, so they must not block. Messages may overtake each other. Cancelling the
        future prevents only a send that has not begun. If the `with` block ends normally, all sends are
        awaited. If an exception ends it, they are cancelled, as are their futures: the messages may or may
        not have been stored.
        """
        portal, soon = self._portal, self._soon
        if portal.forked:
            raise UsedAfterFork
        if len(soon.unsettled) >= self._limit and not portal.is_current:
            self._wait_for_room()
        future = SendFuture()
        # Before the look at `closed`, which `Soon` sets before it settles the futures that are left.
        soon.unsettled.add(future)
        if soon.closed:
            raise closed()
        portal.post(soon.begin, future, message, queue, selector, timeout, copy_context())
        return future

    def _wait_for_room(self) -> None:
        # Half of the room, so that the two threads take turns only once per many sends.
        with self._room:
            self._full = True  # before the comparison, which a settled send might precede
            while len(self._soon.unsettled) > self._limit // 2:
                self._room.wait()
                self._full = True

    def _settle(self, future: SendFuture, outcome: SendResult | Exception | None) -> None:
        future.settle(outcome)
        # Without the lock: whoever waits has set the flag before it compared the numbers.
        if self._full and len(self._soon.unsettled) <= self._limit // 2:
            self._make_room()

    def _make_room(self) -> None:
        with self._room:
            self._full = False
            self._room.notify_all()

    def _context(self) -> Soon[SendFuture]:
        return self._soon

    def _close(self, error: BaseException | None) -> None:
        try:
            super()._close(error)
        finally:
            self._make_room()


class Producer(BaseProducer[TrioProducer]):
    __doc__ = TrioProducer.__doc__

    def __init__(self, group: str = "rmq", **options: Unpack[ProducerSettings]) -> None:
        super().__init__(TrioProducer(group, **options), options.get("in_flight", IN_FLIGHT))


class TransactionProducer(BaseProducer[TrioTransactionProducer]):
    __doc__ = TrioTransactionProducer.__doc__

    def __init__(
        self,
        group: str,
        check: Callable[[MessageExt], TransactionState | None],
        *,
        checks: int = 1,
        checks_waiting: int = CHECKS_WAITING,
        on_answered: CheckAnswered | None = None,
        **options: Unpack[ProducerSettings],
    ) -> None:
        plain(check, "a check")
        client = TrioTransactionProducer(
            group, check, checks=checks, checks_waiting=checks_waiting, on_answered=on_answered, **options
        )
        super().__init__(client, options.get("in_flight", IN_FLIGHT))

    def send_in_transaction(
        self,
        message: Message,
        local: Callable[[Message], TransactionState | None],
        *,
        selector: QueueSelector | None = None,
        timeout: float | None = None,
    ) -> TransactionResult:
        """Store a half message, run `local`, and send its outcome to the broker (None means UNKNOW).

        `local` runs in the calling thread, so it may use resources of that thread, such as a database
        connection. Raises the errors of `send`, without running `local`, if the half message was not stored.
        A half message whose SendStatus is not SEND_OK is rolled back without running `local`. An exception of
        `local` is raised after UNKNOW was sent, so the broker will ask; after Ctrl-C the broker asks as well.
        """
        plain(local, "a local transaction")
        portal = self._portal
        stored: Future[Message] = Future()
        decided: Future[TransactionState | None] = Future()
        over: Future[TransactionResult] = Future()

        async def local_in_calling_thread(half: Message) -> TransactionState | None:
            arrived = trio.Event()
            stored.set_result(half)
            decided.add_done_callback(lambda _: portal.post(arrived.set))
            await arrived.wait()
            return decided.result()

        send = partial(self._trio.send_in_transaction, message, local_in_calling_thread)
        call = portal.start(partial(send, selector=selector, timeout=timeout), over)
        ends: tuple[Future[Any], ...] = stored, over
        try:
            wait(ends, return_when=FIRST_COMPLETED)
            if stored.done():
                try:
                    decided.set_result(local(stored.result()))
                except Exception as error:  # raised by the application; `over` gets it
                    decided.set_exception(error)
            return over.result()
        except BaseException:
            portal.abort(call, over)
            raise
