"""The front and the caller of a call, and the way from a call to the handlers of the broker."""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import NotReady
from rmqcli.broker.net.dispatch import Barrier
from rmqcli.broker.net.handling import Reply, Request
from rmqcli.broker.net.turns import LongWork
from rmqcli.broker.proxy.answers import StatusError
from rmqcli.broker.proxy.clients import Client, Clients
from rmqcli.broker.proxy.http2 import Call, Http2Session, in_task
from rmqcli.broker.proxy.renewals import Renewals
from rmqcli.codec.acl.account_file import Permission
from rmqcli.codec.acl.decision import Need, on_group, on_topic
from rmqcli.codec.codes import LanguageCode
from rmqcli.codec.headers.signed import ACCESS_KEY
from rmqcli.codec.names import check_group, check_topic
from rmqcli.codec.proxy.codes import Code
from rmqcli.codec.proxy.framing import CallError, GrpcStatus
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.versions import CURRENT_VERSION

LONGEST_CLIENT_ID = 255

ResultT = TypeVar("ResultT")
_AUTHORIZATION = re.compile(
    r"MQv2-HMAC-SHA1 Credential=([^,/]*)[^,]*, *SignedHeaders=([^,]*), *Signature=([0-9A-Fa-f]*)"
)
_LANGUAGES = {"HTTP": LanguageCode.NODE_JS, "GOLANG": LanguageCode.GO, "DOT_NET": LanguageCode.DOTNET}


class Front(msgspec.Struct, frozen=True):
    """The front of one broker."""

    broker: BrokerContext
    clients: Clients
    renewals: Renewals


class Caller(msgspec.Struct, frozen=True):
    """The client that makes a call, by its headers, on a connection."""

    front: Front
    call: Call
    client_id: str
    language: str
    access_key: str | None
    date_time: str
    signature: str

    @property
    def broker(self) -> BrokerContext:
        return self.front.broker

    @property
    def session(self) -> Http2Session:
        return self.call.session

    def client(self) -> Client:
        """Return the client, a new one if it is not known. Raises StatusError."""
        client = self.front.clients.find_or_add(self.client_id, self.access_key, self.session.peer_text)
        client.language = self.language
        return client

    def check(self, *needs: Need) -> None:
        """Refuse a caller whose account may not do this. Raises Refusal."""
        access = self.broker.access
        if access is not None:
            access.admit(
                self.session.peer[0], self.access_key, self._is_signed, needs, message_of(self.call.path)
            )

    def _is_signed(self, secret_key: str) -> bool:
        right = hmac.new(secret_key.encode(), self.date_time.encode(), "sha1").hexdigest()
        return bool(self.date_time) and hmac.compare_digest(right, self.signature.lower())

    def command(self, code: int) -> RemotingCommand:
        """Return the command of a request of this client, for a handler."""
        ext = {} if self.access_key is None else {ACCESS_KEY: self.access_key}
        language = _LANGUAGES.get(self.language) or LanguageCode.__members__.get(
            self.language, LanguageCode.OTHER
        )
        return RemotingCommand(code, ext, language=language, version=CURRENT_VERSION)


def message_of(path: str) -> str:
    """Return the full name of the request message of a call, as white lists name it."""
    service, _, method = path.lstrip("/").partition("/")
    package = service.rpartition(".")[0]
    return f"{package}.{method}Command" if method == "Telemetry" else f"{package}.{method}Request"


def caller_of(front: Front, call: Call) -> Caller:
    """Return the caller of a call. Raises StatusError."""
    headers = call.headers
    client_id = headers.get("x-mq-client-id", "")
    if not client_id or len(client_id) > LONGEST_CLIENT_ID:
        raise StatusError(Code.CLIENT_ID_REQUIRED, "header x-mq-client-id is required")
    found = _AUTHORIZATION.match(headers.get("authorization", ""))
    key, signature = (
        (found[1], found[3]) if found is not None and found[2].strip() == "x-mq-date-time" else ("", "")
    )
    caller = Caller(
        front,
        call,
        client_id,
        headers.get("x-mq-language", ""),
        key or None,
        headers.get("x-mq-date-time", ""),
        signature,
    )
    front.clients.find(client_id, caller.access_key)  # it is not silent
    return caller


async def ready(broker: BrokerContext, function: Callable[..., ResultT], *arguments: object) -> ResultT:
    """Call a function that uses the store once the disk is ready, and do what its reply must wait for, such as
    saving a new topic."""
    barriers: list[Barrier] = []

    def attempt() -> ResultT:
        _taken(broker)
        try:
            return function(*arguments)
        finally:
            barriers.extend(_taken(broker))

    try:
        result = broker.store.attempt(attempt)
    except NotReady:
        await in_task()
        result = await broker.store.when_ready(attempt)
    if barriers:
        await in_task()
    for barrier in barriers:
        await barrier()
    return result


def _taken(broker: BrokerContext) -> list[Barrier]:
    """Take the barrier that a function has set."""
    barrier, broker.store.barrier = broker.store.barrier, None
    return [] if barrier is None else [barrier]


async def handled(
    caller: Caller,
    handler: Callable[..., Any],
    header: Any,
    body: Any = None,
    *,
    code: int = 0,
    session: Any = None,
) -> Any:
    """Return the reply header of a handler of remoting to a request of this caller. `session` is its
    connection, unless another channel takes its place. Raises Refusal."""
    command = caller.command(code)
    request: Request[Any, Any] = Request(header, body, command, session or caller.session)
    answer: Any = await ready(caller.broker, handler, caller.broker, request)
    if isinstance(answer, LongWork):
        await answer.run(caller.session.turns)
        answer = await ready(caller.broker, answer.finish)
    if isinstance(answer, Coroutine):
        answer = await answer
    return answer.header if isinstance(answer, Reply) else None


def topic_name(name: str) -> str:
    """Return a topic name. Raises StatusError if it cannot be one."""
    try:
        check_topic(name)
    except ValueError as error:
        raise StatusError(Code.ILLEGAL_TOPIC, str(error)) from None
    return name


def group_name(name: str) -> str:
    """Return the name of a consumer group. Raises StatusError if it cannot be one."""
    try:
        check_group(name)
    except ValueError as error:
        raise StatusError(Code.ILLEGAL_CONSUMER_GROUP, str(error)) from None
    return name


def publish(topic: str) -> Need:
    """Return the need to send to a topic."""
    return on_topic(topic, Permission.PUB)


def subscribe(topic: str, group: str) -> tuple[Need, Need]:
    """Return the needs to receive from a topic as a group."""
    return on_topic(topic, Permission.SUB), on_group(group)


def decoded(message_type: Any, data: bytes) -> Any:
    """Return a message. Raises CallError."""
    try:
        return message_type.FromString(data)
    except Exception as error:  # protobuf's DecodeError, whose place depends on its implementation
        raise CallError(GrpcStatus.INTERNAL, f"the message cannot be decoded: {error}") from None
