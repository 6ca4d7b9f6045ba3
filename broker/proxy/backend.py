"""The side of a front that has the messages: its own broker (`embedded`), or all brokers of a cluster.

Methods raise StatusError or Refusal. A method that waits calls `in_task` first, because calls begin without
a task.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from rmqcli.broker.auth.control import AccessControl
from rmqcli.broker.errors import Refusal
from rmqcli.broker.net.session import Session
from rmqcli.broker.net.turns import Turns
from rmqcli.broker.store.values import GetStatus
from rmqcli.codec.bodies.config import SubscriptionGroupConfig
from rmqcli.codec.bodies.heartbeat import HeartbeatData
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.headers.pull import PullMessageRequestHeader
from rmqcli.codec.headers.transactions import EndTransactionRequestHeader
from rmqcli.codec.message import MessageExt
from rmqcli.codec.operations.operation import Operation
from rmqcli.codec.receipt_handle import ReceiptHandle

if TYPE_CHECKING:
    from rmqcli.broker.proxy.calling import Caller
    from rmqcli.broker.proxy.clients import Client


class BrokerQueues(NamedTuple):
    """The queues of a topic on one broker. `kind` is its attribute for the type of messages."""

    broker_name: str
    perm: int
    read_queues: int
    write_queues: int
    kind: str = "NORMAL"


class Outgoing(NamedTuple):
    """A message to be stored. `text` has the properties as a record has them."""

    body: bytes
    properties: dict[str, str]
    text: str
    born_ms: int


class Stored(NamedTuple):
    """A stored message. `code` shows whether disk and slaves have confirmed it. `half_at` is the offset in
    the commit log of a half message, otherwise -1.
    """

    broker_name: str
    offset: int
    code: ResponseCode = ResponseCode.SUCCESS
    half_at: int = -1
    recall_handle: str = ""


class PlainSends(ABC):
    """Sends of one connection that need no decision, to be stored with one write."""

    @abstractmethod
    def add(self, topic: str, message: Outgoing) -> bool:
        """Add a message; return False if it has to be sent alone."""

    @abstractmethod
    def store(self) -> tuple[list[int], Coroutine[Any, Any, ResponseCode] | None]:
        """Store the messages. Return their offsets and, unless they are already confirmed, a coroutine
        that waits for the confirmation of all.
        """


class Wish(NamedTuple):
    """The messages that a receive requests, from any queue; `kind` and `text` select them as in remoting."""

    group: str
    topic: str
    max_messages: int
    invisible_ms: int
    kind: str
    text: str
    attempt_id: str | None


class Pulled(NamedTuple):
    """The result of a pull. Messages may have tags other than those requested, because brokers compare
    hashes.
    """

    status: GetStatus
    messages: list[MessageExt]
    next_offset: int
    min_offset: int
    max_offset: int


class Backend(ABC):
    """The side that has the messages.

    `address` is used in routes if a request does not show how its client reached the front. `broker_name` is
    that of the only broker, None if there may be several.
    """

    turns: Turns
    address: str
    broker_name: str | None

    @property
    @abstractmethod
    def access(self) -> AccessControl | None:
        """The rules for callers; None if everyone may do everything."""

    @property
    @abstractmethod
    def checks_types(self) -> bool:
        """True if a topic accepts only messages of the type that its attribute names."""

    @property
    @abstractmethod
    def max_message_size(self) -> int: ...

    @property
    @abstractmethod
    def longest_delay_ms(self) -> int: ...

    @abstractmethod
    def now_ms(self) -> int: ...

    # topics, groups and clients

    def knows(self, topic: str) -> bool:
        """Return False if the topic certainly does not exist."""
        return True

    @abstractmethod
    async def topic(self, caller: Caller, name: str) -> Sequence[BrokerQueues]:
        """Return the queues of a topic, which is created if that is allowed."""

    @abstractmethod
    async def type_of(self, topic: str) -> str:
        """Return the attribute of a topic that sets the type of its messages."""

    @abstractmethod
    async def group(self, name: str) -> SubscriptionGroupConfig | None:
        """Return the settings of a group, None if it is not known."""

    @abstractmethod
    async def register(self, caller: Caller, client: Client, data: HeartbeatData) -> None:
        """Register a client in its groups, until it leaves."""

    @abstractmethod
    async def unregister(self, caller: Caller, client: Client, group: str) -> None:
        """Remove a client from a consumer group."""

    # sending

    @abstractmethod
    async def send(
        self, caller: Caller, topic: str, messages: Sequence[Outgoing]
    ) -> Sequence[Stored | Refusal]:
        """Store messages of a topic in one queue: that of its message group, for a single message that has
        one.
        """

    def plain_sends(self, session: Session) -> PlainSends | None:
        """Return a run for sends of a connection; None if each must be sent alone."""
        return None

    @abstractmethod
    async def end_transaction(
        self, caller: Caller, topic: str, broker_name: str, header: EndTransactionRequestHeader
    ) -> None:
        """Commit or roll back the half message of a topic that the header names."""

    @abstractmethod
    async def recall(self, caller: Caller, topic: str, handle: str) -> str:
        """Take a delayed message back; return its message id."""

    # receiving

    @abstractmethod
    async def receive(
        self, caller: Caller, wish: Wish, until: float
    ) -> list[tuple[ReceiptHandle, MessageExt]] | None:
        """Return messages with their handles, at once or by `until`; None if too many calls wait. Messages of
        a cancelled call are lent to others.
        """

    @abstractmethod
    async def ack(self, group: str, topic: str, handle: ReceiptHandle) -> bool:
        """Acknowledge a message. Return False if it is not in flight under this handle."""

    @abstractmethod
    async def change(
        self, group: str, topic: str, handle: ReceiptHandle, invisible_ms: int
    ) -> ReceiptHandle | None:
        """Change the time for which a message is lent, counted from now. Return its new handle, None if it is
        not in flight.
        """

    @abstractmethod
    async def release(self, group: str, topic: str, handle: ReceiptHandle, *, counts: bool = False) -> None:
        """Lend a message to others now; with `counts`, as another attempt."""

    @asynccontextmanager
    async def released_unless_done(
        self, group: str, topic: str, handles: Iterable[ReceiptHandle]
    ) -> AsyncIterator[dict[ReceiptHandle, None]]:
        """Yield the handles; at the end of the block, release those that are left, however it ends."""
        left = dict.fromkeys(handles)
        try:
            yield left
        finally:
            if left:
                with trio.CancelScope(shield=True):
                    for handle in left:
                        await self.release(group, topic, handle)

    @abstractmethod
    async def to_dead_letters(self, group: str, topic: str, handle: ReceiptHandle, message_id: str) -> bool:
        """Move a message to the dead letters of its group. Return False if it is not in flight."""

    # reading by offsets

    @abstractmethod
    async def pull(
        self, caller: Caller, broker_name: str, header: PullMessageRequestHeader, until: float
    ) -> Pulled | None:
        """Return the result of a pull, at once or by `until`; None if too many calls wait."""

    @abstractmethod
    async def ask(
        self, caller: Caller, broker_name: str, operation: Operation[Any, Any, None, None], header: Any
    ) -> Any:
        """Return the reply header of a broker to a request about the offsets of one of its queues."""
