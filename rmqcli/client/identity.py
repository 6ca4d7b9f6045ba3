"""Client ids and group names, as accepted by brokers (Java `ClientConfig`, `Validators`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import force_setattr, replace

from rmqcli.client.errors import InvalidRequest, valid
from rmqcli.codec.message import Message, MessageExt, PropertyName, check_group
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.names import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_GROUP_PREFIX, is_system_topic
from rmqcli.codec.property_names import REPLY_TYPE

if TYPE_CHECKING:
    from rmqcli.client.produce.targets import QueueSelector


DEFAULT_NAME = "DEFAULT"
"""The instance name of broadcasting consumers without one, so that they find their offsets file again."""
FORBIDDEN_CONSUMER, FORBIDDEN_PRODUCER = "DEFAULT_CONSUMER", "DEFAULT_PRODUCER"
_NOT_A_NAME = re.compile(r"[/\x00-\x1f\x7f]|^\.{0,2}$")


def client_id(ip: str, instance_name: str, unit_name: str | None) -> str:
    """Return `ip@instance[@unit]`.

    Raises InvalidRequest for names that cannot be used for a folder of offset files.
    """
    for kind, name in (("instance_name", instance_name), ("unit_name", unit_name)):
        if name is not None and _NOT_A_NAME.search(name):
            raise InvalidRequest(f"{kind} {name!r} is empty, or holds a slash or a control character")
    return "@".join(part for part in (ip, instance_name, unit_name) if part is not None)


def check_group_name(group: str, forbidden: str) -> None:
    """Raise InvalidRequest for an invalid name, and for the name that Java's clients refuse."""
    if group == forbidden:
        raise InvalidRequest(f"the group name {forbidden} is not allowed")
    valid(check_group, group)


# Namespaces, which several tenants of a cluster use: `NAMESPACE%name` (Java `NamespaceUtil`,
# `ClientConfig`).
#
# An application uses short names, brokers and name servers know long names. System names have no long form.
# `%RETRY%` and `%DLQ%` come first: `%RETRY%NAMESPACE%group`.

SEPARATOR = "%"

Value = TypeVar("Value")


def _is_system(name: str) -> bool:
    return is_system_topic(name) or name.startswith(SYSTEM_GROUP_PREFIX)


def _parts(name: str) -> tuple[str, str]:
    """Return the prefix (`%RETRY%`, `%DLQ%` or empty) and the rest of a name."""
    prefix = next((prefix for prefix in (RETRY_PREFIX, DLQ_PREFIX) if name.startswith(prefix)), "")
    return prefix, name[len(prefix) :]


def without_namespace(name: str) -> str:
    """Return the short name, regardless of the namespace."""
    prefix, rest = _parts(name)
    before, separator, short = rest.partition(SEPARATOR)
    return prefix + short if separator and before and not _is_system(name) else name


class Namespace:
    """One namespace. The empty one is falsy and leaves names unchanged."""

    __slots__ = ("_start", "name")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._start = name + SEPARATOR

    def __bool__(self) -> bool:
        return bool(self.name)

    def wrap(self, name: str) -> str:
        """Return the long name. A long name is returned unchanged."""
        if not self.name or not name or _is_system(name):
            return name
        prefix, rest = _parts(name)
        return name if rest.startswith(self._start) else f"{prefix}{self._start}{rest}"

    def unwrap(self, name: str) -> str:
        """Return the short name. A name of another namespace is returned unchanged."""
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
        """Return the message to send, with the namespace in INSTANCE_ID.

        A batch has it once for all its messages.
        """
        instance = {} if in_batch else {PropertyName.INSTANCE_ID: self.name}
        properties = dict(message.properties) | instance
        # The reply topic belongs to the cluster, not to a namespace.
        reply = message.properties.get(PropertyName.MSG_TYPE) == REPLY_TYPE
        topic = message.topic if reply else self.wrap(message.topic)
        return Message(topic=topic, body=message.body, flag=message.flag, properties=properties)

    def unwrap_messages(self, messages: Iterable[MessageExt]) -> None:
        if self.name:
            for message in messages:
                force_setattr(message, "topic", self.unwrap(message.topic))

    def wrap_selector(self, selector: QueueSelector, message: Message) -> QueueSelector:
        """Return a selector that receives short names, both of the queues and of `message`."""

        def select(queues: Sequence[MessageQueue], wrapped: Message) -> MessageQueue:
            return self.wrap_queue(selector(self.unwrap_queues(queues), message))

        return select
