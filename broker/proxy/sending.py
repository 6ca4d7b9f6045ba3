"""SendMessage, EndTransaction and RecallMessage."""

from __future__ import annotations

import re
from typing import Any

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import Refusal
from rmqcli.broker.handlers import timers, transactions
from rmqcli.broker.handlers.send import accepted, stored
from rmqcli.broker.net.handling import Request
from rmqcli.broker.proxy.answers import OK, StatusError, code_of, common, of_refusal, status
from rmqcli.broker.proxy.calling import Caller, handled, publish, ready, topic_name
from rmqcli.broker.proxy.clients import transaction_id
from rmqcli.broker.proxy.convert import (
    full_name,
    milliseconds,
    plain_body,
    properties_of,
    queue_of_group,
    type_of,
)
from rmqcli.broker.proxy.http2 import in_task
from rmqcli.broker.proxy.routes import accepted_types, type_name
from rmqcli.broker.services.put import begin_flush, safely_stored, topics_at
from rmqcli.broker.services.timers import recall_handle
from rmqcli.broker.store.values import AppendResult, StoreMessage
from rmqcli.codec.codes import MessageSysFlag, RequestCode, ResponseCode
from rmqcli.codec.errors import CodecError, PropertiesTooLong
from rmqcli.codec.headers.send import RecallMessageRequestHeader, SendMessageRequestHeaderV2
from rmqcli.codec.headers.transactions import EndTransactionRequestHeader
from rmqcli.codec.names import TIMER_TOPIC, SystemTopic
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.proxy import messages
from rmqcli.codec.proxy.codes import Code, MessageType, TransactionResolution, TransactionSource

ANY_QUEUE = -1
MOST_MESSAGES = 1024
_TRANSACTION_ID = re.compile(r"([0-9A-F]{16})([0-9A-F]{16})")


async def send_message(caller: Caller, request: Any) -> Any:
    """Store messages of one topic: one of any type, or several normal ones, which go to one queue."""
    if not request.messages:
        raise StatusError(Code.BAD_REQUEST, "no message to send")
    if len(request.messages) > MOST_MESSAGES:
        raise StatusError(Code.BAD_REQUEST, f"{MOST_MESSAGES} messages can be sent together")
    topic = topic_name(full_name(request.messages[0].topic))
    caller.check(publish(topic))
    broker = caller.broker
    requests = [_request(caller, topic, message) for message in request.messages]
    if len(requests) > 1:
        if any(full_name(message.topic) != topic for message in request.messages):
            raise StatusError(Code.BAD_REQUEST, "messages that are sent together must have one topic")
        if any(message.system_properties.message_type > MessageType.NORMAL for message in request.messages):
            raise StatusError(Code.BAD_REQUEST, "only normal messages can be sent together")
    reply = messages.SendMessageResponse()
    queue_id = ANY_QUEUE
    end = 0
    for one in requests:
        try:
            message, result, queue_id = await ready(broker, _store, broker, one, queue_id)
        except Refusal as refusal:
            error = of_refusal(refusal)
            reply.entries.add(status=status(error.code, str(error)))
            continue
        end = max(end, result.physical_offset + result.size) if message.wait_store else end
        _add_entry(reply, broker, message, result)
    if end and broker.waits_for_store:
        begin_flush(broker)
        await in_task()
        code = await safely_stored(broker, end)
        if code != ResponseCode.SUCCESS:
            for entry in reply.entries:
                if entry.status.code == Code.OK:
                    entry.status.CopyFrom(status(code_of(code), code.name))
    reply.status.CopyFrom(common([entry.status for entry in reply.entries]))
    return reply


def _request(caller: Caller, topic: str, message: Any) -> Request[SendMessageRequestHeaderV2, bytes]:
    """Return the send of a message, as a producer of the group that has the name of the topic (as in Java).
    Raises StatusError."""
    broker = caller.broker
    properties = properties_of(message, topic)
    _check_type(broker, topic, type_of(properties))
    body = plain_body(message, broker.config.max_message_size)
    due, longest = message.system_properties.delivery_timestamp, broker.config.timer_max_delay_sec * 1000
    if milliseconds(due) - broker.now_ms() > longest:
        raise StatusError(Code.ILLEGAL_DELIVERY_TIME, f"a message can be delayed by {longest} ms")
    try:
        text = encode_properties(properties).decode()
    except PropertiesTooLong as error:
        raise StatusError(Code.MESSAGE_PROPERTIES_TOO_LARGE, str(error)) from None
    born = message.system_properties.born_timestamp
    header = SendMessageRequestHeaderV2(
        producer_group=topic,
        topic=topic,
        default_topic=SystemTopic.AUTO_CREATE,
        default_topic_queue_nums=broker.config.default_topic_queue_nums,
        queue_id=ANY_QUEUE,
        sys_flag=MessageSysFlag.TRANSACTION_PREPARED if PropertyName.TRAN_MSG in properties else 0,
        born_timestamp=born.seconds * 1000 + born.nanos // 1_000_000 or broker.now_ms(),
        flag=0,
        properties=text,
    )
    return Request(header, body, caller.command(RequestCode.SEND_MESSAGE_V2), caller.session)


