"""RECALL_MESSAGE (370), GET_TIMER_CHECK_POINT (60), GET_TIMER_METRICS (61) (Java classes
`RecallMessageProcessor`, `AdminBrokerProcessor`).

A recall stores a record that is due in the same second as the message and names it; both are then dropped.
Success means that this record is stored, not that there was such a message.
"""

from __future__ import annotations

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import Refusal
from rmqcli.broker.net.handling import Answered, Reply, Request
from rmqcli.broker.services.put import begin_flush, own_message, put, safely_stored
from rmqcli.broker.services.timer_properties import DEL_UNIQKEY, DELIVER_MS, delete_key
from rmqcli.broker.store.values import PutStatus
from rmqcli.codec.bodies.stats import TimerMetricsSerializeWrapper
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.errors import LocalProtocolError
from rmqcli.codec.headers.send import RecallMessageRequestHeader, RecallMessageResponseHeader
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.recall_handle import RecallHandle
from rmqcli.codec.store.timer_files import CHECK_POINT

TAG = "_RECALL_TAG_"
NOT_AVAILABLE = "recall failed, broker service not available"

RecallReply = Reply[RecallMessageResponseHeader, None]


def recall(
    broker: BrokerContext, request: Request[RecallMessageRequestHeader, None]
) -> Answered[RecallMessageResponseHeader, None]:
    """Recall a timer message by the handle that its sender got (code 370)."""
    header = request.header
    _check(broker, header.topic)
    _, _, moment, key = _handle(broker, header)
    delay = moment - broker.now_ms()
    if not 0 < delay < broker.config.timer_max_delay_sec * 1000:
        raise _illegal("recall failed, timestamp invalid")
    properties = {
        PropertyName.TAGS: TAG,
        PropertyName.UNIQ_KEY: key,
        DEL_UNIQKEY: delete_key(header.topic, key),
        DELIVER_MS: str(moment),
    }
    message = own_message(broker, header.topic, TAG.encode(), properties)
    try:
        result = put(broker, message)
    except LocalProtocolError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"recall failed, execute error: {error}") from None
    if result.status is not PutStatus.PUT_OK:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "recall failed, execute error")
    reply: RecallReply = Reply(RecallMessageResponseHeader(msg_id=key))
    if not broker.waits_for_store:
        return reply
    begin_flush(broker)
    return _once_safe(broker, reply, result.physical_offset + result.size)


async def _once_safe(broker: BrokerContext, reply: RecallReply, end: int) -> RecallReply:
    # As in Java, which counts a record as stored that no slave or disk has confirmed in time.
    await safely_stored(broker, end)
    return reply


def _check(broker: BrokerContext, topic: str) -> None:
    config = broker.config
    if not config.recall_message_enable:
        raise Refusal(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
    if broker.is_slave:
        raise Refusal(ResponseCode.SLAVE_NOT_AVAILABLE, NOT_AVAILABLE)
    if broker.now_ms() < config.start_accept_send_request_time_stamp:
        raise Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, NOT_AVAILABLE)
    if broker.topics.get(topic) is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{topic}] not exist")


def _handle(broker: BrokerContext, header: RecallMessageRequestHeader) -> RecallHandle:
    """Return the handle of a request. Raises Refusal if it is invalid, or of another topic or broker."""
    try:
        handle = RecallHandle.decode(header.recall_handle)
    except ValueError as error:
        raise _illegal(str(error)) from None
    if handle.topic != header.topic:
        raise _illegal("recall failed, topic not match")
    if handle.broker_name != broker.name:
        raise _illegal(NOT_AVAILABLE)
    return handle


def _illegal(remark: str) -> Refusal:
    return Refusal(ResponseCode.ILLEGAL_OPERATION, remark)


def check_point(broker: BrokerContext, _request: Request[None, None]) -> Reply[None, bytes]:
    """Return how far the timer messages are delivered (code 60)."""
    return Reply(body=CHECK_POINT.pack(*broker.timers.check_point()))


def metrics(
    broker: BrokerContext, _request: Request[None, None]
) -> Reply[None, TimerMetricsSerializeWrapper]:
    """Return the number of waiting timer messages, by topic (code 61)."""
    return Reply(body=broker.timers.metrics())
