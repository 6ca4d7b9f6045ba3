"""Finding messages by key and by position, and looking into consume queues: codes 12, 33, 321 (`QueryMessageProcessor`)."""

from __future__ import annotations

from broker.context import BrokerContext
from broker.errors import Refusal
from broker.handlers.common import NOT_SET, ok
from broker.session import Session
from codec.bodies import ConsumeQueueData, QueryConsumeQueueResponseBody, encode_body
from codec.codes import ResponseCode
from codec.frame import RemotingCommand
from codec.headers import (
    QueryConsumeQueueRequestHeader,
    QueryMessageRequestHeader,
    ViewMessageRequestHeader,
    from_ext,
)

__all__ = ["query_consume_queue", "query_message", "view_message"]

UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
DEFAULT_COUNT = 10
MAX_COUNT = 10_000
"""Consume queue entries in one answer."""


def query_message(
    broker: BrokerContext, session: Session, request: RemotingCommand
) -> RemotingCommand | None:
    """12: records whose key has the same hash; whoever asked compares the keys."""
    header = from_ext(QueryMessageRequestHeader, request.ext_fields)
    by_unique_key = (request.ext_fields or {}).get(UNIQUE_KEY_QUERY) == "true"
    count = broker.config.default_query_max_num if by_unique_key else header.max_num
    found = broker.store.query(
        header.topic,
        header.key,
        min(count, broker.config.max_msgs_num_batch),
        header.begin_timestamp,
        header.end_timestamp,
    )
    ext = {
        "indexLastUpdateTimestamp": str(found.index_last_update_timestamp),
        "indexLastUpdatePhyoffset": str(found.index_last_update_phyoffset),
    }
    if not found.views:
        remark = "can not find message, maybe time range not correct"
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, remark, ext)
    session.respond(request, ok(request, ext), found.views)
    return None


def view_message(broker: BrokerContext, session: Session, request: RemotingCommand) -> RemotingCommand | None:
    """33: the record at a commit log offset."""
    header = from_ext(ViewMessageRequestHeader, request.ext_fields)
    record = broker.store.record_at(header.offset)
    if record is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {header.offset}")
    session.respond(request, ok(request), [record])
    return None


def query_consume_queue(
    broker: BrokerContext, _session: Session, request: RemotingCommand
) -> RemotingCommand:
    """321: entries of a consume queue."""
    header = from_ext(QueryConsumeQueueRequestHeader, request.ext_fields)
    topic, queue_id = header.topic or "", header.queue_id or 0
    count = min(header.count or DEFAULT_COUNT, MAX_COUNT)
    group = broker.consumers.get(header.consumer_group or "")
    entries = broker.store.consume_queue_entries(topic, queue_id, header.index or 0, count)
    body = QueryConsumeQueueResponseBody(
        subscription_data=group.subscriptions.get(topic) if group is not None else None,
        queue_data=[
            ConsumeQueueData(physic_offset=position, physic_size=size, tags_code=code)
            for position, size, code in entries
        ],
        max_queue_index=broker.store.max_offset(topic, queue_id),
        min_queue_index=broker.store.min_offset(topic, queue_id),
    )
    return request.reply(ResponseCode.SUCCESS, NOT_SET, None, encode_body(body))
