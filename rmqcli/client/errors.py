"""Errors of the client library. The type tells the caller how to react.

Every message is one line with the address, the name of the request, the name of the response code and, if
there is one, the remedy. Errors of trio, OSError, ssl and codec are mapped to these types; none of them
leaves `rmqcli.client`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Self, TypeVar

from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.names import DLQ_PREFIX, MAX_TOPIC_LENGTH, RETRY_PREFIX, check_topic

Result = TypeVar("Result")

_ACL_REMARK = "org.apache.rocketmq.acl"


def code_name(code: int) -> str:
    """Return `NO_PERMISSION (16)`, for example, or `response code 4711` for an unknown number."""
    try:
        return f"{ResponseCode(code).name} ({code})"
    except ValueError:
        return f"response code {code}"


def request_name(code: int) -> str:
    """Return `SEND_MESSAGE_V2`, for example, or `request code 4711` for an unknown number."""
    try:
        return RequestCode(code).name
    except ValueError:
        return f"request code {code}"


class ClientError(Exception):
    """Base of every error that `rmqcli.client` raises.

    A producer that gives up after retries sets `tries` and `brokers`; both appear in the text. `was_sent`:
    the request was sent before the error, so the server may have carried it out. `maybe_stored`: the ids
    (joined by commas) of messages that a producer gave up on, but that a broker may have stored.

    ```python
    try:
        await producer.send(Message.of("orders", b"hello"))
    except ClientError as error:
        print(error, "stored, perhaps:", error.maybe_stored)
    ```
    """

    tries: int = 1
    brokers: tuple[str, ...] = ()
    was_sent: bool = False
    maybe_stored: str = ""

    def __str__(self) -> str:
        text = super().__str__()
        if self.tries > 1:
            text += f" (after {self.tries} tries on {', '.join(self.brokers)})"
        return text


class InvalidRequest(ClientError, ValueError):
    """A message, name or option that breaks a rule of the protocol. Nothing was sent.

    ```python
    try:
        await producer.send(Message.of("no spaces", b"hello"))
    except InvalidRequest as error:
        print(error)
    ```
    """


class UsedAfterFork(InvalidRequest):
    """The use of a client of threads in a process that was forked while the client was open.

    ```python
    try:
        await producer.send(Message.of("orders", b"hello"))
    except UsedAfterFork:
        print("this process was forked: open a producer of its own")
    ```
    """

    def __init__(self) -> None:
        super().__init__("a client does not survive a fork: create and open a new one in the new process")


class TlsProblem(Enum):
    """The ways in which TLS can cause a connection to fail. Each has a remedy.

    ```python
    try:
        async with Admin(namesrv="127.0.0.1:1", tls=Tls(check=False)) as secure:
            await secure.topics.names()
    except ConnectionFailed as error:
        if error.problem is TlsProblem.NOT_TLS:
            print("connect without tls")
    ```
    """

    CERTIFICATE = "the certificate of the server is not signed by a CA that the client knows"
    HOST = "the certificate of the server is for other hosts"
    NOT_TLS = "the server does not speak TLS"
    CLIENT_CERTIFICATE = "the server wants a certificate of the client"
    TLS_WANTED = "the server closed a plain connection before it sent anything: it may accept only TLS"


class ConnectionFailed(ClientError):
    """A failed attempt to connect to `address` ("host:port").

    ```python
    try:
        async with Producer("shop", namesrv="127.0.0.1:1") as other:
            await other.send(Message.of("orders", b"hello"))
    except ConnectionFailed as error:
        assert "127.0.0.1:1" in error.address
    ```
    """

    def __init__(self, address: str, reason: str, problem: TlsProblem | None = None) -> None:
        super().__init__(f"cannot connect to {address}: {reason}")
        self.address = address
        self.reason = reason
        self.problem = problem


class ConnectionLost(ClientError):
    """The connection to `address` ended before the reply. The request may have been carried out.

    ```python
    try:
        await admin.topics.create("parcels")
    except ConnectionLost as error:
        print(error.address, "may have created it")
    ```
    """

    def __init__(
        self, address: str, reason: str = "closed by the peer", problem: TlsProblem | None = None
    ) -> None:
        super().__init__(f"connection to {address} lost: {reason}")
        self.address = address
        self.problem = problem


class NoNameServer(ConnectionFailed):
    """No reply from any name server; `address` lists all of them, `causes` has one error for each.

    ```python
    try:
        async with Admin(namesrv=["127.0.0.1:1", "127.0.0.1:2"]) as other:
            await other.topics.names()
    except NoNameServer as error:
        assert error.addresses == ("127.0.0.1:1", "127.0.0.1:2")
    ```
    """

    def __init__(self, addresses: tuple[str, ...], causes: tuple[ClientError, ...] = ()) -> None:
        only = causes[0] if len(causes) == 1 else None
        reason = only.reason if isinstance(only, ConnectionFailed) else "; ".join(map(str, causes))
        problem = next(filter(None, (getattr(cause, "problem", None) for cause in causes)), None)
        super().__init__(f"name server {';'.join(addresses)}", reason, problem)
        self.addresses = addresses
        self.causes = causes


class NoBrokers(ConnectionFailed):
    """No broker is registered with the name server at `address`.

    A name server forgets a broker, and the topics that only this broker had, as soon as its connection ends.

    ```python
    try:
        await admin.brokers.masters()
    except NoBrokers as error:
        print(error.address, "knows no broker")
    ```
    """

    def __init__(self, address: str) -> None:
        super().__init__(address, "no broker is registered")
        self.args = (f"no broker is registered with name server {address}",)


def seconds_text(seconds: float) -> str:
    """Return rounded text, such as `2 s`: the remainder of a timeout is shown as given, not as 1.99902."""
    return f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.2g} s"


class RequestTimeout(ClientError):
    """No reply from `address` within `timeout` seconds. The request may still be carried out.

    ```python
    try:
        await admin.topics.delete("orders")
    except RequestTimeout as error:
        print(error.address, "may still delete it")
    ```
    """

    def __init__(self, address: str, request: str, timeout: float) -> None:
        super().__init__(f"{address} did not answer {request} within {seconds_text(timeout)}")
        self.address = address
        self.timeout = timeout


UNREACHED = (ConnectionFailed, ConnectionLost, RequestTimeout)
"""Errors of an address that does not respond, while others may.

