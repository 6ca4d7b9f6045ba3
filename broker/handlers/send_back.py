"""CONSUMER_SEND_MSG_BACK (36): a message that a consumer failed to process (Java class
`AbstractSendMessageProcessor`).

The message goes to the retry topic of the group, with a delay that grows with each attempt. If the attempts
are used up or the delay level is negative, it goes to the dead-letter topic. It also goes there immediately
if the properties that a retry adds do not fit: the consumer would otherwise get it again forever.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import Refusal
from rmqcli.broker.handlers.common import message_at, retry_group
from rmqcli.broker.net.handling import Reply, Request
from rmqcli.broker.services.retries import (
    DLQ_QUEUES,
    ensure_topic,
    put_again,
    put_dead_letter,
    retry_limit,
    retry_properties,
)
from rmqcli.codec.bodies.config import SubscriptionGroupConfig
from rmqcli.codec.codes import Perm, ResponseCode
from rmqcli.codec.errors import PropertiesTooLong
from rmqcli.codec.headers.send import ConsumerSendMsgBackRequestHeader
from rmqcli.codec.message import MessageExt
from rmqcli.codec.names import dlq_topic, retry_topic
from rmqcli.codec.property_names import PropertyName

FIRST_DELAY_LEVEL = 3
"""The delay level of the first attempt if the consumer leaves the choice to the broker."""


P = PropertyName
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
    retry = ensure_topic(
        broker, retry_topic(header.group), group.retry_queue_nums, unit_mode=header.unit_mode
    )
    if not retry.perm & Perm.WRITE:
        raise Refusal(
            ResponseCode.NO_PERMISSION, f"the topic[{retry.topic_name}] sending message is forbidden"
        )
    original = message_at(broker, header.offset)
    if original is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {header.offset}")
    target = _target(header, group, original, request.command.version)
    if target is None or not _put_for_retry(broker, original, target):
        ensure_topic(broker, dlq_topic(header.group), DLQ_QUEUES)
        put_dead_letter(broker, original, header.group)
    broker.statistics.sent_back(
        original.properties.get(PropertyName.RETRY_TOPIC, original.topic), header.group
    )
    return Reply()


def _target(
    header: ConsumerSendMsgBackRequestHeader,
    group: SubscriptionGroupConfig,
    original: MessageExt,
    version: int,
) -> _Retry | None:
    """Return the next attempt; None if there is none."""
    if (
        original.reconsume_times >= retry_limit(group, header.max_reconsume_times, version)
        or header.delay_level < 0
    ):
        return None
    level = header.delay_level or FIRST_DELAY_LEVEL + original.reconsume_times
    return _Retry(retry_topic(header.group), group.retry_queue_nums, level)


def _put_for_retry(broker: BrokerContext, original: MessageExt, retry: _Retry) -> bool:
    """Store the message for another attempt. Return False if its properties have no room for that."""
    properties = retry_properties(original) | {P.WAIT: "false", P.DELAY: str(retry.delay_level)}
    try:
        put_again(broker, original, properties, retry.topic, broker.rng.randrange(max(1, retry.queues)))
    except PropertiesTooLong:
        text = (
            "%s: the message at %d becomes a dead letter: what a retry adds does not fit into its properties"
        )
        _log.warning(text, retry.topic, original.commit_log_offset)
        return False
    return True
