"""Puts of messages into the store, for all handlers and services (Java `CommitLog.asyncPutMessage`).

A message with a delay level is parked in SCHEDULE_TOPIC_XXXX: level N in queue N-1, with its topic and queue
in the properties REAL_TOPIC and REAL_QID. One with a timer waits in rmq_sys_wheel_timer, and TIMER_OUT_MS
contains the time until which it waits. Properties texts are encoded again from all properties, so that WAIT
stays in them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rmqcli.broker.auth.control import MessageTopics
from rmqcli.broker.context import BrokerContext
from rmqcli.broker.services.timer_properties import OUT_MS, timer_slot
from rmqcli.broker.store.appending import MAX_TOPIC_BYTES
from rmqcli.broker.store.batches import Batch
from rmqcli.broker.store.values import AppendResult, PutStatus, StoreMessage
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.offsets import OffsetMovedEvent
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.core.sends import Sends
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.headers.pull import PullMessageRequestHeader
from rmqcli.codec.ids import pack_host_text
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.names import DLQ_PREFIX, RETRY_PREFIX, TIMER_TOPIC, SystemTopic, keeps_others
from rmqcli.codec.properties import decode_properties, encode_properties
from rmqcli.codec.property_names import TIMERS, PropertyName, delay_level
from rmqcli.codec.records.reading import scan_record

# Messages made by the broker: those that it stores again (sent back, delivered after their delay, committed),
# hides in a system topic, or writes itself.

MAX_QUEUE_DIGITS = 9
SYSTEM_QUEUES = 1


def real_place(properties: dict[str, str]) -> tuple[str, int] | None:
    """Return the real topic and queue id of a half or delayed message; None if they are missing or
    invalid."""
    topic, queue = properties.get(PropertyName.REAL_TOPIC), properties.get(PropertyName.REAL_QID, "")
    if topic is None or not queue.isdecimal() or len(queue) > MAX_QUEUE_DIGITS or not can_be_stored(topic):
        return None
    return topic, int(queue)


def topics_at(broker: BrokerContext, offset: int) -> MessageTopics | None:
    """Return the topics of the message at an offset of the commit log; None if there is no record.

    Raises CorruptionError unless a queue has this message, because the body of another one may contain bytes
    that look like a record. Raises NotReady.
    """
    record = broker.store.search.record_at(offset)
    if record is None:
        return None
    found = scan_record(record)
    stored = found.topic.decode("utf-8", "replace")
    entries = broker.store.search.stored_entries(stored, found.queue_id, found.queue_offset, 1)
    if not entries or entries[0][:2] != (offset, len(record)):
        raise CorruptionError("no queue has a message that begins here", offset)
    properties = decode_properties(found.properties)
    real = properties.get(PropertyName.REAL_TOPIC, stored) if keeps_others(stored) else stored
    is_copy = real.startswith((RETRY_PREFIX, DLQ_PREFIX))
    origin = properties.get(PropertyName.RETRY_TOPIC, real) if is_copy else real
    return MessageTopics(stored, real, origin)


def can_be_stored(topic: str) -> bool:
    """Return True if a record can hold the topic; the retry topic of a group with a long name can be too
    long."""
    size = len(topic) if topic.isascii() else len(topic.encode("utf-8", "replace"))
    return 0 < size <= MAX_TOPIC_BYTES and "/" not in topic and "\0" not in topic


def restored(original: MessageExt, properties: dict[str, str], text: bytes) -> StoreMessage:
    """Return `original` as a message to store, with other properties; its put does not wait for a flush."""
    return StoreMessage(
        topic=original.topic,
        queue_id=original.queue_id,
        body=original.body,
        properties=properties,
        properties_text=text,
        born_timestamp=original.born_timestamp,
        born_host=pack_host_text(original.born_host),
        flag=original.flag,
        sys_flag=original.sys_flag,
        reconsume_times=original.reconsume_times,
        wait_store=False,
        is_known=True,
    )


def hide(message: StoreMessage, topic: str, queue_id: int) -> None:
    """Move a message to a system topic; its topic and queue become REAL_TOPIC and REAL_QID."""
    message.properties[PropertyName.REAL_TOPIC] = message.topic
    message.properties[PropertyName.REAL_QID] = str(message.queue_id)
    message.properties_text = encode_properties(message.properties)
    message.topic, message.queue_id = topic, queue_id


def own_message(broker: BrokerContext, topic: str, body: bytes, properties: dict[str, str]) -> StoreMessage:
    """Return a message of the broker itself, with TAGS, for queue 0 of a system topic."""
    return StoreMessage(
        topic=topic,
        queue_id=0,
        body=body,
        properties=properties,
        properties_text=encode_properties(properties),
        born_timestamp=broker.now_ms(),
        born_host=broker.store_host,
    )


SLOW_PUT_SECONDS = 0.001
ILLEGAL = (
    "the message is illegal, maybe msg body or properties length not matched. "
    "msg body length limit {limit}B, msg properties length limit 32KB."
)
NOT_AVAILABLE = (
    "service not available now. It may be caused by one of the following reasons: the broker's disk is full "
    "[{disk}], messages are put to the slave, message store has been shut down, etc."
)

PUT_CODES = {
    PutStatus.CREATE_MAPEDFILE_FAILED: (
        ResponseCode.SYSTEM_ERROR,
        "create mapped file failed, server is busy or broken.",
    ),
    PutStatus.MESSAGE_ILLEGAL: (ResponseCode.MESSAGE_ILLEGAL, ILLEGAL),
    PutStatus.PROPERTIES_SIZE_EXCEEDED: (ResponseCode.MESSAGE_ILLEGAL, ILLEGAL),
    PutStatus.SERVICE_NOT_AVAILABLE: (ResponseCode.SERVICE_NOT_AVAILABLE, NOT_AVAILABLE),
    PutStatus.WHEEL_TIMER_MSG_ILLEGAL: (
        ResponseCode.MESSAGE_ILLEGAL,
        "timer message illegal, the delay time should not be bigger than the max delay {delay}ms; or if set del "
        "msg, the delay time should be bigger than the current time",
    ),
    PutStatus.WHEEL_TIMER_FLOW_CONTROL: (
        ResponseCode.SYSTEM_ERROR,
        "timer message is under flow control, max num limit is {congestion}",
    ),
    PutStatus.WHEEL_TIMER_NOT_ENABLE: (
        ResponseCode.SYSTEM_ERROR,
        "accurate timer message is not enabled, timerWheelEnable is false",
    ),
}
"""Response code and remark of a put that stored nothing; `{limit}`, `{disk}`, `{delay}` and `{congestion}` are
placeholders."""

DELAY = PropertyName.DELAY
NEVER_PARKED = frozenset((SystemTopic.TRANS_HALF, SystemTopic.TRANS_CHECK_MAX_TIME, SystemTopic.SCHEDULE))
"""Topics whose messages are not parked: a half message keeps its delay level for the commit, and one in the
schedule topic is parked already."""
PUT_OK = PutStatus.PUT_OK
PutT = TypeVar("PutT", StoreMessage, Batch)
_SLAVE = AppendResult(PutStatus.SERVICE_NOT_AVAILABLE)


def put(broker: BrokerContext, message: StoreMessage) -> AppendResult:
    """Store a message, parked if it has a delay level, waiting if it has a timer. Raises PropertiesTooLong, or
    LocalProtocolError for the address of its sender."""
    if not TIMERS.isdisjoint(message.properties) and message.topic not in NEVER_PARKED:
        refused = _wait(broker, message)
        if refused is not None:
            broker.rates.put_failures += 1
            return AppendResult(refused)
    if DELAY in message.properties:
        park(broker, message)
    return _put(broker, message, broker.store.writer.append)


def _wait(broker: BrokerContext, message: StoreMessage) -> PutStatus | None:
    """Move a message with a timer to the timer topic. Return the status with which it is refused; None if it is
    not."""
    slot = timer_slot(broker, message)
    if isinstance(slot, PutStatus):
        return slot
    if slot is not None:
        message.properties[OUT_MS] = str(slot)
        hide(message, TIMER_TOPIC, 0)
        ensure_topic(broker, TIMER_TOPIC)
    return None


def ensure_topic(broker: BrokerContext, topic: str) -> None:
    """Create a system topic with one queue, unless it exists."""
    config, created = broker.topics.ensure(topic, SYSTEM_QUEUES)
    if created:
        broker.topics_changed([config])


def begin_flush(broker: BrokerContext) -> None:
    """Start a flush, with SYNC_FLUSH, of everything stored, before a task waits for it (`safely_stored`)."""
    if broker.sync_flush:
        broker.store.want_flush()


async def safely_stored(broker: BrokerContext, end: int) -> ResponseCode:
    """Return SUCCESS once the log is as safe up to `end` as the broker promises: on the disk, on a slave.

    Return FLUSH_DISK_TIMEOUT, or the code of replication, which takes precedence. This waits for replication
    first, so call `begin_flush` before.
    """
    if not broker.is_sync_master:
        return _flushed(await broker.store.wait_flushed(end))
    code = await broker.ha.replicas.replicated(end)
    flushed = _flushed(await broker.store.wait_flushed(end))
    return flushed if code == ResponseCode.SUCCESS else code


def _flushed(is_flushed: bool) -> ResponseCode:
    return ResponseCode.SUCCESS if is_flushed else ResponseCode.FLUSH_DISK_TIMEOUT


def put_batch(broker: BrokerContext, batch: Batch) -> AppendResult:
    """Store a prepared batch."""
    return _put(broker, batch, broker.store.writer.append_batch)


def _put(broker: BrokerContext, message: PutT, append: Callable[[PutT], AppendResult]) -> AppendResult:
    if broker.is_slave:
        return _SLAVE
    started = broker.timer()
    result = append(message)
    took = broker.timer() - started
    rates = broker.rates
    if result.status is not PUT_OK:
        rates.put_failures += 1
        return result
    size, count = result.size, len(result.physical_offsets)
    rates.put_in_company += count - 1
    rates.put_messages += count
    rates.put_bytes += size
    broker.statistics.put(message.topic, message.queue_id, count, size)
    if took > SLOW_PUT_SECONDS:
        rates.slow_put(took)
    return result


def put_sends(broker: BrokerContext, sends: Sends) -> None:
    """Store plain sends with one write."""
    started = broker.timer()
    broker.store.writer.append_run(sends.run, sends.queues)
    took = broker.timer() - started
    rates = broker.rates
    rates.put_messages += len(sends)
    rates.put_bytes += sends.run.end - sends.run.begin
    for stored in sends.queues:
        count = len(stored.sizes)
        broker.statistics.put(stored.topic, stored.queue_id, count, sum(stored.sizes), count)
    if took > SLOW_PUT_SECONDS:
        rates.slow_put(took)


def park(broker: BrokerContext, message: StoreMessage) -> None:
    """Move a message with a delay level above 0 to the schedule topic."""
    level = delay_level(message.properties)
    if level <= 0 or message.topic in NEVER_PARKED:
        return
    if level > broker.delay_levels.highest:
        level = broker.delay_levels.highest
        message.properties[DELAY] = str(level)
    hide(message, SystemTopic.SCHEDULE, level - 1)


def store_offset_moved(broker: BrokerContext, header: PullMessageRequestHeader, offset: int) -> None:
    """Store a message about a pull with a corrected offset in OFFSET_MOVED_EVENT, as Java does."""
    group = header.consumer_group
    event = OffsetMovedEvent(
        consumer_group=group,
        message_queue=MessageQueue(header.topic, broker.name, header.queue_id),
        offset_request=header.queue_offset,
        offset_new=offset,
    )
    properties = {PropertyName.TAGS: group, PropertyName.KEYS: group}
    put(broker, own_message(broker, SystemTopic.OFFSET_MOVED_EVENT, encode_body(event), properties))
