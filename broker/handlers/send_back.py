"""CONSUMER_SEND_MSG_BACK (36): a message that a consumer failed to process (Java class
`AbstractSendMessageProcessor`).

The message goes to the retry topic of the group, with a delay that grows with each attempt, or, when the
attempts are used up or the delay level is negative, to the dead-letter topic.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.context import BrokerContext
from broker.errors import Refusal
from broker.handlers.common import DLQ_QUEUES, message_at, retry_group, retry_limit
from broker.net.handling import Reply, Request
from broker.services.messages import can_be_stored, restored
from broker.services.put import put
from broker.store.values import PutStatus, StoreMessage
from broker.tables.topics import UNIT_SUB
from codec.bodies.config import SubscriptionGroupConfig, TopicConfig
from codec.codes import Perm, ResponseCode
from codec.errors import LocalProtocolError
from codec.headers.send import ConsumerSendMsgBackRequestHeader
from codec.message import MessageExt
from codec.names import dlq_topic, retry_topic
from codec.properties import TIMERS, PropertyName, encode_properties

FIRST_DELAY_LEVEL = 3
"""The delay level of the first attempt when the consumer leaves it to the broker."""


@dataclass(frozen=True, slots=True)
class _Target:
    topic: str
    queues: int
    delay_level: int


def send_back(
    broker: BrokerContext, request: Request[ConsumerSendMsgBackRequestHeader, None]
) -> Reply[None, None]:
    """36: stores the message again, to be delivered later."""
    header = request.header
    group = retry_group(broker, request.session, header.group)
    if not broker.config.broker_permission & Perm.WRITE:
        raise Refusal(ResponseCode.NO_PERMISSION, f"the broker[{broker.host}] sending message is forbidden")
    if group.retry_queue_nums <= 0:
        return Reply()
    retry = _ensure(broker, retry_topic(header.group), group.retry_queue_nums, header.unit_mode)
    if not retry.perm & Perm.WRITE:
        raise Refusal(
            ResponseCode.NO_PERMISSION, f"the topic[{retry.topic_name}] sending message is forbidden"
        )
    original = message_at(broker, header.offset)
    if original is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {header.offset}")
    target = _target(header, group, original, request.command.version)
    if not can_be_stored(target.topic):
        raise Refusal(ResponseCode.SYSTEM_ERROR, PutStatus.MESSAGE_ILLEGAL.name)
    if target.topic != retry.topic_name:
        _ensure(broker, target.topic, target.queues)
    _put(broker, original, target)
    broker.statistics.sent_back(
        original.properties.get(PropertyName.RETRY_TOPIC, original.topic), header.group
    )
    return Reply()


def _ensure(broker: BrokerContext, topic: str, queues: int, unit_mode: bool = False) -> TopicConfig:
    config, made = broker.topics.ensure(topic, queues, sys_flag=UNIT_SUB if unit_mode else 0)
    if made:
        broker.topics_changed([config])
    return config


def _put(broker: BrokerContext, original: MessageExt, target: _Target) -> None:
    queue_id = broker.rng.randrange(max(1, target.queues))
    try:
        status = put(broker, _retried(original, target, queue_id)).status
    except LocalProtocolError:
        status = PutStatus.PROPERTIES_SIZE_EXCEEDED
    if status is not PutStatus.PUT_OK:
        raise Refusal(ResponseCode.SYSTEM_ERROR, status.name)


def _target(
    header: ConsumerSendMsgBackRequestHeader,
    group: SubscriptionGroupConfig,
    original: MessageExt,
    version: int,
) -> _Target:
    if original.reconsume_times >= retry_limit(group, header, version) or header.delay_level < 0:
        return _Target(dlq_topic(header.group), DLQ_QUEUES, 0)
    level = header.delay_level or FIRST_DELAY_LEVEL + original.reconsume_times
    return _Target(retry_topic(header.group), group.retry_queue_nums, level)


def _retried(original: MessageExt, target: _Target, queue_id: int) -> StoreMessage:
    properties = {name: value for name, value in original.properties.items() if name not in TIMERS}
    properties.setdefault(PropertyName.RETRY_TOPIC, original.topic)
    properties.setdefault(PropertyName.ORIGIN_MESSAGE_ID, original.offset_msg_id)
    properties[PropertyName.WAIT] = "false"
    properties[PropertyName.DELAY] = str(target.delay_level)
    message = restored(original, properties, encode_properties(properties))
    message.topic = target.topic
    message.queue_id = queue_id
    message.reconsume_times += 1
    return message
