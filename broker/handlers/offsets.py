"""Offsets of groups and queues: codes 14, 15, 29 to 32, 43, 45 (Java classes `ConsumerManageProcessor`,
`AdminBrokerProcessor`)."""

from __future__ import annotations

from msgspec.structs import replace

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import Refusal
from rmqcli.broker.net.handling import Reply, Request
from rmqcli.broker.net.session import Session
from rmqcli.broker.services.clients import watch_session
from rmqcli.broker.tables.groups import name_problem
from rmqcli.codec.bodies.config import DataVersion
from rmqcli.codec.bodies.offsets import ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.headers.offsets import (
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
from rmqcli.codec.headers.pull import PullMessageRequestHeader

COMMITTED: Reply[UpdateConsumerOffsetResponseHeader, None] = Reply(UpdateConsumerOffsetResponseHeader())
NOT_FOUND = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"


def query_offset(
    broker: BrokerContext, request: Request[QueryConsumerOffsetRequestHeader, None]
) -> Reply[QueryConsumerOffsetResponseHeader, None]:
    """Return the committed offset (code 14), or the offset of the next pop. A new group starts at 0 while the first
    message is still in memory."""
    header = request.header
    offset = broker.pops.position(header.consumer_group, header.topic, header.queue_id)
    if offset < 0:
        if header.set_zero_if_not_found is False or not _starts_at_zero(
            broker, header.topic, header.queue_id
        ):
            raise Refusal(ResponseCode.QUERY_NOT_FOUND, NOT_FOUND, {})
        offset = 0
    return Reply(QueryConsumerOffsetResponseHeader(offset=offset))


def _starts_at_zero(broker: BrokerContext, topic: str, queue_id: int) -> bool:
    store = broker.store
    if store.search.min_offset(topic, queue_id) > 0:
        return False
    first = store.search.consume_queue_entries(topic, queue_id, 0, 1)
    if not first:
        return True
    return not store.reader.is_in_disk(first[0][0])


def update_offset(
    broker: BrokerContext, request: Request[UpdateConsumerOffsetRequestHeader, None]
) -> Reply[UpdateConsumerOffsetResponseHeader, None]:
    """Commit an offset (code 15). A smaller offset is also accepted, and so are unknown groups up to a
    limit."""
    commit(broker, request.session, request.header)
    return COMMITTED


def commit(
    broker: BrokerContext,
    session: Session,
    header: UpdateConsumerOffsetRequestHeader | PullMessageRequestHeader,
) -> None:
    """Store an offset that a client commits. Raises Refusal for an unknown topic, an impossible group name,
    or too many new offsets.
    """
    group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
    if not broker.offsets.replace(group, topic, queue_id, header.commit_offset):
        # As in 5.3.3; otherwise a client would restore an offset that was deleted with its topic.
        if topic not in broker.topics:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
        if (problem := name_problem(group)) is not None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, problem)
        watch_session(broker, session)
        broker.new_offsets.admit(session, group, topic, queue_id)
        broker.offsets.commit(group, topic, queue_id, header.commit_offset)


def search_offset(
    broker: BrokerContext, request: Request[SearchOffsetRequestHeader, None]
) -> Reply[SearchOffsetResponseHeader, None]:
    """Return the queue offset of the message nearest to a store time (code 29)."""
    header = request.header
    offset = broker.store.search.offset_by_time(header.topic, header.queue_id, header.timestamp)
    return Reply(SearchOffsetResponseHeader(offset=offset))


def max_offset(
    broker: BrokerContext, request: Request[GetMaxOffsetRequestHeader, None]
) -> Reply[GetMaxOffsetResponseHeader, None]:
    """Return the queue offset of the next message (code 30)."""
    header = request.header
    offset = broker.store.search.max_offset(header.topic, header.queue_id)
    return Reply(GetMaxOffsetResponseHeader(offset=offset))


def min_offset(
    broker: BrokerContext, request: Request[GetMinOffsetRequestHeader, None]
) -> Reply[GetMinOffsetResponseHeader, None]:
    """Return the smallest queue offset that can be read (code 31)."""
    header = request.header
    offset = broker.store.search.min_offset(header.topic, header.queue_id)
    return Reply(GetMinOffsetResponseHeader(offset=offset))


def earliest_store_time(
    broker: BrokerContext, request: Request[GetEarliestMsgStoretimeRequestHeader, None]
) -> Reply[GetEarliestMsgStoretimeResponseHeader, None]:
    """Return the store time (ms) of the oldest message of a queue (code 32); -1 if the queue is empty."""
    header = request.header
    timestamp = broker.store.search.earliest_store_time(header.topic, header.queue_id)
    return Reply(GetEarliestMsgStoretimeResponseHeader(timestamp=timestamp))


def all_consumer_offsets(
    broker: BrokerContext, _request: Request[None, None]
) -> Reply[None, ConsumerOffsetSerializeWrapper]:
    """Return the whole offset table (code 43), with a version: a slave of 5.x does not save a table without
    one (5.3.3 `SlaveSynchronize`)."""
    broker.pops.settle()
    return Reply(body=replace(broker.offsets.wrapper(), data_version=DataVersion(broker.now_ms(), 1, 0)))


def all_delay_offsets(
    broker: BrokerContext, _request: Request[None, None]
) -> Reply[None, DelayOffsetSerializeWrapper]:
    """Return the delivery progress of each delay level (code 45)."""
    return Reply(body=broker.delay_offsets.wrapper())
