"""ReceiveMessage, AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue, by pops.

A receive looks at all queues of the topic, whatever queue its request names. Messages of an auto-renewed
receive are lent again while their client lives (`renewals`). A receive whose stream ends returns the messages
that it has not sent.
"""

from __future__ import annotations

from typing import Any

import trio

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import Refusal
from rmqcli.broker.handlers.common import is_unflushed
from rmqcli.broker.handlers.pop import check_pop, wanted_by
from rmqcli.broker.handlers.send import known_topic
from rmqcli.broker.proxy.answers import StatusError, common, of_refusal, status
from rmqcli.broker.proxy.calling import Caller, group_name, ready, subscribe, topic_name
from rmqcli.broker.proxy.convert import duration, full_name, message_of, milliseconds, timestamp
from rmqcli.broker.proxy.offsets import SPARE, TAG, expression_of
from rmqcli.broker.services.pop.values import PopRequest, PopResult
from rmqcli.codec.bodies.config import SubscriptionGroupConfig
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

Lent = tuple[ReceiptHandle, MessageExt]


async def receive_message(caller: Caller, request: Any) -> None:
    """Send messages, or wait for some: first a status, then the messages, then the time of the delivery."""
    topic = topic_name(full_name(request.message_queue.topic))
    group = group_name(full_name(request.group))
    caller.check(*subscribe(topic, group))
    broker, renewals = caller.broker, caller.front.renewals
    invisible = (
        RENEWED_MS if request.auto_renew else _invisible(request.invisible_duration, SHORTEST_INVISIBLE_MS)
    )
    text, kind = expression_of(request.filter_expression)
    if kind != TAG:
        await broker.filters.compiler.prepare(broker.filters.compiler.slow([text]))
    size = min(max(request.batch_size, 1), MOST_RECEIVED)
    config = await ready(broker, _checked, caller, group, topic, size)
    pop = PopRequest(
        group=group,
        topic=topic,
        max_messages=size,
        invisible_ms=invisible,
        wanted=await ready(broker, wanted_by, broker, group, topic, kind, text),
        order=bool(config.consume_message_orderly),
        attempt_id=request.attempt_id if request.HasField("attempt_id") else None,
    )
    result = await _popped(caller, pop, trio.current_time() + _poll_seconds(caller, request))
    if result is None:
        raise StatusError(Code.TOO_MANY_REQUESTS, "too many receives wait for messages")
    lent = list(result.messages(topic, broker.name))
    if not lent:
        await _send(caller, status=status(Code.MESSAGE_NOT_FOUND, "no new message"))
        return
    unsent = dict.fromkeys(handle for handle, _ in lent)
    try:
        if is_unflushed(broker, result.end):
            await broker.store.wait_flushed(result.end)
        await _send(caller, status=status())
        tags = parse_tags(text) if kind == TAG and text != ALL else ()
        for handle, message in lent:
            if tags and message.tags not in tags:  # the store compares hashes of tags
                await ready(broker, broker.pops.ack, group, topic, handle)
            else:
                await _send(caller, message=_message(message, handle, invisible, request.message_queue.topic))
                if request.auto_renew:
                    renewals.add(caller.client(), group, topic, handle, invisible)
            del unsent[handle]
    finally:
        if unsent:
            with trio.CancelScope(shield=True):
                for handle in unsent:
                    await broker.pops.release(group, topic, handle)
    await _send(caller, delivery_timestamp=timestamp(broker.now_ms()))


def _checked(caller: Caller, group: str, topic: str, size: int) -> SubscriptionGroupConfig:
    broker = caller.broker
    if broker.topics.get(topic) is None and not broker.is_slave:
        known_topic(broker, caller.session, topic)
    return check_pop(broker, caller.session, group, topic, -1, size)


async def _popped(caller: Caller, pop: PopRequest, until: float) -> PopResult | None:
    """Return what a pop finds by `until`; less if the client says that it ends."""
    pops = caller.broker.pops
    client = caller.front.clients.find(caller.client_id, caller.access_key)
    if client is None:
        return await pops.receive(pop, until, caller.session)
    found: PopResult | None = None
    is_over = False
    async with trio.open_nursery() as nursery:

        async def end_with_client() -> None:
            await client.left.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(end_with_client)
        found = await pops.receive(pop, until, caller.session)
        is_over = True
        nursery.cancel_scope.cancel()
    return found if is_over else PopResult(0, 0, 0)


async def _send(caller: Caller, **content: Any) -> None:
    await caller.call.send(messages.ReceiveMessageResponse(**content).SerializeToString())


def _message(stored: MessageExt, handle: ReceiptHandle, invisible_ms: int, topic: Any) -> Any:
    message = message_of(stored, topic)
    message.system_properties.receipt_handle = handle.encode()
    message.system_properties.invisible_duration.CopyFrom(duration(invisible_ms))
    return message


def _poll_seconds(caller: Caller, request: Any) -> float:
    """Return how long a receive waits: as long as it says, and as its deadline allows. Raises StatusError."""
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
    if caller.broker.topics.get(topic) is None:
        raise StatusError(Code.TOPIC_NOT_FOUND, f"there is no topic {topic}")
    return topic, group


def _handle(broker: BrokerContext, text: str) -> ReceiptHandle:
    """Return a handle that this broker has written. Raises StatusError."""
    try:
        handle = ReceiptHandle.decode(text)
    except CodecError as error:
        raise StatusError(Code.INVALID_RECEIPT_HANDLE, str(error)) from None
    if handle.broker_name != broker.name:
        raise StatusError(Code.INVALID_RECEIPT_HANDLE, f"the handle is of broker {handle.broker_name}")
    return handle


def _expired() -> StatusError:
    return StatusError(Code.INVALID_RECEIPT_HANDLE, "the message is not in flight under this handle")


async def ack_message(caller: Caller, request: Any) -> Any:
    """Acknowledge messages. One whose handle has expired, or that was acknowledged before, is refused."""
    topic, group = _place(caller, request)
    if not 0 < len(request.entries) <= MOST_ENTRIES:
        raise StatusError(Code.BAD_REQUEST, f"1 to {MOST_ENTRIES} messages can be acknowledged together")
    broker = caller.broker
    entries = []
    for entry in request.entries:
        try:
            handle = caller.front.renewals.take(group, topic, _handle(broker, entry.receipt_handle))
            if not await ready(broker, broker.pops.ack, group, topic, handle):
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
    """Lend a message for another time; with 0, as the Node client asks, it can be received at once."""
    topic, group = _place(caller, request)
    broker = caller.broker
    invisible = _invisible(request.invisible_duration, 0)
    handle = caller.front.renewals.take(group, topic, _handle(broker, request.receipt_handle))
    changed = await ready(broker, broker.pops.change, group, topic, handle, invisible)
    if changed is None:
        raise _expired()
    return messages.ChangeInvisibleDurationResponse(receipt_handle=changed.encode())


async def forward_to_dead_letters(caller: Caller, request: Any) -> Any:
    """Move a message to the dead letters of its group."""
    topic, group = _place(caller, request)
    broker = caller.broker
    handle = caller.front.renewals.take(group, topic, _handle(broker, request.receipt_handle))
    if not await broker.pops.to_dead_letters(group, topic, handle):
        raise _expired()
    return messages.ForwardMessageToDeadLetterQueueResponse()