```python
try:
    await admin.brokers.runtime_info("127.0.0.1:1")
except UNREACHED as error:
    print(error.address, "does not respond")
```
"""


class UnexpectedReply(ClientError):
    """Bytes from `address` that do not belong to the protocol, or a reply that does not match its operation.

    ```python
    try:
        await admin.topics.names()
    except UnexpectedReply as error:
        print(error.address, "is no name server")
    ```
    """

    was_sent = True

    def __init__(self, address: str, request: str, reason: str) -> None:
        super().__init__(f"{address} answered {request} with something unreadable: {reason}")
        self.address = address


class CorruptReply(ClientError):
    """Damaged stored messages in the reply of a broker.

    ```python
    async with PullConsumer("billing") as consumer:
        try:
            await consumer.pull(MessageQueue("orders", "broker-a", 0), 0)
        except CorruptReply as error:
            print(error)
    ```
    """

    def __init__(self, broker: str, reason: str) -> None:
        super().__init__(f"{broker} sent damaged messages: {reason}")


class BrokerRefused(ClientError):
    """An error code from a broker or name server.

    `code` is the response code, `remark` the whole text of the peer (possibly several lines), `address` the
    peer, `request` the name of the request. `concluded`: no peer refused; the library derived `remark` from
    the reply to `request`.

    ```python
    async with PullConsumer("billing") as consumer:
        try:
            await consumer.pull(MessageQueue("orders", "broker-a", 99), 0)
        except BrokerRefused as error:
            print(error.code, error.remark)
    ```
    """

    remedy: str = ""

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
        super().__init__(f"{text}; {self.remedy}" if self.remedy else text)
        self.fact = text
        self.concluded = concluded
        self.code = code
        self.remark = remark or ""
        self.address = address
        self.request = request

    def without_remedy(self) -> Self:
        """Remove the remedy from the text and return this error: advice to create a topic is out of place
        when deleting it.
        """
        self.args = (self.fact,)
        return self


class BrokerBusy(BrokerRefused):
    """SYSTEM_BUSY (2) or FLOW_CONTROL (215), or a broker that holds too many POP requests.

    ```python
    for pause in (0.1, 1, 10):
        try:
            await producer.send(Message.of("orders", b"hello"))
            break
        except BrokerBusy:
            await trio.sleep(pause)
    ```
    """

    remedy = "slow down and try again"


class NotSupported(BrokerRefused):
    """REQUEST_CODE_NOT_SUPPORTED (3): an older server, or a role that does not serve this request.

    ```python
    try:
        await admin.clients.producers()
    except NotSupported:
        print("the broker is older than 4.9.3")
    ```
    """


class NotPermitted(BrokerRefused):
    """NO_PERMISSION (16), or an access control refusal (code 1 with AclException in the remark).

    `by_account`: access control refused, as opposed to, for example, a topic that is not writable. The text
    then ends with the missing permission.

    ```python
    try:
        await producer.send(Message.of("orders", b"hello"))
    except NotPermitted as error:
        print("access control" if error.by_account else "not writable", error)
    ```
    """

    by_account: bool = False

    def __init__(
        self,
        code: int,
        remark: str | None,
        address: str,
        request: str = "the request",
        *,
        concluded: bool = False,
    ) -> None:

        from rmqcli.client.denials import cleaned, denial

        missing = None if concluded else denial(code, remark or "", request)
        self.by_account = missing is not None
        self.remedy = missing or ""
        text = remark if concluded else cleaned(remark)
        super().__init__(code, text, address, request, concluded=concluded)
        self.remark = remark or ""


class NotFound(BrokerRefused):
    """QUERY_NOT_FOUND (22), and the base of the errors for things that do not exist.

    `missing`: the kind (topic, group, broker, cluster) and name, if the library knows them; `known`: the
    names that exist, if it has read them.

    ```python
    try:
        await admin.topics.stats("nowhere")
    except NotFound as error:
        assert error.missing == ("topic", "nowhere")
    ```
    """

    missing: tuple[str, str] | None = None
    known: tuple[str, ...] | None = None


class TopicNotFound(NotFound):
    """TOPIC_NOT_EXIST (17) from a broker.

    ```python
    try:
        await admin.topics.settings("nowhere")
    except TopicNotFound as error:
        print(error)
    ```
    """

    remedy = "create it with: rmq topic create"


def topic_remedy(topic: str) -> str:
    """Return the advice to create a topic, unless brokers create it themselves or none accepts its name."""
    if topic.startswith(RETRY_PREFIX):
        return f"brokers create it when a member of group {topic.removeprefix(RETRY_PREFIX)} starts"
    if topic.startswith(DLQ_PREFIX):
        return f"brokers create it with the first dead letter of group {topic.removeprefix(DLQ_PREFIX)}"
    try:
        check_topic(topic)
    except ValueError:
        return f"a topic has at most {MAX_TOPIC_LENGTH} of: letters, digits, %, |, - and _"
    return f"create it with: rmq topic create {topic}"


class NoRoute(TopicNotFound):
    """The name server has no route for `topic`; `detail` continues the sentence, e.g. for TBW102.

    ```python
    try:
        await admin.topics.route("nowhere")
    except NoRoute as error:
        assert error.topic == "nowhere"
    ```
    """

    def __init__(self, topic: str, address: str, remark: str | None = None, detail: str = "") -> None:
        text = f"topic {topic} not found on name server {address}{detail}"
        self.remedy = topic_remedy(topic)
        request = RequestCode.GET_ROUTEINFO_BY_TOPIC.name
        super().__init__(ResponseCode.TOPIC_NOT_EXIST, text, address, request, concluded=True)
        self.remark = remark or ""
        self.topic = topic
        self.missing = ("topic", topic)


class GroupNotFound(NotFound):
    """SUBSCRIPTION_GROUP_NOT_EXIST (26).

    ```python
    try:
        await admin.groups.settings("nobody")
    except GroupNotFound as error:
        print(error)
    ```
    """

    remedy = (
        "it is created by its first consumer, unless autoCreateSubscriptionGroup=false, "
        "or with: rmq group create"
    )


class ConsumerOffline(BrokerRefused):
    """CONSUMER_NOT_ONLINE (206): no client of the group is connected.

    ```python
    try:
        await admin.clients.consumers("billing")
    except ConsumerOffline:
        print("billing has no connected member")
    ```
    """


class OnlineResetUnsupported(ClientError):
    """A reset that running consumers cannot follow.

    Brokers of 4.x accept only a time, for the whole topic.

    ```python
    plan = await admin.offsets.plan_reset("billing", "orders", ResetTarget("shift", -1))
    try:
        await admin.offsets.reset(plan)
    except OnlineResetUnsupported as error:
        print(error.clients, "clients must stop first")
    ```
    """

    def __init__(self, group: str, clients: int, wanted: str, *, only: str = "of a whole topic") -> None:
        either = ", or reset to start, end or @TIME" if only == "of a whole topic" else ""
        super().__init__(
            f"group {group} has running clients ({clients}), and its broker moves running consumers only "
            f"to a time, the start or the end {only}, not to {wanted}; stop the clients first{either}"
        )
        self.group = group
        self.clients = clients


class SettingsIgnored(ClientError):
    """Settings of 5.x that a broker silently ignored. It applied the others.

    ```python
    try:
        await admin.topics.create("parcels", attributes="+message.type=FIFO")
    except SettingsIgnored as error:
        print(error)
    ```
    """

    def __init__(self, what: str, names: Sequence[str], address: str) -> None:
        super().__init__(
            f"{what} has no {', '.join(names)} on {address}, which is older than 5.0; the rest was applied"
        )
        self.address = address


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


def valid(function: Callable[..., Result], *arguments: object) -> Result:
    """Return the result of a function of codec; turn its ValueError into InvalidRequest."""
    try:
        return function(*arguments)
    except ValueError as error:
        raise InvalidRequest(str(error)) from None


def refusal(code: int, remark: str | None, address: str, request: int) -> BrokerRefused:
    kind = _REFUSALS.get(code, BrokerRefused)
    if code == ResponseCode.SYSTEM_ERROR and _ACL_REMARK in (remark or ""):
        kind = NotPermitted
    return kind(code, remark, address, request_name(request))
