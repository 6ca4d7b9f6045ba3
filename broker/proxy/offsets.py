"""PullMessage, UpdateOffset, GetOffset and QueryOffset, which Java's proxy does not have: they read queues by
offsets, like the pull consumers of remoting."""

from __future__ import annotations

from typing import Any

import trio

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.handlers import offsets
from rmqcli.broker.handlers.common import after_flush, is_unflushed
from rmqcli.broker.handlers.pull import SUBSCRIPTION, read, selection_of
from rmqcli.broker.proxy.answers import StatusError, status
from rmqcli.broker.proxy.calling import Caller, group_name, handled, ready, subscribe, topic_name
from rmqcli.broker.proxy.convert import full_name, message_of, milliseconds
from rmqcli.broker.services.clients import watch_session
from rmqcli.broker.services.holds import Hold
from rmqcli.broker.store.values import GetResult, GetStatus
from rmqcli.codec.acl.account_file import Permission
from rmqcli.codec.acl.decision import on_topic
from rmqcli.codec.headers.offsets import (
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    QueryConsumerOffsetRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rmqcli.codec.headers.pull import PullMessageRequestHeader
from rmqcli.codec.message import MessageExt
from rmqcli.codec.proxy import messages
from rmqcli.codec.proxy.codes import Code, FilterType, QueryOffsetPolicy
from rmqcli.codec.records.reading import decode_records
from rmqcli.codec.selector import ALL, parse_tags

TAG, SQL = "TAG", "SQL92"
MOST_PULLED = 32
LONGEST_POLL = 60.0
SPARE = 0.5
"""Seconds before the deadline of a call in which its answer must have left."""


def expression_of(filter_expression: Any) -> tuple[str, str]:
    """Return the text and the type of a filter, as in remoting."""
    kind = SQL if filter_expression.type == FilterType.SQL else TAG
    return filter_expression.expression or ALL, kind


async def pull_message(caller: Caller, request: Any) -> None:
    """Send the messages of a queue from an offset on, or wait for one; then the next offset."""
    queue = request.message_queue
    topic, group = topic_name(full_name(queue.topic)), group_name(full_name(request.group))
    caller.check(*subscribe(topic, group))
    text, kind = expression_of(request.filter_expression)
    header = PullMessageRequestHeader(
        consumer_group=group,
        topic=topic,
        queue_id=queue.id,
        queue_offset=request.offset,
        max_msg_nums=min(max(request.batch_size, 1), MOST_PULLED),
        sys_flag=SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription=text,
        expression_type=kind,
    )
    waits = min(milliseconds(request.long_polling_timeout) / 1000, LONGEST_POLL)
    until = min(trio.current_time() + waits, caller.call.deadline - SPARE)
    found = await _read(caller, header, until)
    reply = messages.PullMessageResponse
    if found is None:
        raise StatusError(Code.TOO_MANY_REQUESTS, "too many calls wait for messages")
    result, stored = found
    if result.status is GetStatus.OFFSET_TOO_SMALL or result.status is GetStatus.OFFSET_OVERFLOW_BADLY:
        await _send(
            caller,
            reply(
                status=status(
                    Code.ILLEGAL_OFFSET, f"the queue has {result.min_offset} to {result.max_offset}"
                )
            ),
        )
    elif not stored:
        await _send(caller, reply(status=status(Code.MESSAGE_NOT_FOUND, "no new message")))
    else:
        await _send(caller, reply(status=status()))
        tags = parse_tags(text) if kind == TAG else []
        # The store compares hashes of tags.
        for one in [one for one in stored if not tags or one.tags in tags]:
            await _send(caller, reply(message=message_of(one, queue.topic)))
    await _send(caller, reply(next_offset=result.next_begin_offset))


async def _send(caller: Caller, reply: Any) -> None:
    await caller.call.send(reply.SerializeToString())


async def _read(
    caller: Caller, header: PullMessageRequestHeader, until: float
) -> tuple[GetResult, list[MessageExt]] | None:
    """Return what a pull finds, at once or by `until`; None if too many wait."""
    broker = caller.broker
    if header.expression_type == SQL:
        await broker.filters.compiler.prepare(broker.filters.compiler.slow([header.subscription]))
    while True:
        news = trio.Event()
        result, stored, hold = await ready(broker, _get, caller, header, until, news)
        if stored and is_unflushed(broker, result.end):
            await after_flush(broker, None, result.end)  # type: ignore[type-var]
        if stored or hold is None or trio.current_time() >= until:
            return result, stored
        if not broker.holds.hold(hold):
            return None
        watch_session(broker, caller.session)
        await news.wait()


def _get(
    caller: Caller, header: PullMessageRequestHeader, until: float, news: trio.Event
) -> tuple[GetResult, list[MessageExt], Hold | None]:
    """Return the result of one read, its messages, and the hold that waits for more, if that helps."""
    broker = caller.broker
    wanted = selection_of(broker, caller.session, header)
    result = read(broker, header, wanted)
    stored: list[MessageExt] = []
    if result.status is GetStatus.FOUND:
        stored = [one for view in result.views for one in decode_records(view)]
    if stored or result.status not in (GetStatus.OFFSET_OVERFLOW_ONE, GetStatus.NO_MESSAGE_IN_QUEUE):
        return result, stored, None
    hold = Hold(
        caller.session,
        news.set,
        header.topic,
        header.queue_id,
        result.next_begin_offset,
        until,
        wanted.codes,
        wanted.sql.accepts if wanted.sql is not None else None,
    )
    return result, stored, hold


async def update_offset(caller: Caller, request: Any) -> Any:
    """Commit the offset of a group in a queue."""
    topic, group = _place(caller, request)
    header = UpdateConsumerOffsetRequestHeader(
        consumer_group=group, topic=topic, queue_id=request.message_queue.id, commit_offset=request.offset
    )
    await handled(caller, offsets.update_offset, header)
    return messages.UpdateOffsetResponse()


async def get_offset(caller: Caller, request: Any) -> Any:
    """Return the committed offset of a group in a queue."""
    topic, group = _place(caller, request)
    header = QueryConsumerOffsetRequestHeader(
        consumer_group=group, topic=topic, queue_id=request.message_queue.id, set_zero_if_not_found=False
    )
    reply = await handled(caller, offsets.query_offset, header)
    return messages.GetOffsetResponse(offset=reply.offset)


def _place(caller: Caller, request: Any) -> tuple[str, str]:
    topic, group = topic_name(full_name(request.message_queue.topic)), group_name(full_name(request.group))
    caller.check(*subscribe(topic, group))
    return topic, group


async def query_offset(caller: Caller, request: Any) -> Any:
    """Return the first or last offset of a queue, or the one of a time."""
    topic, queue_id = topic_name(full_name(request.message_queue.topic)), request.message_queue.id
    caller.check(on_topic(topic, Permission.SUB))
    _check_queue(caller.broker, topic, queue_id)
    if request.query_offset_policy == QueryOffsetPolicy.TIMESTAMP:
        if not request.HasField("timestamp"):
            raise StatusError(Code.BAD_REQUEST, "timestamp is expected with the policy TIMESTAMP")
        moment = milliseconds(request.timestamp)
        by_time = SearchOffsetRequestHeader(topic=topic, queue_id=queue_id, timestamp=moment)
        reply = await handled(caller, offsets.search_offset, by_time)
    elif request.query_offset_policy == QueryOffsetPolicy.END:
        reply = await handled(
            caller, offsets.max_offset, GetMaxOffsetRequestHeader(topic=topic, queue_id=queue_id)
        )
    else:
        reply = await handled(
            caller, offsets.min_offset, GetMinOffsetRequestHeader(topic=topic, queue_id=queue_id)
        )
    return messages.QueryOffsetResponse(offset=reply.offset)


def _check_queue(broker: BrokerContext, topic: str, queue_id: int) -> None:
    config = broker.topics.get(topic)
    if config is None:
        raise StatusError(Code.TOPIC_NOT_FOUND, f"there is no topic {topic}")
    if not 0 <= queue_id < config.read_queue_nums:
        raise StatusError(
            Code.BAD_REQUEST, f"topic {topic} has {config.read_queue_nums} queues to read, not {queue_id}"
        )
