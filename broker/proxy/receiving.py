"""ReceiveMessage, AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue, by pops.

A receive covers all queues of the topic, regardless of the queue in its request. Messages of an auto-renewed
receive are lent again while their client lives (`renewals`). A receive whose stream ends returns the messages
that it has not sent.
"""

from __future__ import annotations

from typing import Any

import trio

from rmqcli.broker.errors import Refusal
from rmqcli.broker.proxy.answers import StatusError, common, of_refusal, status
from rmqcli.broker.proxy.backend import Backend, Wish
from rmqcli.broker.proxy.calling import Caller, group_name, subscribe, topic_name
from rmqcli.broker.proxy.convert import duration, full_name, message_of, milliseconds, timestamp
from rmqcli.broker.proxy.offsets import SPARE, TAG, expression_of
from rmqcli.codec.errors import CodecError
from rmqcli.codec.message import MessageExt
from rmqcli.codec.proxy import messages
from rmqcli.codec.proxy.codes import Code
from rmqcli.codec.receipt_handle import ReceiptHandle
from rmqcli.codec.selector import ALL, parse_tags

MOST_RECEIVED = 32
MOST_ENTRIES = 1024
LONGEST_INVISIBLE_MS = 12 * 3600 * 1000
SHORTEST_INVISIBLE_MS = 10_000
RENEWED_MS = 60_000
"""The time for which a message of an auto-renewed receive is lent at first."""
DEFAULT_POLL_MS, SHORTEST_POLL_MS, LONGEST_POLL_MS = 20_000, 5_000, 20_000


async def receive_message(caller: Caller, request: Any) -> None:
    """Send messages, or wait for some: first a status, then the messages, then the time of the delivery."""
    topic = topic_name(full_name(request.message_queue.topic))
    group = group_name(full_name(request.group))
    caller.check(*subscribe(topic, group))
    backend, renewals = caller.backend, caller.front.renewals
    invisible = (
        RENEWED_MS if request.auto_renew else _invisible(request.invisible_duration, SHORTEST_INVISIBLE_MS)
    )
    text, kind = expression_of(request.filter_expression)
    wish = Wish(
        group,
        topic,
        min(max(request.batch_size, 1), MOST_RECEIVED),
        invisible,
        kind,
        text,
        request.attempt_id if request.HasField("attempt_id") else None,
    )
    lent = await backend.receive(caller, wish, trio.current_time() + _poll_seconds(caller, request))
    if lent is None:
        raise StatusError(Code.TOO_MANY_REQUESTS, "too many receives wait for messages")
    if not lent:
        await _send(caller, status=status(Code.MESSAGE_NOT_FOUND, "no new message"))
        return
    async with backend.released_unless_done(group, topic, [handle for handle, _ in lent]) as unsent:
        await _send(caller, status=status())
        tags = parse_tags(text) if kind == TAG and text != ALL else ()
        for handle, message in lent:
            if tags and message.tags not in tags:  # brokers compare hashes of tags
                await backend.ack(group, topic, handle)
            else:
                await _send(caller, message=_message(message, handle, invisible, request.message_queue.topic))
                if not caller.call.is_awaited:
                    return  # if renewed, it would be lent for hours to a client that did not get it
                if request.auto_renew:
                    renewals.add(caller.client(), group, topic, handle, invisible)
            del unsent[handle]
    await _send(caller, delivery_timestamp=timestamp(backend.now_ms()))


async def _send(caller: Caller, **content: Any) -> None:
    await caller.call.send(messages.ReceiveMessageResponse(**content).SerializeToString())


def _message(stored: MessageExt, handle: ReceiptHandle, invisible_ms: int, topic: Any) -> Any:
    message = message_of(stored, topic)
    message.system_properties.receipt_handle = handle.encode()
    message.system_properties.invisible_duration.CopyFrom(duration(invisible_ms))
    return message


