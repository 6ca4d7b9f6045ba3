"""Puts messages into the store for all handlers and services (Java `CommitLog.asyncPutMessage`).

A message with a delay level is parked in SCHEDULE_TOPIC_XXXX: level N in queue N-1, with its topic and queue
in the properties REAL_TOPIC and REAL_QID. Its properties text is encoded again from all properties, so that
WAIT stays in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from broker.context import BrokerContext
from broker.services.messages import hide, own_message
from broker.store.batches import Batch
from broker.store.values import AppendResult, PutStatus, StoreMessage
from codec.bodies.base import encode_body
from codec.bodies.offsets import OffsetMovedEvent
from codec.codes import ResponseCode
from codec.core.sends import Sends
from codec.headers.pull import PullMessageRequestHeader
from codec.message_queue import MessageQueue
from codec.names import SystemTopic
from codec.properties import PropertyName, delay_level

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
}
"""Response code and remark of a put that stored nothing; `{limit}` and `{disk}` are placeholders."""

DELAY = PropertyName.DELAY
NEVER_PARKED = frozenset((SystemTopic.TRANS_HALF, SystemTopic.TRANS_CHECK_MAX_TIME, SystemTopic.SCHEDULE))
"""A half message keeps its delay level for the commit; one in the schedule topic is parked already."""
PUT_OK = PutStatus.PUT_OK
PutT = TypeVar("PutT", StoreMessage, Batch)
_SLAVE = AppendResult(PutStatus.SERVICE_NOT_AVAILABLE)


def put(broker: BrokerContext, message: StoreMessage) -> AppendResult:
    """Store a message, parked if it has a delay level. LocalProtocolError: its properties are too long."""
    if DELAY in message.properties:
        park(broker, message)
    return _put(broker, message, broker.store.append)


def begin_flush(broker: BrokerContext) -> None:
    """SYNC_FLUSH: has what was stored flushed, before a task begins that waits for it (`safely_stored`)."""
    if broker.sync_flush:
        broker.store.want_flush()


async def safely_stored(broker: BrokerContext, end: int) -> ResponseCode:
    """SUCCESS once the log is as safe up to `end` as the broker promises: on the disk, on a slave.

    FLUSH_DISK_TIMEOUT, or what replication says, which wins. It begins with replication: call `begin_flush`
    before.
    """
    if not broker.is_sync_master:
        return _flushed(await broker.store.wait_flushed(end))
    code = await broker.ha.replicas.replicated(end)
    flushed = _flushed(await broker.store.wait_flushed(end))
    return flushed if code == ResponseCode.SUCCESS else code


def _flushed(is_flushed: bool) -> ResponseCode:
    return ResponseCode.SUCCESS if is_flushed else ResponseCode.FLUSH_DISK_TIMEOUT


def put_batch(broker: BrokerContext, batch: Batch) -> AppendResult:
    """Store a batch that was prepared."""
    return _put(broker, batch, broker.store.append_batch)


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
    """Turn a message with a delay level above 0 into the one that waits in the schedule topic."""
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
