"""Requests of an administrator to running consumers, relayed by the broker: codes 222, 223, 307, 309
(`Broker2Client`).

A reset does not change the broker's offset table: each client is notified (220) and moves its offsets.
Brokers of 4.9 accept a time for the whole topic; this one also accepts one queue and its offset, as in 5.x,
unless useServerSideResetOffset=false.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from contextlib import suppress
from typing import Any, TypeVar

import trio

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import Refusal, RemoteClosed, RemoteTimeout
from rmqcli.broker.handlers.common import is_unflushed
from rmqcli.broker.net.handling import Reply, Request, command_of
from rmqcli.broker.net.turns import Pace
from rmqcli.broker.tables import ClientChannel, ConsumerGroup
from rmqcli.codec.bodies.base import Body
from rmqcli.codec.bodies.config import TopicConfig
from rmqcli.codec.bodies.offsets import (
    GetConsumerStatusBody,
    MessageQueueForC,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from rmqcli.codec.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from rmqcli.codec.codes import LanguageCode, ResponseCode
from rmqcli.codec.errors import CodecError
from rmqcli.codec.fastjson import dumps_in_steps
from rmqcli.codec.headers.clients import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
)
from rmqcli.codec.headers.offsets import GetConsumerStatusRequestHeader, ResetOffsetRequestHeader
from rmqcli.codec.ids import parse_offset_msg_id
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.offsets import GET_CONSUMER_STATUS_FROM_CLIENT, RESET_CONSUMER_CLIENT_OFFSET
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.versions import version_name

RESET_SINCE_VERSION = 28
"""V3_0_7_SNAPSHOT: the first client version whose offsets can be reset or queried."""
RELAY_SINCE_VERSION = 62
"""V3_1_8_SNAPSHOT: the first client version that answers 307 and 309."""
STATUS_SECONDS = 5
RELAY_SECONDS = 10

BodyT = TypeVar("BodyT")
RelayedReply = Reply[None, BodyT] | RemotingCommand


async def reset_offset(
    broker: BrokerContext, request: Request[ResetOffsetRequestHeader, None]
) -> Reply[None, ResetOffsetBody]:
    """Make the clients of a group continue at a store time (-1: the end), or at an offset of one queue (code
    222)."""
    header, turns = request.header, request.session.turns
    offset, queue_id = header.offset, header.queue_id
    if offset is None or offset < 0 or queue_id is None or queue_id < 0:
        table = await _reset_table(broker, header, turns.pace())
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
    _refuse_old(group)
    for queue, at in table.items():
        broker.pops.move(header.group, queue.topic, queue.queue_id, at)
    notice = ResetOffsetRequestHeader(topic=header.topic, group=header.group, timestamp=header.timestamp)
    ext_fields, _ = RESET_CONSUMER_CLIENT_OFFSET.encode_request(notice, ResetOffsetBody())
    body = await turns.run(_reset_body(table, request.command.language))
    pace = turns.pace()
    for client in list(group.channels.values()):
        client.channel.oneway(RemotingCommand(RESET_CONSUMER_CLIENT_OFFSET.code, ext_fields, body))
        await pace.step()
    return Reply(body=ResetOffsetBody(offset_table=table), is_used_up=True)


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
    low, high = (
        broker.store.search.min_offset(topic, queue_id),
        broker.store.search.max_offset(topic, queue_id),
    )
    if not low <= offset <= high:
        remark = f"Target offset {offset} should be in range [{low}-{high}]"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    return MessageQueue(topic, broker.name, queue_id)


async def _reset_table(
    broker: BrokerContext, header: ResetOffsetRequestHeader, pace: Pace
) -> dict[MessageQueue, int]:
    """Return the new offsets of all read queues (as in 5.3.3; 4.9 uses the write queues). Each queue waits
    for the disk separately, so that no queue is searched twice.
    """
    store, table = broker.store, {}
    for queue_id in range(_topic_of_reset(broker, header.topic).read_queue_nums):
        committed = broker.offsets.query(header.group, header.topic, queue_id)
        if committed == -1:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"THe consumer group <{header.group}> not exist")
        if header.timestamp == -1:
            target = store.search.max_offset(header.topic, queue_id)
        else:
            target = await store.when_ready(
                store.search.offset_by_time, header.topic, queue_id, header.timestamp
            )
        target = max(0, target)
        wanted = target if header.is_force or target < committed else committed
        table[MessageQueue(header.topic, broker.name, queue_id)] = wanted
        await pace.step()
    return table


def _reset_body(table: dict[MessageQueue, int], language: int) -> Generator[None, None, bytes]:
    """Return the encoded table for the clients, in steps; a list, ResetOffsetBodyForC, if the request came
    from C++.
    """
    body: Body = ResetOffsetBody(offset_table=table)
    if language == LanguageCode.CPP:
        items = []
        for q, offset in table.items():
            items.append(
                MessageQueueForC(topic=q.topic, broker_name=q.broker_name, queue_id=q.queue_id, offset=offset)
            )
            yield
        body = ResetOffsetBodyForC(offset_table=items)
    return (yield from dumps_in_steps(body, dialect=RESET_CONSUMER_CLIENT_OFFSET.request_dialect))


def _refuse_old(group: ConsumerGroup) -> None:
    for client in group.channels.values():
        if client.version < RESET_SINCE_VERSION:
            remark = f"the client does not support this feature. version={version_name(client.version)}"
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark)


def consumer_status(
    broker: BrokerContext, request: Request[GetConsumerStatusRequestHeader, None]
) -> Coroutine[Any, Any, Reply[None, GetConsumerStatusBody]]:
    """Query the offsets of the clients of a group (code 223); `clientAddr` is a client id, empty for all."""
    header = request.header
    group = broker.consumers.get(header.group)
    if group is None:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{header.group}]"
        )
    _refuse_old(group)
    return _statuses(group, header)


async def _statuses(
    group: ConsumerGroup, header: GetConsumerStatusRequestHeader
) -> Reply[None, GetConsumerStatusBody]:
    """Query all clients at once. Java queries one after the other, so two silent clients make the
    administrator's request time out."""
    table: dict[str, dict[MessageQueue, int]] = {}
    asked = GetConsumerStatusRequestHeader(topic=header.topic, group=header.group)

    async def request_status(client: ClientChannel) -> None:
        request = command_of(GET_CONSUMER_STATUS_FROM_CLIENT, asked, None)
        with suppress(RemoteTimeout, RemoteClosed, CodecError):  # a client that does not respond is omitted
            reply = await client.channel.request(request, STATUS_SECONDS)
            if reply.code == ResponseCode.SUCCESS:
                status = GET_CONSUMER_STATUS_FROM_CLIENT.decode_reply(reply).body
                table[client.client_id] = dict(status.message_queue_table)

    async with trio.open_nursery() as nursery:
        for client in group.channels.values():
            if header.client_addr in (None, "", client.client_id):
                nursery.start_soon(request_status, client)
    return Reply(body=GetConsumerStatusBody(message_queue_table={}, consumer_table=table))


