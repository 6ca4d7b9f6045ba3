"""Offsets of groups and queues: codes 14, 15, 29 to 32, 43, 45 (Java classes `ConsumerManageProcessor`,
`AdminBrokerProcessor`)."""

from __future__ import annotations

from msgspec.structs import replace

from broker.context import BrokerContext
from broker.errors import Refusal
from broker.net.handling import Reply, Request
from broker.net.session import Session
from broker.services.clients import watch_session
from broker.tables.groups import name_problem
from codec.bodies.config import DataVersion
from codec.bodies.offsets import ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper
from codec.codes import ResponseCode
from codec.headers.offsets import (
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
    UpdateConsumerOffsetResponseHeader,
)
from codec.headers.pull import PullMessageRequestHeader

COMMITTED: Reply[UpdateConsumerOffsetResponseHeader, None] = Reply(UpdateConsumerOffsetResponseHeader())
NOT_FOUND = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"


def query_offset(
    broker: BrokerContext, request: Request[QueryConsumerOffsetRequestHeader, None]
) -> Reply[QueryConsumerOffsetResponseHeader, None]:
    """14: the committed offset. A new group starts at 0 while the first message is still in memory."""
    header = request.header
    offset = broker.offsets.query(header.consumer_group, header.topic, header.queue_id)
    if offset < 0:
        if header.set_zero_if_not_found is False or not _starts_at_zero(
            broker, header.topic, header.queue_id
        ):
            raise Refusal(ResponseCode.QUERY_NOT_FOUND, NOT_FOUND, {})
        offset = 0
    return Reply(QueryConsumerOffsetResponseHeader(offset=offset))


def _starts_at_zero(broker: BrokerContext, topic: str, queue_id: int) -> bool:
    store = broker.store
    if store.min_offset(topic, queue_id) > 0:
        return False
    first = store.consume_queue_entries(topic, queue_id, 0, 1)
    if not first:
        return True
    return not store.is_in_disk(first[0][0])


def update_offset(
    broker: BrokerContext, request: Request[UpdateConsumerOffsetRequestHeader, None]
) -> Reply[UpdateConsumerOffsetResponseHeader, None]:
    """15: commits an offset. A smaller one is accepted, too, and so are unknown groups up to a limit."""
    commit(broker, request.session, request.header)
    return COMMITTED


def commit(
    broker: BrokerContext,
    session: Session,
    header: UpdateConsumerOffsetRequestHeader | PullMessageRequestHeader,
) -> None:
    """Store an offset that a client commits. Refusal for an unknown topic, the name of a group that cannot be, and
    too many new ones.
    """
    group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
    if not broker.offsets.replace(group, topic, queue_id, header.commit_offset):
        # As 5.3.3; else a client brings back the offset that its topic took along.
        if topic not in broker.topics:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
        if (problem := name_problem(group)) is not None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, problem)
        watch_session(broker, session)
        broker.new_offsets.admit(broker, session, group, topic, queue_id)
        broker.offsets.commit(group, topic, queue_id, header.commit_offset)


def search_offset(
    broker: BrokerContext, request: Request[SearchOffsetRequestHeader, None]
) -> Reply[SearchOffsetResponseHeader, None]:
    """29: the queue offset of the message nearest to a store time."""
    header = request.header
    offset = broker.store.offset_by_time(header.topic, header.queue_id, header.timestamp)
    return Reply(SearchOffsetResponseHeader(offset=offset))


def max_offset(
    broker: BrokerContext, request: Request[GetMaxOffsetRequestHeader, None]
) -> Reply[GetMaxOffsetResponseHeader, None]:
    """30: the queue offset of the next message."""
    header = request.header
    offset = broker.store.max_offset(header.topic, header.queue_id)
    return Reply(GetMaxOffsetResponseHeader(offset=offset))


def min_offset(
    broker: BrokerContext, request: Request[GetMinOffsetRequestHeader, None]
) -> Reply[GetMinOffsetResponseHeader, None]:
    """31: the smallest queue offset that can be read."""
    header = request.header
    offset = broker.store.min_offset(header.topic, header.queue_id)
    return Reply(GetMinOffsetResponseHeader(offset=offset))


def earliest_store_time(
    broker: BrokerContext, request: Request[GetEarliestMsgStoretimeRequestHeader, None]
) -> Reply[GetEarliestMsgStoretimeResponseHeader, None]:
    """32: the store time (ms) of the oldest message of a queue, -1 when the queue is empty."""
    header = request.header
    timestamp = broker.store.earliest_store_time(header.topic, header.queue_id)
    return Reply(GetEarliestMsgStoretimeResponseHeader(timestamp=timestamp))


def all_consumer_offsets(
    broker: BrokerContext, _request: Request[None, None]
) -> Reply[None, ConsumerOffsetSerializeWrapper]:
    """43: the whole offset table. A slave of 5.x does not save one without a version (5.3.3
    `SlaveSynchronize`)."""
    return Reply(body=replace(broker.offsets.wrapper(), data_version=DataVersion(broker.now_ms(), 1, 0)))


def all_delay_offsets(
    broker: BrokerContext, _request: Request[None, None]
) -> Reply[None, DelayOffsetSerializeWrapper]:
    """45: the delivery progress of each delay level."""
    return Reply(body=broker.delay_offsets.wrapper())
