"""Producers for threads."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TypeVar, Unpack

from rmqcli.client.bridge.calls import closed
from rmqcli.client.bridge.soon import Soon
from rmqcli.client.errors import UsedAfterFork
from rmqcli.client.produce.producer import Producer as TrioProducer
from rmqcli.client.produce.producer import ProducerSettings
from rmqcli.client.produce.send_soon import IN_FLIGHT
from rmqcli.client.produce.targets import QueueSelector
from rmqcli.client.results import SendResult
from rmqcli.client.sync.methods import Client, blocking
from rmqcli.client.sync.portal import settle
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue

ProducerT = TypeVar("ProducerT", bound=TrioProducer)


class BaseProducer(Client[ProducerT]):
    """The methods of both producers."""

    def __init__(self, client: ProducerT, in_flight: int) -> None:
        super().__init__(client)
        self.group = client.group
        self._limit = in_flight
        self._soon: Soon[Future[SendResult]] = Soon(client, self._settle)
        self._room = threading.Condition()
        self._full = False

    message_queues = blocking(TrioProducer.message_queues)
    send = blocking(TrioProducer.send)
    send_batch = blocking(TrioProducer.send_batch)
    send_oneway = blocking(TrioProducer.send_oneway)
    request = blocking(TrioProducer.request)
    reply = blocking(TrioProducer.reply)

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
        the thread of the clients: they must not wait. Messages may overtake each other. Cancelling the future
        prevents only a send that has not begun. On leaving the `with` block normally, all sends are awaited.
        On leaving it by an exception, they are cancelled, and so are their futures: the messages may or may
        not have been stored.
        """
        portal, soon = self._portal, self._soon
        if portal.forked:
            raise UsedAfterFork
        if len(soon.unsettled) >= self._limit and not portal.is_current:
            self._wait_for_room()
        future: Future[SendResult] = Future()
        soon.put(future, message, {"queue": queue, "selector": selector, "timeout": timeout})
        if soon.closed:
            raise closed()
        if soon.needs_wake:
            soon.needs_wake = False
            portal.post(soon.wake)
        return future

    def _wait_for_room(self) -> None:
        # Half of the room, so that the two threads take turns once per many sends.
        with self._room:
            self._full = True  # before the comparison, which a settled send might precede
            while len(self._soon.unsettled) > self._limit // 2:
                self._room.wait()
                self._full = True

    def _settle(self, future: Future[SendResult], outcome: SendResult | Exception | None) -> None:
        if outcome is None:
            future.cancel()
        if future.cancelled():
            future.set_running_or_notify_cancel()
        elif isinstance(outcome, Exception):
            settle(future, None, outcome)
        else:
            settle(future, outcome, None)
        if self._full and len(self._soon.unsettled) <= self._limit // 2:
            self._make_room()

    def _make_room(self) -> None:
        with self._room:
            self._full = False
            self._room.notify_all()

    def _context(self) -> Soon[Future[SendResult]]:
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
