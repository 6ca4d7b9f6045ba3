"""What can go wrong between us and a cluster. The type says what a caller can do about it.

Every message is one line and names the address, the request and the response code by name, and the remedy where there is
one. Foreign errors (trio, OSError, ssl, codec) are mapped to these at the border; none gets out of `rmqcli.client`.
"""

from __future__ import annotations

from typing import ClassVar

from codec.codes import RequestCode, ResponseCode

_ACL_REMARK = "org.apache.rocketmq.acl"


def code_name(code: int) -> str:
    """`NO_PERMISSION (16)`; a number nobody named is `response code 4711`."""
    try:
        return f"{ResponseCode(code).name} ({code})"
    except ValueError:
        return f"response code {code}"


def request_name(code: int) -> str:
    """`SEND_MESSAGE_V2`; a number nobody named is `request code 4711`."""
    try:
        return RequestCode(code).name
    except ValueError:
        return f"request code {code}"


class ClientError(Exception):
    """Base of every error that `rmqcli.client` raises.

    `tries` and `brokers` are filled by a producer that gave up after retries; both show in the text.
    """

    tries: int = 1
    brokers: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = super().__str__()
        if self.tries > 1:
            text += f" (after {self.tries} tries on {', '.join(self.brokers)})"
        return text


class InvalidRequest(ClientError, ValueError):
    """The caller's message, name or option breaks a rule of the protocol; nothing was sent."""


class ConnectionFailed(ClientError):
    """No connection could be made to `address` ("host:port")."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"cannot connect to {address}: {reason}")
        self.address = address
        self.reason = reason


class ConnectionLost(ClientError):
    """The connection to `address` ended before the answer came; the request may or may not have been carried out."""

    def __init__(self, address: str, reason: str = "closed by the peer") -> None:
        super().__init__(f"connection to {address} lost: {reason}")
        self.address = address


class NoNameServer(ConnectionFailed):
    """None of the name servers answered; `address` is the whole list, `causes` one error for each."""

    def __init__(self, addresses: tuple[str, ...], causes: tuple[ClientError, ...] = ()) -> None:
        only = causes[0] if len(causes) == 1 else None
        reason = only.reason if isinstance(only, ConnectionFailed) else "; ".join(map(str, causes))
        super().__init__(f"name server {';'.join(addresses)}", reason)
        self.addresses = addresses
        self.causes = causes


def seconds_text(seconds: float) -> str:
    """`2 s`: what was left of it for one of several steps is told as the person gave it, not as 1.99902."""
    return f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.2g} s"


class RequestTimeout(ClientError):
    """No answer from `address` within `timeout` seconds; the request may still be carried out."""

    def __init__(self, address: str, request: str, timeout: float) -> None:
        super().__init__(f"{address} did not answer {request} within {seconds_text(timeout)}")
        self.address = address
        self.timeout = timeout


UNREACHED = (ConnectionFailed, ConnectionLost, RequestTimeout)
"""An address that does not answer; others may well."""


class UnexpectedReply(ClientError):
    """`address` sent something that is not the protocol, or a reply without what its code promises."""

    def __init__(self, address: str, request: str, reason: str) -> None:
        super().__init__(f"{address} answered {request} with something unreadable: {reason}")
        self.address = address


class CorruptReply(ClientError):
    """A broker sent stored messages that are damaged."""

    def __init__(self, broker: str, reason: str) -> None:
        super().__init__(f"{broker} sent damaged messages: {reason}")


class BrokerRefused(ClientError):
    """A broker or name server answered with an error code.

    `code` is the response code, `remark` the peer's whole text (may be many lines), `address` who said it, `request` the
    name of the request code. `concluded`: nobody refused, this library found it out from the answer to `request`, and
    `remark` is all there is to say.
    """

    remedy: ClassVar[str] = ""

    def __init__(
        self,
        code: int,
        remark: str | None,
        address: str,
        request: str = "the request",
        *,
        concluded: bool = False,
    ) -> None:
        text = (remark or "").strip().partition("\n")[0].rstrip(", ")
        if not concluded:
            refused = f"{address} refused {request}: {code_name(code)}"
            text = f"{refused}: {text}" if text else refused
        text += f"; {self.remedy}" if self.remedy else ""
        super().__init__(text)
        self.code = code
        self.remark = remark or ""
        self.address = address
        self.request = request


class BrokerBusy(BrokerRefused):
    """SYSTEM_BUSY (2) or FLOW_CONTROL (215)."""

    remedy = "slow down and try again"


class NotSupported(BrokerRefused):
    """REQUEST_CODE_NOT_SUPPORTED (3): an older server, or a role that lacks this request."""


class NotPermitted(BrokerRefused):
    """NO_PERMISSION (16), or an access control refusal (code 1 with AclException in the remark)."""


class NotFound(BrokerRefused):
    """QUERY_NOT_FOUND (22), and the base of all that is not there."""


class TopicNotFound(NotFound):
    """TOPIC_NOT_EXIST (17) from a broker."""

    remedy = "create it with: rmq topic create"


class NoRoute(TopicNotFound):
    """The name server knows no route of `topic`, nor one of TBW102 to create it."""

    def __init__(self, topic: str, address: str, remark: str | None = None) -> None:
        super().__init__(
            ResponseCode.TOPIC_NOT_EXIST,
            remark or f"no route of topic {topic}",
            address,
            RequestCode.GET_ROUTEINFO_BY_TOPIC.name,
        )
        self.topic = topic


class GroupNotFound(NotFound):
    """SUBSCRIPTION_GROUP_NOT_EXIST (26)."""

    remedy = (
        "it comes with its first consumer, or with rmq group create where the broker has "
        "autoCreateSubscriptionGroup=false"
    )


class ConsumerOffline(BrokerRefused):
    """CONSUMER_NOT_ONLINE (206): no client of the group is connected."""


class OnlineResetUnsupported(ClientError):
    """Running consumers cannot be moved to these offsets: brokers of 4.x only take a time for the whole topic."""

    def __init__(self, group: str, clients: int, wanted: str) -> None:
        super().__init__(
            f"group {group} has running clients ({clients}), and its broker moves running consumers only to a time, the "
            f"start or the end of a whole topic, not to {wanted}; stop the clients first, or reset to start, end or @TIME"
        )
        self.group = group
        self.clients = clients


_REFUSALS: dict[int, type[BrokerRefused]] = {
    ResponseCode.SYSTEM_BUSY: BrokerBusy,
    ResponseCode.FLOW_CONTROL: BrokerBusy,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: NotSupported,
    ResponseCode.NO_PERMISSION: NotPermitted,
    ResponseCode.TOPIC_NOT_EXIST: TopicNotFound,
    ResponseCode.QUERY_NOT_FOUND: NotFound,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: GroupNotFound,
    ResponseCode.CONSUMER_NOT_ONLINE: ConsumerOffline,
}


def refusal(code: int, remark: str | None, address: str, request: int) -> BrokerRefused:
    """The error for an error reply to `request`."""
    kind = _REFUSALS.get(code, BrokerRefused)
    if code == ResponseCode.SYSTEM_ERROR and _ACL_REMARK in (remark or ""):
        kind = NotPermitted
    return kind(code, remark, address, request_name(request))
