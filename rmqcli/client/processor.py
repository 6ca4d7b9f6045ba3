"""Dispatch of requests that brokers send to this client (Java `ClientRemotingProcessor`).

Handlers are registered for an operation and a group, so that each client of an instance gets the requests of
its group. Requests without a group in their header (39, 326) go to every handler of the operation; each
handler determines from the body whether it is addressed. The first reply that is not None is sent. A request
for a group without a member here is refused with 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, TypeVar

from rmqcli.client.errors import InvalidRequest
from rmqcli.client.wire.link import Link
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.operations.operation import AnyOperation, Operation
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import encode_frame

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")
RequestBodyT = TypeVar("RequestBodyT")
ReplyBodyT = TypeVar("ReplyBodyT")

_GROUP_FIELDS: dict[int, str] = {
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: "consumer_group",
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: "group",
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: "group",
    RequestCode.GET_CONSUMER_RUNNING_INFO: "consumer_group",
    RequestCode.CONSUME_MESSAGE_DIRECTLY: "consumer_group",
}


class BrokerRequest(Generic[RequestT, ReplyT, RequestBodyT, ReplyBodyT]):
    """One request of a broker.

    `header` and `body` are decoded from `command` on first access, which may raise CodecError.
    """

    def __init__(
        self,
        operation: Operation[RequestT, ReplyT, RequestBodyT, ReplyBodyT],
        link: Link,
        command: RemotingCommand,
    ) -> None:
        self._operation = operation
        self._link = link
        self.command = command

    @cached_property
    def _decoded(self) -> tuple[RequestT, RequestBodyT]:
        return self._operation.decode_request(self.command)

    @property
    def header(self) -> RequestT:
        return self._decoded[0]

    @property
    def body(self) -> RequestBodyT:
        return self._decoded[1]

    @property
    def address(self) -> str:
        return self._link.address

    def reply(self, body: ReplyBodyT) -> RemotingCommand:
        ext, data = self._operation.encode_reply(None, body)
        return self.command.reply(ResponseCode.SUCCESS, self._operation.remark, ext, data)

    def refuse(self, remark: str) -> RemotingCommand:
        return self.command.reply(ResponseCode.SYSTEM_ERROR, remark)

    def send(self, reply: RemotingCommand) -> None:
        """Send a reply after the handler has returned None."""
        self._link.send_frame(encode_frame(reply))


Handler = Callable[[BrokerRequest[RequestT, ReplyT, RequestBodyT, ReplyBodyT]], RemotingCommand | None]
"""Returns the reply, or None if there is no reply or a background task sends it later."""


class ClientRemotingProcessor:
    """The handlers of one client instance."""

    def __init__(self) -> None:
        self._handlers: dict[tuple[int, str], list[tuple[AnyOperation, Handler[Any, Any, Any, Any]]]] = {}

    @property
    def codes(self) -> set[int]:
        return {code for code, _ in self._handlers}

    def check_free(self, group: str) -> None:
        """Raise InvalidRequest if the group has a consumer here: brokers know a consumer by client id and
        group.
        """
        if (RequestCode.GET_CONSUMER_RUNNING_INFO, group) in self._handlers:
            raise InvalidRequest(f"the group {group} has a consumer in this client instance already")

    def register(
        self,
        operation: Operation[RequestT, ReplyT, RequestBodyT, ReplyBodyT],
        handler: Handler[RequestT, ReplyT, RequestBodyT, ReplyBodyT],
        group: str = "",
    ) -> None:
        """Add a handler of an operation. An operation whose header has a group requires `group`."""
        self._handlers.setdefault((operation.code, group), []).append((operation, handler))

    def unregister(
        self,
        operation: Operation[RequestT, ReplyT, RequestBodyT, ReplyBodyT],
        handler: Handler[RequestT, ReplyT, RequestBodyT, ReplyBodyT],
    ) -> None:
        """Remove a handler without a group, if it is registered."""
        members = self._handlers.get((operation.code, ""), [])
        if (operation, handler) in members:
            members.remove((operation, handler))
        if not members:
            self._handlers.pop((operation.code, ""), None)

    def unregister_group(self, group: str) -> None:
        for key in [key for key in self._handlers if key[1] == group]:
            del self._handlers[key]

    def process(self, link: Link, command: RemotingCommand) -> RemotingCommand | None:
        """Return the reply to a request, or None if there is none (yet).

        Raises CodecError if it cannot be decoded.
        """
        group = _group_of(command)
        members = self._handlers.get((command.code, group or ""))
        if members is None:
            return None if group is None else _no_group(command, group)
        request = BrokerRequest(members[0][0], link, command)
        replies = [handler(request) for _, handler in list(members)]
        return next((reply for reply in replies if reply is not None), None)


def _group_of(command: RemotingCommand) -> str | None:
    """Return the group in the header of a request, None for codes that have none. Raises CodecError."""
    field = _GROUP_FIELDS.get(command.code)
    if field is None:
        return None
    from rmqcli.codec.operations import clients, offsets

    name = RequestCode(command.code).name
    operation: AnyOperation = getattr(clients, name, None) or getattr(offsets, name)
    return getattr(operation.decode_header(command), field) or ""


def _no_group(command: RemotingCommand, group: str) -> RemotingCommand:
    """Return Java's refusal. As in Java, a code without a group and a handler gets no reply."""
    remark = f"The Consumer Group <{group}> not exist in this consumer"
    return command.reply(ResponseCode.SYSTEM_ERROR, remark)