def _check_type(broker: BrokerContext, topic: str, kind: MessageType) -> None:
    """Raise StatusError unless a topic takes messages of this type."""
    config = broker.topics.get(topic)
    if kind not in accepted_types(broker, config):
        text = f"the expected type is {type_name(config)}, but actual type is {kind.name}"
        raise StatusError(
            Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, f"TopicMessageType validate failed, {text}"
        )


def _store(
    broker: BrokerContext, request: Request[SendMessageRequestHeaderV2, bytes], queue_id: int
) -> tuple[StoreMessage, AppendResult, int]:
    message, chosen = accepted(broker, request)
    if message.topic == request.header.topic:
        group = message.properties.get(PropertyName.SHARDING_KEY)
        config = broker.topics.get(message.topic)
        if group is not None and config is not None:
            chosen = queue_of_group(group, max(1, config.write_queue_nums))
        elif queue_id != ANY_QUEUE:
            chosen = queue_id
        message.queue_id = chosen
    return message, stored(broker, message), chosen


def _add_entry(reply: Any, broker: BrokerContext, message: StoreMessage, result: AppendResult) -> None:
    entry = reply.entries.add()
    entry.status.CopyFrom(OK)
    entry.message_id = message.properties[PropertyName.UNIQ_KEY]
    entry.offset = result.queue_offset
    if message.topic == SystemTopic.TRANS_HALF:
        entry.transaction_id = transaction_id(result.physical_offset, result.queue_offset)
    elif message.topic == TIMER_TOPIC:
        entry.recall_handle = recall_handle(broker, message) or ""


_ENDS = {
    TransactionResolution.COMMIT: MessageSysFlag.TRANSACTION_COMMIT,
    TransactionResolution.ROLLBACK: MessageSysFlag.TRANSACTION_ROLLBACK,
}


async def end_transaction(caller: Caller, request: Any) -> Any:
    """Commit or roll back the half message that the transaction id names."""
    topic = topic_name(full_name(request.topic))
    caller.check(publish(topic))
    found = _TRANSACTION_ID.fullmatch(request.transaction_id)
    if found is None:
        raise StatusError(
            Code.INVALID_TRANSACTION_ID, f"transaction id {request.transaction_id!r} is not one of ours"
        )
    end = _ENDS.get(request.resolution)
    if end is None:
        raise StatusError(Code.BAD_REQUEST, "resolution: COMMIT or ROLLBACK is expected")
    place = int(found[1], 16)
    try:
        topics = await ready(caller.broker, topics_at, caller.broker, place)
    except CodecError:
        topics = None
    if topics is None or topics.real != topic:
        raise StatusError(Code.INVALID_TRANSACTION_ID, f"there is no such transaction in topic {topic}")
    header = EndTransactionRequestHeader(
        producer_group=topic,
        commit_log_offset=place,
        tran_state_table_offset=int(found[2], 16),
        commit_or_rollback=end,
        from_transaction_check=request.source == TransactionSource.SOURCE_SERVER_CHECK,
        msg_id=request.message_id,
        transaction_id=request.transaction_id,
    )
    await handled(caller, transactions.end_transaction, header, code=RequestCode.END_TRANSACTION)
    return messages.EndTransactionResponse()


async def recall_message(caller: Caller, request: Any) -> Any:
    """Take a delayed message back."""
    topic = topic_name(full_name(request.topic))
    caller.check(publish(topic))
    _check_type(caller.broker, topic, MessageType.DELAY)
    header = RecallMessageRequestHeader(
        topic=topic, recall_handle=request.recall_handle, producer_group=topic
    )
    recalled = await handled(caller, timers.recall, header, code=RequestCode.RECALL_MESSAGE)
    return messages.RecallMessageResponse(message_id=recalled.msg_id)
