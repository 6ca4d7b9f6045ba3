"""Request and reply through topics: a producer sends a message and waits for its reply (Java 4.6 and later).

The consumer of the request sends its reply to the topic `<cluster>_REPLY_TOPIC`. The broker passes it
directly to the requesting client (326), which it knows by the client id of its heartbeats. A request is
therefore preceded by a heartbeat to each broker that has received none on the current connection. Timeouts
are in seconds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from uuid import uuid4

import trio

from rmqcli.client.errors import BrokerRefused, ClientError, InvalidRequest, RequestTimeout
from rmqcli.client.identity import Namespace
from rmqcli.client.instance import ClientInstance
from rmqcli.client.processor import BrokerRequest
from rmqcli.client.results import SendResult
from rmqcli.client.wire.messages import unpack
from rmqcli.codec.codes import MASTER_ID, ResponseCode
from rmqcli.codec.compression import COMPRESSED
from rmqcli.codec.errors import CodecError
from rmqcli.codec.headers.send import ReplyMessageRequestHeader
from rmqcli.codec.message import Message, MessageExt, PropertyName
from rmqcli.codec.names import reply_topic
from rmqcli.codec.operations.messages import PUSH_REPLY_MESSAGE_TO_CLIENT
from rmqcli.codec.properties import decode_properties
from rmqcli.codec.property_names import REPLY_TYPE
from rmqcli.codec.remoting.command import RemotingCommand

REQUEST_TIMEOUT = 3.0
PushedReply = BrokerRequest[ReplyMessageRequestHeader, None, bytes, None]
_COPIED = (PropertyName.CORRELATION_ID, PropertyName.REPLY_TO_CLIENT, PropertyName.TTL)


class ReplyTimeout(RequestTimeout):
    """Raised if a request was stored but got no reply in time (Java's code 10006).

    ```python
    try:
        await producer.request(Message.of("orders", b"how much?"), timeout=1)
    except ReplyTimeout as error:
        assert error.timeout == 1
    ```
    """

    def __init__(self, topic: str, msg_id: str, timeout: float) -> None:
        ClientError.__init__(self, f"no reply to request {msg_id} of topic {topic} within {timeout:g} s")
        self.address = ""
        self.timeout = timeout


def create_reply_message(
    request: MessageExt, body: bytes | str, properties: Mapping[str, str] | None = None
) -> Message:
    """Return the reply to `request`.

    Raises InvalidRequest for a message that is not a request (Java `MessageUtil.createReplyMessage`).

    ```python
    async def listen(messages, context):
        for message in messages:
            await producer.send(create_reply_message(message, b"42"))
        return ConsumeResult.SUCCESS

    await admin.topics.create("questions")
    async with PushConsumer("answerers", {"questions": "*"}, listen):
        reply = await producer.request(Message.of("questions", b"how much?"))
    assert reply.body == b"42"
    ```
    """
    cluster = request.properties.get(PropertyName.CLUSTER)
    if not cluster:
        raise InvalidRequest("create reply message fail, requestMessage error, property[CLUSTER] is null.")
    if not request.properties.get(PropertyName.REPLY_TO_CLIENT):
        raise InvalidRequest(f"message {request.msg_id} is not a request")
    copied = {name: request.properties[name] for name in _COPIED if name in request.properties}
    own = dict(properties or {}) | copied | {PropertyName.MSG_TYPE: REPLY_TYPE}
    return Message.of(reply_topic(cluster), body, properties=own)


def requester_is_gone(error: BrokerRefused) -> bool:
    """Return True if a broker refused a reply because it could not pass it to the requesting client (Java
    `ReplyMessageProcessor.pushReplyMessage`).
    """
    return error.code == ResponseCode.SYSTEM_ERROR and error.remark.startswith("push reply message ")


class PendingReply:
    """A request that waits for its reply."""

    def __init__(self) -> None:
        self.arrived = trio.Event()
        self.message: MessageExt | None = None


class Requests:
    """The requests of one producer that wait for their replies, by correlation id."""

    def __init__(self, instance: ClientInstance, namespace: Namespace) -> None:
        self._instance = instance
        self._namespace = namespace
        self._waiting: dict[str, PendingReply] = {}

    def open(self) -> None:
        self._instance.requests.register(PUSH_REPLY_MESSAGE_TO_CLIENT, self._on_reply)

    def close(self) -> None:
        self._instance.requests.unregister(PUSH_REPLY_MESSAGE_TO_CLIENT, self._on_reply)

    async def ask(
        self, message: Message, timeout: float, send: Callable[..., Awaitable[SendResult]]
    ) -> MessageExt:
        """Send the request by `send`, a `Producer.send`, and wait for the reply."""
        deadline = self._instance.clock() + timeout
        correlation_id = str(uuid4())
        asked = message.with_properties(
            {
                PropertyName.CORRELATION_ID: correlation_id,
                PropertyName.REPLY_TO_CLIENT: self._instance.client_id,
                PropertyName.TTL: str(round(timeout * 1000)),
            }
        )
        # Registered before the send, because the reply may arrive before the result of the send.
        reply = self._waiting[correlation_id] = PendingReply()
        try:
            topic = self._namespace.wrap(message.topic)
            route = await self._instance.route(topic, create=True, timeout=timeout)
            masters = [table[MASTER_ID] for table in route.brokers.values() if MASTER_ID in table]
            with trio.move_on_at(deadline):
                await self._instance.heartbeats.introduce(masters)
            left = max(0.0, deadline - trio.current_time())
            sent = await send(asked, timeout=left)
            with trio.move_on_at(deadline):
                await reply.arrived.wait()
            if reply.message is None:
                raise ReplyTimeout(message.topic, sent.msg_id, timeout)
            return reply.message
        finally:
            del self._waiting[correlation_id]

    def _on_reply(self, request: PushedReply) -> RemotingCommand | None:
        """Answer PUSH_REPLY_MESSAGE_TO_CLIENT (326) with 0, or with 1 if the message cannot be read.

        The reply is 0 even if no request waits. It is sent later if the body is compressed.
        """
        try:
            message = _read_reply(request.header, bytes(request.body), self._instance.now_ms())
        except CodecError as error:
            return _refusal(request, error)
        if message.sys_flag & COMPRESSED:
            self._instance.nursery.start_soon(self._unpack, request, message)
            return None
        return self._receive(request, message)

    async def _unpack(self, request: PushedReply, message: MessageExt) -> None:
        error = await unpack(message)
        request.send(self._receive(request, message) if error is None else _refusal(request, error))

    def _receive(self, request: PushedReply, message: MessageExt) -> RemotingCommand:
        waiting = self._waiting.get(message.properties.get(PropertyName.CORRELATION_ID, ""))
        if waiting is not None and waiting.message is None:
            waiting.message = message
            waiting.arrived.set()
        return request.reply(None)


def _refusal(request: PushedReply, error: CodecError) -> RemotingCommand:
    return request.refuse(f"unknown err when receiveReplyMsg: {error}")


def _read_reply(header: ReplyMessageRequestHeader, body: bytes, now_ms: int) -> MessageExt:
    properties = decode_properties(header.properties or "")
    properties[PropertyName.ARRIVE_TIME] = str(now_ms)
    return MessageExt(
        topic=header.topic,
        queue_id=header.queue_id,
        queue_offset=0,
        commit_log_offset=0,
        flag=header.flag,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        born_host=header.born_host.lstrip("/"),
        store_timestamp=header.store_timestamp,
        store_host=header.store_host.lstrip("/"),
        reconsume_times=header.reconsume_times or 0,
        prepared_transaction_offset=0,
        body_crc=0,
        store_size=0,
        body=body,
        properties=properties,
    )