def running_info(
    broker: BrokerContext, request: Request[GetConsumerRunningInfoRequestHeader, None]
) -> Coroutine[Any, Any, RelayedReply[ConsumerRunningInfo]]:
    """Relay the running info of one consumer (code 307)."""
    header = request.header
    client = _client(broker, header.consumer_group, header.client_id)
    ext = dict(request.command.ext_fields or {})
    return _relayed(RemotingCommand(request.command.code, ext), header.consumer_group, client)


def consume_directly(
    broker: BrokerContext, request: Request[ConsumeMessageDirectlyResultRequestHeader, bytes]
) -> Coroutine[Any, Any, RelayedReply[ConsumeMessageDirectlyResult]]:
    """Make one consumer process the message with an offset message id, and relay the result (code 309)."""
    header = request.header
    client = _client(broker, header.consumer_group, header.client_id or "")
    record, end = _record(broker, header.msg_id or "")
    ext = {**(request.command.ext_fields or {}), "brokerName": broker.name}
    command = RemotingCommand(request.command.code, ext, bytes(record))
    return _relayed_once_flushed(broker, command, header.consumer_group, client, end)


def _record(broker: BrokerContext, msg_id: str) -> tuple[memoryview, int]:
    """Return the record with an offset message id, and its end in the commit log. Raises Refusal."""
    try:
        _, _, offset = parse_offset_msg_id(msg_id)
    except CodecError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"msgId: {error}") from None
    record = broker.store.search.record_at(offset)
    if record is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")
    return record, offset + len(record)


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


async def _relayed_once_flushed(
    broker: BrokerContext, question: RemotingCommand, group: str, client: ClientChannel, end: int
) -> RelayedReply[BodyT]:
    if is_unflushed(broker, end):
        await broker.store.wait_flushed(end)
    return await _relayed(question, group, client)


async def _relayed(question: RemotingCommand, group: str, client: ClientChannel) -> RelayedReply[BodyT]:
    """Return the unchanged reply of a client; its body is not decoded."""
    consumer = f"consumer <{group}> <{client.client_id}>"
    try:
        return await client.channel.request(question, RELAY_SECONDS)
    except RemoteTimeout as error:
        return Reply(code=ResponseCode.CONSUME_MSG_TIMEOUT, remark=f"{consumer} Timeout: {error}")
    except RemoteClosed as error:
        return Reply(code=ResponseCode.SYSTEM_ERROR, remark=f"invoke {consumer} Exception: {error}")
