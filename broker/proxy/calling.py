"""The front and the caller of a call, and the names in a call."""

from __future__ import annotations

import hmac
import re
from typing import Any

import msgspec

from rmqcli.broker.proxy.answers import StatusError
from rmqcli.broker.proxy.backend import Backend
from rmqcli.broker.proxy.clients import Client, Clients
from rmqcli.broker.proxy.http2 import Call, Http2Session
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

_AUTHORIZATION = re.compile(
    r"MQv2-HMAC-SHA1 Credential=([^,/]*)[^,]*, *SignedHeaders=([^,]*), *Signature=([0-9A-Fa-f]*)"
)
_LANGUAGES = {"HTTP": LanguageCode.NODE_JS, "GOLANG": LanguageCode.GO, "DOT_NET": LanguageCode.DOTNET}


class Front(msgspec.Struct, frozen=True):
    """A port for gRPC clients, in front of brokers."""

    backend: Backend
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
    def backend(self) -> Backend:
        return self.front.backend

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
        access = self.backend.access
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
    """Return the full name of the request message of a call, as whitelists name it."""
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
