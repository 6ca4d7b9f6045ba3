"""Offsets of groups and queues: codes 14, 15, 29 to 32, 43, 45 (Java classes `ConsumerManageProcessor`, `AdminBrokerProcessor`)."""

from __future__ import annotations

from broker.context import BrokerContext
from broker.errors import Refusal
from broker.handlers.common import fast_body, ok
from broker.net.session import Session
from codec.codes import ResponseCode
from codec.headers.base import from_ext
from codec.headers.offsets import (
    GetEarliestMsgStoretimeRequestHeader,
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    QueryConsumerOffsetRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from codec.remoting.frame import RemotingCommand

__all__ = [
    "all_consumer_offsets",
    "all_delay_offsets",
    "earliest_store_time",
    "max_offset",
    "min_offset",
    "query_offset",
    "search_offset",
    "update_offset",
]

NOT_FOUND = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"


def query_offset(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """14: the committed offset. A new group starts at 0 while the queue's first message is still in memory."""
    header = from_ext(QueryConsumerOffsetRequestHeader, request.ext_fields)
    offset = broker.offsets.query(header.consumer_group, header.topic, header.queue_id)
    if offset < 0:
        if header.set_zero_if_not_found is False or not _starts_at_zero(
            broker, header.topic, header.queue_id
        ):
            raise Refusal(ResponseCode.QUERY_NOT_FOUND, NOT_FOUND, {})
        offset = 0
    return ok(request, {"offset": str(offset)})


def _starts_at_zero(broker: BrokerContext, topic: str, queue_id: int) -> bool:
    store = broker.store
    if store.min_offset(topic, queue_id) > 0:
        return False
    first = store.consume_queue_entries(topic, queue_id, 0, 1)
    if not first:
        return True
    return not store.is_in_disk(first[0][0])


def update_offset(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """15: nothing is checked, a smaller offset is accepted too."""
    header = from_ext(UpdateConsumerOffsetRequestHeader, request.ext_fields)
    broker.offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
    return ok(request, {})


def search_offset(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """29: the queue offset of the message nearest to a store time."""
    header = from_ext(SearchOffsetRequestHeader, request.ext_fields)
    return ok(
        request, {"offset": str(broker.store.offset_by_time(header.topic, header.queue_id, header.timestamp))}
    )


def max_offset(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """30: the queue offset that the next message gets."""
    header = from_ext(GetMaxOffsetRequestHeader, request.ext_fields)
    return ok(request, {"offset": str(broker.store.max_offset(header.topic, header.queue_id))})


def min_offset(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """31: the smallest queue offset that can be read."""
    header = from_ext(GetMinOffsetRequestHeader, request.ext_fields)
    return ok(request, {"offset": str(broker.store.min_offset(header.topic, header.queue_id))})


def earliest_store_time(
    broker: BrokerContext, _session: Session, request: RemotingCommand
) -> RemotingCommand:
    """32: the store time (ms) of the oldest message of a queue, -1 when it has none."""
    header = from_ext(GetEarliestMsgStoretimeRequestHeader, request.ext_fields)
    timestamp = broker.store.earliest_store_time(header.topic, header.queue_id)
    return ok(request, {"timestamp": str(timestamp)})


def all_consumer_offsets(
    broker: BrokerContext, _session: Session, request: RemotingCommand
) -> RemotingCommand:
    """43: the whole offset table."""
    return ok(request, body=fast_body(broker.offsets.wrapper()))


def all_delay_offsets(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """45: how far each delay level is delivered."""
    return ok(request, body=fast_body(broker.delay_offsets.wrapper()))