def _poll_seconds(caller: Caller, request: Any) -> float:
    """Return how long a receive waits: the requested time, limited by its deadline. Raises StatusError."""
    given = (
        milliseconds(request.long_polling_timeout)
        if request.HasField("long_polling_timeout")
        else DEFAULT_POLL_MS
    )
    seconds = min(max(given, SHORTEST_POLL_MS), LONGEST_POLL_MS) / 1000
    left = caller.call.deadline - trio.current_time() - SPARE
    if left <= 0:
        raise StatusError(
            Code.ILLEGAL_POLLING_TIME,
            "The deadline time remaining is not enough for polling, please check network condition",
        )
    return min(seconds, left)


def _invisible(given: Any, shortest: int) -> int:
    ms = milliseconds(given)
    if not shortest <= ms <= LONGEST_INVISIBLE_MS:
        raise StatusError(
            Code.ILLEGAL_INVISIBLE_TIME,
            f"an invisible time of {shortest} to {LONGEST_INVISIBLE_MS} ms is expected",
        )
    return ms


def _place(caller: Caller, request: Any) -> tuple[str, str]:
    topic, group = topic_name(full_name(request.topic)), group_name(full_name(request.group))
    caller.check(*subscribe(topic, group))
    if not caller.backend.knows(topic):
        raise StatusError(Code.TOPIC_NOT_FOUND, f"there is no topic {topic}")
    return topic, group


def _handle(backend: Backend, text: str) -> ReceiptHandle:
    """Return the handle of a broker behind the front. Raises StatusError."""
    try:
        handle = ReceiptHandle.decode(text)
    except CodecError as error:
        raise StatusError(Code.INVALID_RECEIPT_HANDLE, str(error)) from None
    if backend.broker_name not in (None, handle.broker_name):
        raise StatusError(Code.INVALID_RECEIPT_HANDLE, f"the handle is of broker {handle.broker_name}")
    return handle


def _expired() -> StatusError:
    return StatusError(Code.INVALID_RECEIPT_HANDLE, "the message is not in flight under this handle")


async def ack_message(caller: Caller, request: Any) -> Any:
    """Acknowledge messages. One whose handle has expired, or that was acknowledged before, is refused."""
    topic, group = _place(caller, request)
    if not 0 < len(request.entries) <= MOST_ENTRIES:
        raise StatusError(Code.BAD_REQUEST, f"1 to {MOST_ENTRIES} messages can be acknowledged together")
    backend = caller.backend
    entries = []
    for entry in request.entries:
        try:
            handle = await caller.front.renewals.take(group, topic, _handle(backend, entry.receipt_handle))
            if not await backend.ack(group, topic, handle):
                raise _expired()
            found = status()
        except Refusal as refusal:
            error = of_refusal(refusal)
            found = status(error.code, str(error))
        except StatusError as error:
            found = status(error.code, str(error))
        entries.append(
            messages.AckMessageResultEntry(
                message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=found
            )
        )
    return messages.AckMessageResponse(status=common([one.status for one in entries]), entries=entries)


async def change_invisible_duration(caller: Caller, request: Any) -> Any:
    """Change the time for which a message is lent; with 0, which the Node client sends, it can be received at
    once.
    """
    topic, group = _place(caller, request)
    backend = caller.backend
    invisible = _invisible(request.invisible_duration, 0)
    handle = await caller.front.renewals.take(group, topic, _handle(backend, request.receipt_handle))
    changed = await backend.change(group, topic, handle, invisible)
    if changed is None:
        raise _expired()
    return messages.ChangeInvisibleDurationResponse(receipt_handle=changed.encode())


async def forward_to_dead_letters(caller: Caller, request: Any) -> Any:
    """Move a message to the dead letters of its group."""
    topic, group = _place(caller, request)
    backend = caller.backend
    handle = await caller.front.renewals.take(group, topic, _handle(backend, request.receipt_handle))
    if not await backend.to_dead_letters(group, topic, handle, request.message_id):
        raise _expired()
    return messages.ForwardMessageToDeadLetterQueueResponse()
