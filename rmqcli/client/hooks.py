"""Hooks, with which a program observes the sends of a client and the messages delivered to it.

The option `hook` of a client is a ClientHook. Internal sends, such as those of traces and send-backs, are not
observed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from rmqcli.client.results import SendResult
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.message_queue import MessageQueue

__all__ = ["ClientHook", "Delivery", "Sending"]


@dataclass(slots=True)
class Sending:
    """One call of `send`, `send_batch` or `send_oneway`, with all its attempts.

    Names are without the namespace. Every message has its id (UNIQ_KEY). The hook may replace `messages` by
    others with more properties; it must not change the properties of the given ones, which are the caller's.
    When the context ends, `brokers` has the broker name of each attempt, in order, `server` is the address of
    the last, and `result` is set unless the send failed or was oneway.
    """

    group: str
    namespace: str
    client_id: str
    messages: Sequence[Message]
    is_batch: bool
    brokers: list[str] = field(default_factory=list)
    server: str = ""
    result: SendResult | None = None


@dataclass(slots=True)
class Delivery:
    """Messages of one queue that are passed to the application.

    Names are without the namespace. `result` is what the listener returned; `failed` is True if it did not
    accept all messages. A message has `reconsume_times`, the number of earlier attempts.
    """

    group: str
    namespace: str
    client_id: str
    queue: MessageQueue
    messages: Sequence[MessageExt]
    is_broadcasting: bool
    result: object = None
    failed: bool = False


class ClientHook(Protocol):
    """An observer of clients. It runs in trio's thread and must not block.

    The contexts see the exception of a failure, and trio.Cancelled; they must not suppress it. Context
    variables that `process` sets are visible to the listener, in a worker thread as well.
    """

    def send(self, sending: Sending) -> AbstractContextManager[object]:
        """Return the context in which a producer sends."""
        ...

    def process(self, delivery: Delivery) -> AbstractContextManager[object]:
        """Return the context in which the listener of a push consumer is called."""
        ...

    def receive(self, delivery: Delivery, seconds: float) -> None:
        """Observe that `poll` of a lite pull consumer returns messages, after waiting `seconds`."""
        ...
