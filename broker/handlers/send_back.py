"""CONSUMER_SEND_MSG_BACK (36): a message that a consumer failed to process (Java class
`AbstractSendMessageProcessor`).

The message goes to the retry topic of the group, with a delay that grows with each attempt. If the attempts
are used up or the delay level is negative, it goes to the dead-letter topic. It also goes there immediately
if the properties that a retry adds do not fit: the consumer would get it again for ever.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import Refusal
from rmqcli.broker.handlers.common import DLQ_QUEUES, message_at, retry_group, retry_limit
from rmqcli.broker.net.handling import Reply, Request
from rmqcli.broker.services.put import put, restored
from rmqcli.broker.store.values import PutStatus
from rmqcli.broker.tables.topics import UNIT_SUB
from rmqcli.codec.bodies.config import SubscriptionGroupConfig, TopicConfig
from rmqcli.codec.codes import Perm, ResponseCode
from rmqcli.codec.errors import PropertiesTooLong
from rmqcli.codec.headers.send import ConsumerSendMsgBackRequestHeader
from rmqcli.codec.message import MessageExt
from rmqcli.codec.names import dlq_topic, retry_topic
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.property_names import TIMERS, PropertyName

FIRST_DELAY_LEVEL = 3
"""The delay level of the first attempt if the consumer leaves the choice to the broker."""


P = PropertyName
SPARED = (P.WAIT, P.DELAY, P.TRACE_ON, P.MSG_REGION, P.CLUSTER, P.ORIGIN_MESSAGE_ID, P.RETRY_TOPIC)
"""Properties added by brokers, which are removed from a dead letter, in this order, until its properties
fit."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Retry:
    """Another attempt, made after a delay."""

    topic: str
    queues: int
    delay_level: int


def send_back(
    broker: BrokerContext, request: Request[ConsumerSendMsgBackRequestHeader, None]
) -> Reply[None, None]:
    """Store the message again, to be delivered later (code 36)."""
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
    if target is None or not _put_for_retry(broker, original, target):
        _put_dead_letter(broker, original, header.group)
    broker.statistics.sent_back(
        original.properties.get(PropertyName.RETRY_TOPIC, original.topic), header.group
    )
    return Reply()


def _ensure(broker: BrokerContext, topic: str, queues: int, unit_mode: bool = False) -> TopicConfig:
    config, made = broker.topics.ensure(topic, queues, sys_flag=UNIT_SUB if unit_mode else 0)
    if made:
        broker.topics_changed([config])
    return config


def _target(
    header: ConsumerSendMsgBackRequestHeader,
    group: SubscriptionGroupConfig,
    original: MessageExt,
    version: int,
) -> _Retry | None:
    """Return the next attempt; None if there is none."""
    if original.reconsume_times >= retry_limit(group, header, version) or header.delay_level < 0:
        return None
    level = header.delay_level or FIRST_DELAY_LEVEL + original.reconsume_times
    return _Retry(retry_topic(header.group), group.retry_queue_nums, level)


def _put_for_retry(broker: BrokerContext, original: MessageExt, retry: _Retry) -> bool:
    """Store the message for another attempt. Return False if its properties have no room for that."""
    properties = _properties(original) | {P.WAIT: "false", P.DELAY: str(retry.delay_level)}
    try:
        _put(broker, original, properties, retry.topic, broker.rng.randrange(max(1, retry.queues)))
    except PropertiesTooLong:
        text = (
            "%s: the message at %d becomes a dead letter: what a retry adds does not fit into its properties"
        )
        _log.warning(text, retry.topic, original.commit_log_offset)
        return False
    return True


def _put_dead_letter(broker: BrokerContext, original: MessageExt, group: str) -> None:
    topic = dlq_topic(group)
    _ensure(broker, topic, DLQ_QUEUES)
    properties = _properties(original) | {P.WAIT: "false", P.DELAY: "0"}
    for name in (None, *SPARED):
        properties.pop(name or "", None)
        try:
            _put(broker, original, properties, topic, broker.rng.randrange(DLQ_QUEUES))
        except PropertiesTooLong:
            continue
        return
    raise Refusal(ResponseCode.SYSTEM_ERROR, PutStatus.PROPERTIES_SIZE_EXCEEDED.name)


def _properties(original: MessageExt) -> dict[str, str]:
    properties = {name: value for name, value in original.properties.items() if name not in TIMERS}
    properties.setdefault(P.RETRY_TOPIC, original.topic)
    properties.setdefault(P.ORIGIN_MESSAGE_ID, original.offset_msg_id)
    return properties


def _put(
    broker: BrokerContext, original: MessageExt, properties: dict[str, str], topic: str, queue_id: int
) -> None:
    """Store the message again. Raises PropertiesTooLong if its properties are too long, otherwise Refusal if
    it is not stored."""
    message = restored(original, properties, encode_properties(properties))
    message.topic = topic
    message.queue_id = queue_id
    message.reconsume_times += 1
    status = put(broker, message).status
    if status is PutStatus.PROPERTIES_SIZE_EXCEEDED:
        raise PropertiesTooLong(status.name)
    if status is not PutStatus.PUT_OK:
        raise Refusal(ResponseCode.SYSTEM_ERROR, status.name)
