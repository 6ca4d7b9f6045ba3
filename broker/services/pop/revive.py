"""The fate of a popped message whose time is over: a copy in the retry topic of group and topic, with one
more attempt, or a dead letter if the attempts of the group are used up (Java class `PopReviveService`)."""

from __future__ import annotations

import logging

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import Refusal
from rmqcli.broker.services.pop.queues import PopQueue
from rmqcli.broker.services.put import restored
from rmqcli.broker.services.retries import DLQ_QUEUES, put_dead_letter
from rmqcli.broker.store.values import PutStatus
from rmqcli.codec.bodies.config import SubscriptionGroupConfig
from rmqcli.codec.errors import CodecError
from rmqcli.codec.message import MessageExt
from rmqcli.codec.names import dlq_topic
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.receipt_handle import NORMAL, RETRY_V1, RETRY_V2, pop_retry_topic, retry_flag
from rmqcli.codec.records.reading import decode_record

RETRY_QUEUES = 1
_log = logging.getLogger(__name__)


def real_topic(group: str, stored: str) -> str:
    """Return the topic that a group asked for, given the one in which a message is stored."""
    for flag in (RETRY_V1, RETRY_V2):
        prefix = pop_retry_topic(group, "", flag)
        if stored.startswith(prefix):
            return stored.removeprefix(prefix)
    return stored


def needed_topic(
    broker: BrokerContext, queue: PopQueue, message: MessageExt, *, attempts: int
) -> tuple[str, int]:
    """Return the topic that a message goes to next, and the number of its queues."""
    group = broker.groups.get(queue.group)
    most = (group or SubscriptionGroupConfig(queue.group)).retry_max_times
    if message.reconsume_times + attempts > most:
        return dlq_topic(queue.group), DLQ_QUEUES
    return pop_retry_topic(queue.group, real_topic(queue.group, queue.topic)), RETRY_QUEUES


def lent(broker: BrokerContext, queue: PopQueue, offset: int) -> MessageExt | None:
    """Return a message by its queue offset; None if it is gone. Raises NotReady."""
    if offset < broker.store.search.min_offset(queue.topic, queue.queue_id):
        return None
    found = broker.store.search.stored_entries(queue.topic, queue.queue_id, offset, 1)
    if not found:
        return None
    record = broker.store.search.record_at_size(*found[0][:2])
    try:
        return None if record is None else decode_record(record)
    except CodecError as error:
        _log.error(
            "%s queue %d: the message %d cannot be read: %s", queue.topic, queue.queue_id, offset, error
        )
        return None


def store_again(
    broker: BrokerContext, queue: PopQueue, message: MessageExt, topic: str, pop_time: int, *, attempts: int
) -> bool:
    """Store a message in `topic`, which exists. Return False if the store refuses it. Raises NotReady."""
    if topic == dlq_topic(queue.group):
        try:
            put_dead_letter(broker, message, queue.group, real_topic(queue.group, queue.topic))
        except Refusal:
            return False
        return True
    properties = message.properties
    if message.reconsume_times == 0 or PropertyName.FIRST_POP_TIME not in properties:
        properties[PropertyName.FIRST_POP_TIME] = str(pop_time)
    copy = restored(message, properties, encode_properties(properties))
    copy.topic, copy.queue_id = topic, 0
    copy.reconsume_times += attempts
    # Not by `put`, which would let a message that was delayed wait again.
    result = broker.store.writer.append(copy)
    if result.status is PutStatus.PROPERTIES_SIZE_EXCEEDED:
        del properties[PropertyName.FIRST_POP_TIME]
        copy.properties_text = encode_properties(properties)
        result = broker.store.writer.append(copy)
    if result.status is not PutStatus.PUT_OK:
        broker.rates.put_failures += 1
        return False
    broker.rates.put_messages += 1
    broker.rates.put_bytes += result.size
    broker.statistics.put(topic, 0, 1, result.size)
    if retry_flag(queue.topic) == NORMAL:
        broker.statistics.sent_back(queue.topic, queue.group)
    return True
