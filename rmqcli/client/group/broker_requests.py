"""What brokers ask of a client, and who answers (Java `ClientRemotingProcessor`).

Handlers are known by request code and group: all clients of one instance hear what concerns them, and only that. Requests
without a group in their header (39, 326) go to every handler of the code; each knows by the body whether it is meant. The
first reply that is not None goes out. Questions about a group that nobody here belongs to are answered with 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from codec.codes import RequestCode, ResponseCode
from codec.headers.base import Header, from_ext
from codec.headers.clients import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    NotifyConsumerIdsChangedRequestHeader,
)
from codec.headers.offsets import GetConsumerStatusRequestHeader, ResetOffsetRequestHeader
from codec.remoting.frame import RemotingCommand
from rmqcli.client.errors import InvalidRequest
from rmqcli.client.wire.link import Link

__all__ = ["BrokerRequests", "RequestHandler"]

RequestHandler = Callable[[Link, RemotingCommand], RemotingCommand | None]
"""Answers one request of a broker at once, or starts a task in `instance.nursery` and returns None."""

_GROUP_FIELD: dict[int, tuple[type[Header], str]] = {
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: (NotifyConsumerIdsChangedRequestHeader, "consumer_group"),
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: (ResetOffsetRequestHeader, "group"),
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: (GetConsumerStatusRequestHeader, "group"),
    RequestCode.GET_CONSUMER_RUNNING_INFO: (GetConsumerRunningInfoRequestHeader, "consumer_group"),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: (ConsumeMessageDirectlyResultRequestHeader, "consumer_group"),
}


class BrokerRequests:
    """The handlers of one client instance."""

    def __init__(self) -> None:
        self._handlers: dict[tuple[int, str], list[RequestHandler]] = {}

    @property
    def codes(self) -> set[int]:
        """The request codes that somebody answers."""
        return {code for code, _ in self._handlers}

    def knows(self, code: int, group: str) -> bool:
        """Whether a client of this group answers requests of this code."""
        return (code, group) in self._handlers

    def join(self, group: str, handlers: Mapping[int, RequestHandler]) -> None:
        """A consumer's handlers by code. InvalidRequest when another of this group is here: `check_free`."""
        self.check_free(group)
        for code, handler in handlers.items():
            self.hear(code, handler, group)

    def part(self, group: str, handlers: Mapping[int, RequestHandler]) -> None:
        """Takes away what `join` added."""
        for code, handler in handlers.items():
            self.leave(code, handler, group)

    def check_free(self, group: str) -> None:
        """InvalidRequest when a consumer of this group answers here: brokers know one by the client id and the group."""
        if self.knows(RequestCode.GET_CONSUMER_RUNNING_INFO, group):
            raise InvalidRequest(f"the group {group} has a consumer in this client instance already")

    def hear(self, code: int, handler: RequestHandler, group: str = "") -> None:
        """Adds a handler of `code`; of the codes whose header names a group it hears those of `group`."""
        self._handlers.setdefault((code, group), []).append(handler)

    def leave(self, code: int, handler: RequestHandler, group: str = "") -> None:
        """Takes a handler away; one that is not there is no error."""
        members = self._handlers.get((code, group), [])
        if handler in members:
            members.remove(handler)
        if not members:
            self._handlers.pop((code, group), None)

    def answer(self, link: Link, request: RemotingCommand) -> RemotingCommand | None:
        """Hands a request on; None when there is no reply, or none yet. Raises CodecError when it cannot be read."""
        group = _group_of(request)
        members = self._handlers.get((request.code, group))
        if members is None:
            return _nobody(request, group)
        replies = [member(link, request) for member in list(members)]
        return next((reply for reply in replies if reply is not None), None)


def _group_of(request: RemotingCommand) -> str:
    header, name = _GROUP_FIELD.get(request.code, (None, ""))
    return "" if header is None else getattr(from_ext(header, request.ext_fields), name) or ""


def _nobody(request: RemotingCommand, group: str) -> RemotingCommand | None:
    """Codes that no client knows get no reply, as from Java's."""
    if request.code not in _GROUP_FIELD:
        return None
    return request.reply(
        ResponseCode.SYSTEM_ERROR, f"The Consumer Group <{group}> not exist in this consumer"
    )
