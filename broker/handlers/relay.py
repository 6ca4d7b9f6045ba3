"""What an administrator asks of running consumers through the broker: codes 222, 223, 307, 309 (`Broker2Client`).

A reset does not change the broker's offset table: each client is told (220) and moves its own offsets. Brokers of 4.9 take a
time for the whole topic; here 222 can also name one queue and its offset, as in 5.x, unless useServerSideResetOffset=false.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType

import trio

from broker.context import BrokerContext
from broker.errors import Refusal, RemoteClosed, RemoteTimeout
from broker.handlers.common import NOT_SET, fast_body
from broker.net.session import Session
from broker.tables import ClientChannel, ConsumerGroup
from codec.bodies.base import decode_body
from codec.bodies.config import TopicConfig
from codec.bodies.offsets import GetConsumerStatusBody, MessageQueueForC, ResetOffsetBody, ResetOffsetBodyForC
from codec.codes import LanguageCode, RequestCode, ResponseCode, version_name
from codec.errors import CodecError
from codec.headers.base import from_ext, to_ext
from codec.headers.clients import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
)
from codec.headers.offsets import GetConsumerStatusRequestHeader, ResetOffsetRequestHeader
from codec.ids import parse_offset_msg_id
from codec.message_queue import MessageQueue
from codec.remoting.frame import RemotingCommand

__all__ = ["consume_directly", "consumer_status", "reset_offset", "running_info"]

RESET_SINCE_VERSION = 28
"""V3_0_7_SNAPSHOT: the first client that can be reset or asked for its offsets."""
RELAY_SINCE_VERSION = 62
"""V3_1_8_SNAPSHOT: the first client that answers 307 and 309."""
STATUS_SECONDS = 5
RELAY_SECONDS = 10
NOTHING: Mapping[str, str] = MappingProxyType({})


def reset_offset(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """222: tells every client of a group to go on at a store time (-1: at the end), or at the offset of one queue."""
    header = from_ext(ResetOffsetRequestHeader, request.ext_fields)
    offset, queue_id = header.offset, header.queue_id
    if offset is None or offset < 0 or queue_id is None or queue_id < 0:
        table = _reset_table(broker, header)
    elif broker.config.use_server_side_reset_offset:
        table = {_queue_of_reset(broker, header, queue_id, offset): offset}
    else:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "useServerSideResetOffset=false: no single queue is reset")
    group = broker.consumers.get(header.group)
    if group is None:
        raise Refusal(
            ResponseCode.CONSUMER_NOT_ONLINE,
            f"Consumer not online, so can not reset offset, Group: {header.group} Topic: {header.topic} "
            f"Timestamp: {header.timestamp}",
        )
    for client in group.channels.values():
        if client.version < RESET_SINCE_VERSION:
            raise Refusal(ResponseCode.SYSTEM_ERROR, _too_old(client))
    body = _reset_body(table, request.language)
    told = ResetOffsetRequestHeader(topic=header.topic, group=header.group, timestamp=header.timestamp)
    for client in list(group.channels.values()):
        ext = to_ext(told)
        client.channel.oneway(
            RemotingCommand(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext_fields=ext, body=body)
        )
    return request.reply(ResponseCode.SUCCESS, NOT_SET, None, fast_body(ResetOffsetBody(offset_table=table)))


def _topic_of_reset(broker: BrokerContext, topic: str) -> TopicConfig:
    config = broker.topics.get(topic)
    if config is None:
        remark = f"[reset-offset] reset offset failed, no topic in this broker. topic={topic}"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    return config


def _queue_of_reset(
    broker: BrokerContext, header: ResetOffsetRequestHeader, queue_id: int, offset: int
) -> MessageQueue:
    topic = header.topic
    queues = _topic_of_reset(broker, topic).read_queue_nums
    if queue_id >= queues:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"topic {topic} has {queues} queues, no queue {queue_id}")
    low, high = broker.store.min_offset(topic, queue_id), broker.store.max_offset(topic, queue_id)
    if not low <= offset <= high:
        remark = f"Target offset {offset} should be in range [{low}-{high}]"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    return MessageQueue(topic, broker.name, queue_id)


def _reset_table(broker: BrokerContext, header: ResetOffsetRequestHeader) -> dict[MessageQueue, int]:
    table = {}
    for queue_id in range(_topic_of_reset(broker, header.topic).write_queue_nums):
        committed = broker.offsets.query(header.group, header.topic, queue_id)
        if committed == -1:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"THe consumer group <{header.group}> not exist")
        if header.timestamp == -1:
            target = broker.store.max_offset(header.topic, queue_id)
        else:
            target = broker.store.offset_by_time(header.topic, queue_id, header.timestamp)
        target = max(0, target)
        wanted = target if header.is_force or target < committed else committed
        table[MessageQueue(header.topic, broker.name, queue_id)] = wanted
    return table


def _reset_body(table: dict[MessageQueue, int], language: int) -> bytes:
    """In fastjson's form: the only one that Java and Go clients both read; a list when C++ asks."""
    if language != LanguageCode.CPP:
        return fast_body(ResetOffsetBody(offset_table=table))
    items = [
        MessageQueueForC(topic=q.topic, broker_name=q.broker_name, queue_id=q.queue_id, offset=offset)
        for q, offset in table.items()
    ]
    return fast_body(ResetOffsetBodyForC(offset_table=items))


