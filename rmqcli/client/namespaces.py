"""Namespaces, which several tenants of a cluster use: `NAMESPACE%name` (Java `NamespaceUtil`,
`ClientConfig`).

An application uses short names, brokers and name servers know long names. System names have no long form.
`%RETRY%` and `%DLQ%` stay in front: `%RETRY%NAMESPACE%group`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import force_setattr, replace

from codec.message import Message, MessageExt, PropertyName
from codec.message_queue import MessageQueue
from codec.names import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_GROUP_PREFIX, is_system_topic
from codec.properties import REPLY_TYPE

if TYPE_CHECKING:
    from rmqcli.client.produce.queue_selectors import QueueSelector

SEPARATOR = "%"

Value = TypeVar("Value")


def _is_system(name: str) -> bool:
    return is_system_topic(name) or name.startswith(SYSTEM_GROUP_PREFIX)


def _parts(name: str) -> tuple[str, str]:
    """Return the prefix (`%RETRY%`, `%DLQ%` or none) and the rest of a name."""
    prefix = next((prefix for prefix in (RETRY_PREFIX, DLQ_PREFIX) if name.startswith(prefix)), "")
    return prefix, name[len(prefix) :]


def without_namespace(name: str) -> str:
    """Return the short name of any namespace."""
    prefix, rest = _parts(name)
    before, separator, short = rest.partition(SEPARATOR)
    return prefix + short if separator and before and not _is_system(name) else name


class Namespace:
    """One namespace; the empty one is false and leaves names unchanged."""

    __slots__ = ("_start", "name")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._start = name + SEPARATOR

    def __bool__(self) -> bool:
        return bool(self.name)

    def wrap(self, name: str) -> str:
        """Return the long name; a long name is returned unchanged."""
        if not self.name or not name or _is_system(name):
            return name
        prefix, rest = _parts(name)
        return name if rest.startswith(self._start) else f"{prefix}{self._start}{rest}"

    def unwrap(self, name: str) -> str:
        """Return the short name; a name of another namespace is returned unchanged."""
        if not self.name or not _parts(name)[1].startswith(self._start):
            return name
        return without_namespace(name)

    def wrap_queue(self, queue: MessageQueue) -> MessageQueue:
        return replace(queue, topic=self.wrap(queue.topic)) if self.name else queue

    def unwrap_queue(self, queue: MessageQueue) -> MessageQueue:
        return replace(queue, topic=self.unwrap(queue.topic)) if self.name else queue

    def wrap_queues(self, table: Mapping[MessageQueue, Value]) -> dict[MessageQueue, Value]:
        return {self.wrap_queue(queue): value for queue, value in table.items()}

    def unwrap_queues(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        return [self.unwrap_queue(queue) for queue in queues]

    def wrap_message(self, message: Message, *, in_batch: bool) -> Message:
        """Return the message to send, with the namespace in INSTANCE_ID, which a batch has for all its
        messages.
        """
        instance = {} if in_batch else {PropertyName.INSTANCE_ID: self.name}
        properties = dict(message.properties) | instance
        # The reply topic belongs to the cluster, not to a namespace
        reply = message.properties.get(PropertyName.MSG_TYPE) == REPLY_TYPE
        topic = message.topic if reply else self.wrap(message.topic)
        return Message(topic=topic, body=message.body, flag=message.flag, properties=properties)

    def unwrap_messages(self, messages: Iterable[MessageExt]) -> None:
        if self.name:
            for message in messages:
                force_setattr(message, "topic", self.unwrap(message.topic))

    def wrap_selector(self, selector: QueueSelector, message: Message) -> QueueSelector:
        """Return a selector that receives short names, of the queues and of `message`."""

        def select(queues: Sequence[MessageQueue], wrapped: Message) -> MessageQueue:
            return self.wrap_queue(selector(self.unwrap_queues(queues), message))

        return select
