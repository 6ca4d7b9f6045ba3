"""PullMessage, UpdateOffset, GetOffset and QueryOffset, which Java's proxy does not implement: they read
queues by offset, like the pull consumers of remoting.
"""

from __future__ import annotations

from typing import Any

import trio

from rmqcli.broker.handlers.pull import SUBSCRIPTION
from rmqcli.broker.proxy.answers import StatusError, status
from rmqcli.broker.proxy.calling import Caller, group_name, subscribe, topic_name
from rmqcli.broker.proxy.convert import full_name, message_of, milliseconds
from rmqcli.broker.store.values import GetStatus
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
from rmqcli.codec.operations.offsets import (
    GET_MAX_OFFSET,
    GET_MIN_OFFSET,
    QUERY_CONSUMER_OFFSET,
    SEARCH_OFFSET_BY_TIMESTAMP,
    UPDATE_CONSUMER_OFFSET,
)
from rmqcli.codec.operations.operation import Operation
from rmqcli.codec.proxy import messages
from rmqcli.codec.proxy.codes import Code, FilterType, QueryOffsetPolicy
from rmqcli.codec.selector import ALL, parse_tags

TAG, SQL = "TAG", "SQL92"
MOST_PULLED = 32
LONGEST_POLL = 60.0
SPARE = 0.5
"""Seconds before the deadline of a call by which its reply must have been sent."""


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
    result = await caller.backend.pull(caller, queue.broker.name, header, until)
    reply = messages.PullMessageResponse
    if result is None:
        raise StatusError(Code.TOO_MANY_REQUESTS, "too many calls wait for messages")
    if result.status is GetStatus.OFFSET_TOO_SMALL or result.status is GetStatus.OFFSET_OVERFLOW_BADLY:
        await _send(
            caller,
            reply(
                status=status(
                    Code.ILLEGAL_OFFSET, f"the queue has {result.min_offset} to {result.max_offset}"
                )
            ),
        )
    elif not result.messages:
        await _send(caller, reply(status=status(Code.MESSAGE_NOT_FOUND, "no new message")))
    else:
        await _send(caller, reply(status=status()))
        tags = parse_tags(text) if kind == TAG else []
        for one in [one for one in result.messages if not tags or one.tags in tags]:
            await _send(caller, reply(message=message_of(one, queue.topic)))
    await _send(caller, reply(next_offset=result.next_offset))


async def _send(caller: Caller, reply: Any) -> None:
    await caller.call.send(reply.SerializeToString())


async def update_offset(caller: Caller, request: Any) -> Any:
    """Commit the offset of a group in a queue."""
    topic, group = _place(caller, request)
    header = UpdateConsumerOffsetRequestHeader(
        consumer_group=group, topic=topic, queue_id=request.message_queue.id, commit_offset=request.offset
    )
    await _ask(caller, request, UPDATE_CONSUMER_OFFSET, header)
    return messages.UpdateOffsetResponse()


async def get_offset(caller: Caller, request: Any) -> Any:
    """Return the committed offset of a group in a queue."""
    topic, group = _place(caller, request)
    header = QueryConsumerOffsetRequestHeader(
        consumer_group=group, topic=topic, queue_id=request.message_queue.id, set_zero_if_not_found=False
    )
    reply = await _ask(caller, request, QUERY_CONSUMER_OFFSET, header)
    return messages.GetOffsetResponse(offset=reply.offset)


def _place(caller: Caller, request: Any) -> tuple[str, str]:
    topic, group = topic_name(full_name(request.message_queue.topic)), group_name(full_name(request.group))
    caller.check(*subscribe(topic, group))
    return topic, group


async def query_offset(caller: Caller, request: Any) -> Any:
    """Return the first or last offset of a queue, or the offset at a time."""
    topic, queue_id = topic_name(full_name(request.message_queue.topic)), request.message_queue.id
    caller.check(on_topic(topic, Permission.SUB))
    await _check_queue(caller, topic, request.message_queue)
    if request.query_offset_policy == QueryOffsetPolicy.TIMESTAMP:
        if not request.HasField("timestamp"):
            raise StatusError(Code.BAD_REQUEST, "timestamp is expected with the policy TIMESTAMP")
        moment = milliseconds(request.timestamp)
        by_time = SearchOffsetRequestHeader(topic=topic, queue_id=queue_id, timestamp=moment)
        reply = await _ask(caller, request, SEARCH_OFFSET_BY_TIMESTAMP, by_time)
    elif request.query_offset_policy == QueryOffsetPolicy.END:
        end = GetMaxOffsetRequestHeader(topic=topic, queue_id=queue_id)
        reply = await _ask(caller, request, GET_MAX_OFFSET, end)
    else:
        begin = GetMinOffsetRequestHeader(topic=topic, queue_id=queue_id)
        reply = await _ask(caller, request, GET_MIN_OFFSET, begin)
    return messages.QueryOffsetResponse(offset=reply.offset)


async def _ask(caller: Caller, request: Any, operation: Operation[Any, Any, None, None], header: Any) -> Any:
    return await caller.backend.ask(caller, request.message_queue.broker.name, operation, header)


async def _check_queue(caller: Caller, topic: str, queue: Any) -> None:
    if not caller.backend.knows(topic):
        raise StatusError(Code.TOPIC_NOT_FOUND, f"there is no topic {topic}")
    queues = await caller.backend.topic(caller, topic)
    some = next((one for one in queues if queue.broker.name in ("", one.broker_name)), queues[0])
    if not 0 <= queue.id < some.read_queues:
        text = f"topic {topic} has {some.read_queues} queues to read, not {queue.id}"
        raise StatusError(Code.BAD_REQUEST, text)
