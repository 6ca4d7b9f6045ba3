"""Messages that are stored once more because a consumer did not process them: for another attempt, or as
dead letters (Java classes `AbstractSendMessageProcessor`, `PopReviveService`).
"""

from __future__ import annotations

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import Refusal
from rmqcli.broker.services.put import put, restored
from rmqcli.broker.store.values import PutStatus
from rmqcli.broker.tables.topics import UNIT_SUB
from rmqcli.codec.bodies.config import SubscriptionGroupConfig, TopicConfig
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.errors import PropertiesTooLong
from rmqcli.codec.message import MessageExt
from rmqcli.codec.names import dlq_topic
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.property_names import TIMERS, PropertyName

DLQ_QUEUES = 1
MAX_RECONSUME_SINCE_VERSION = 121
"""First client version (V3_4_9) whose maxReconsumeTimes in the header is used."""

P = PropertyName
SPARED = (P.WAIT, P.DELAY, P.TRACE_ON, P.MSG_REGION, P.CLUSTER, P.ORIGIN_MESSAGE_ID, P.RETRY_TOPIC)
"""Properties added by brokers, which are removed from a dead letter, in this order, until its properties
fit."""


def retry_limit(group: SubscriptionGroupConfig, wanted: int | None, version: int) -> int:
    """Return how many times a message is sent back before it goes to the dead-letter topic; `wanted` is the
    maxReconsumeTimes of a client of a `version`."""
    return group.retry_max_times if wanted is None or version < MAX_RECONSUME_SINCE_VERSION else wanted


def ensure_topic(broker: BrokerContext, topic: str, queues: int, *, unit_mode: bool = False) -> TopicConfig:
    """Return the config of a retry or dead-letter topic; the reply of the request waits until a new one is saved."""
    config, made = broker.topics.ensure(topic, queues, sys_flag=UNIT_SUB if unit_mode else 0)
    if made:
        broker.topics_changed([config])
    return config


def retry_properties(original: MessageExt, topic: str | None = None) -> dict[str, str]:
    """Return the properties of a message, with those that record its origin."""
    properties = {name: value for name, value in original.properties.items() if name not in TIMERS}
    properties.setdefault(P.RETRY_TOPIC, topic or original.topic)
    properties.setdefault(P.ORIGIN_MESSAGE_ID, original.offset_msg_id)
    return properties


def put_dead_letter(
    broker: BrokerContext, original: MessageExt, group: str, topic: str | None = None
) -> None:
    """Store a message in the dead-letter topic of a group, which exists; `topic` is its real topic if it
    comes from a retry topic. Raises Refusal if it is not stored."""
    properties = retry_properties(original, topic) | {P.WAIT: "false", P.DELAY: "0"}
    for name in (None, *SPARED):
        properties.pop(name or "", None)
        try:
            put_again(broker, original, properties, dlq_topic(group), broker.rng.randrange(DLQ_QUEUES))
        except PropertiesTooLong:
            continue
        return
    raise Refusal(ResponseCode.SYSTEM_ERROR, PutStatus.PROPERTIES_SIZE_EXCEEDED.name)


def put_again(
    broker: BrokerContext,
    original: MessageExt,
    properties: dict[str, str],
    topic: str,
    queue_id: int,
    *,
    attempts: int = 1,
) -> None:
    """Store the message again. Raises PropertiesTooLong if its properties are too long, otherwise Refusal if
    it is not stored."""
    message = restored(original, properties, encode_properties(properties))
    message.topic = topic
    message.queue_id = queue_id
    message.reconsume_times += attempts
    status = put(broker, message).status
    if status is PutStatus.PROPERTIES_SIZE_EXCEEDED:
        raise PropertiesTooLong(status.name)
    if status is not PutStatus.PUT_OK:
        raise Refusal(ResponseCode.SYSTEM_ERROR, status.name)