def _too_old(client: ClientChannel) -> str:
    return f"the client does not support this feature. version={version_name(client.version)}"


def consumer_status(broker: BrokerContext, session: Session, request: RemotingCommand) -> None:
    """223: asks the clients of a group for the offsets they hold; `clientAddr` is a client id, empty for all."""
    header = from_ext(GetConsumerStatusRequestHeader, request.ext_fields)
    group = broker.consumers.get(header.group)
    if group is None:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{header.group}]"
        )
    for client in group.channels.values():
        if client.version < RESET_SINCE_VERSION:
            raise Refusal(ResponseCode.SYSTEM_ERROR, _too_old(client))
    session.spawn(_ask_status, session, request, group, header)


async def _ask_status(
    session: Session, request: RemotingCommand, group: ConsumerGroup, header: GetConsumerStatusRequestHeader
) -> None:
    """All at once: Java asks one after the other, and who asked has gone when the second is silent."""
    table: dict[str, dict[MessageQueue, int]] = {}
    ext = {"topic": header.topic, "group": header.group}

    async def ask(client: ClientChannel) -> None:
        question = RemotingCommand(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ext_fields=dict(ext))
        with suppress(RemoteTimeout, RemoteClosed, CodecError):  # who does not answer is left out
            reply = await client.channel.request(question, STATUS_SECONDS)
            if reply.code == ResponseCode.SUCCESS:
                status = decode_body(GetConsumerStatusBody, reply.body)
                table[client.client_id] = dict(status.message_queue_table)

    async with trio.open_nursery() as nursery:
        for client in group.channels.values():
            if header.client_addr in (None, "", client.client_id):
                nursery.start_soon(ask, client)
    body = fast_body(GetConsumerStatusBody(message_queue_table={}, consumer_table=table))
    session.respond(request, request.reply(ResponseCode.SUCCESS, NOT_SET, None, body))


def running_info(broker: BrokerContext, session: Session, request: RemotingCommand) -> None:
    """307: what one consumer is doing, in its own words."""
    header = from_ext(GetConsumerRunningInfoRequestHeader, request.ext_fields)
    client = _client(broker, header.consumer_group, header.client_id)
    session.spawn(_relay, session, request, header.consumer_group, client)


def consume_directly(broker: BrokerContext, session: Session, request: RemotingCommand) -> None:
    """309: one consumer is given the message with an offset message id, and tells what became of it."""
    header = from_ext(ConsumeMessageDirectlyResultRequestHeader, request.ext_fields)
    client = _client(broker, header.consumer_group, header.client_id or "")
    record = _record(broker, header.msg_id or "")
    named = {"brokerName": broker.name}
    session.spawn(_relay, session, request, header.consumer_group, client, bytes(record), named)


def _record(broker: BrokerContext, msg_id: str) -> memoryview:
    try:
        _, _, offset = parse_offset_msg_id(msg_id)
    except CodecError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"msgId: {error}") from None
    record = broker.store.record_at(offset)
    if record is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")
    return record


def _client(broker: BrokerContext, group: str, client_id: str) -> ClientChannel:
    online = broker.consumers.get(group)
    client = online.find(client_id) if online is not None else None
    if client is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
    if client.version < RELAY_SINCE_VERSION:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"The Consumer <{client_id}> Version <{version_name(client.version)}> too low to finish, "
            "please upgrade it to V3_1_8_SNAPSHOT",
        )
    return client


async def _relay(
    session: Session,
    request: RemotingCommand,
    group: str,
    client: ClientChannel,
    body: bytes = b"",
    more: Mapping[str, str] = NOTHING,
) -> None:
    question = RemotingCommand(request.code, ext_fields={**(request.ext_fields or {}), **more}, body=body)
    consumer = f"consumer <{group}> <{client.client_id}>"
    try:
        answer = await client.channel.request(question, RELAY_SECONDS)
    except RemoteTimeout as error:
        reply = request.reply(ResponseCode.CONSUME_MSG_TIMEOUT, f"{consumer} Timeout: {error}")
    except RemoteClosed as error:
        reply = request.reply(ResponseCode.SYSTEM_ERROR, f"invoke {consumer} Exception: {error}")
    else:
        reply = request.reply(answer.code, answer.remark, answer.ext_fields, bytes(answer.body))
    session.respond(request, reply)
