"""The requests of pop consumption, and the receipt handles of received messages, which the client derives from
the reply (Java `MQClientAPIImpl.processPopResponse`). A message keeps its handle in the property POP_CK.

Only the master of a broker lends messages and accepts acknowledgements.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import force_setattr

from rmqcli.client.errors import UNREACHED, BrokerBusy, NotFound, UnexpectedReply
from rmqcli.client.instance import ClientInstance
from rmqcli.client.wire.messages import read_messages
from rmqcli.client.wire.requests import read_answer
from rmqcli.codec.bodies.heartbeat import ConsumeFromWhere
from rmqcli.codec.codes import MASTER_ID, ResponseCode
from rmqcli.codec.errors import HeaderError
from rmqcli.codec.headers.pop import (
    AckMessageRequestHeader,
    ChangeInvisibleTimeRequestHeader,
    PopMessageRequestHeader,
    PopMessageResponseHeader,
)
from rmqcli.codec.message import MessageExt, PropertyName
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.pop import ACK_MESSAGE, CHANGE_MESSAGE_INVISIBLETIME, POP_MESSAGE
from rmqcli.codec.receipt_handle import (
    NORMAL,
    ReceiptHandle,
    parse_order_counts,
    parse_part_infos,
    retry_flag,
)

ANY_QUEUE = -1
MAX_MESSAGES = 32  # brokers refuse more
BROKER_CLOCK = 0  # as bornTime: otherwise a broker whose clock is ahead of ours takes a request for outdated
INIT_MODES = {ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET: 0, ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET: 1}
_NOTHING = (ResponseCode.PULL_NOT_FOUND, ResponseCode.POLLING_TIMEOUT)
_STATUSES = (ResponseCode.SUCCESS, ResponseCode.POLLING_FULL, *_NOTHING)

Place = tuple[str, int]
"""A retry flag and a queue id."""


class Lent(NamedTuple):
    """Messages that a broker has lent, with their handles, and the header of its reply."""

    header: PopMessageResponseHeader
    messages: list[MessageExt]


async def pop(
    instance: ClientInstance,
    address: str,
    queue: MessageQueue,
    header: PopMessageRequestHeader,
    *,
    timeout: float,
) -> Lent | None:
    """Return the messages of a pop; None if there are none. Raises ClientError."""
    reply = await instance.call(address, POP_MESSAGE.code, header, timeout=timeout, ok=_STATUSES)
    if reply.code == ResponseCode.POLLING_FULL:
        raise polling_full(address)
    instance.outages.works(queue)
    if reply.code in _NOTHING:
        return None
    answer = read_answer(POP_MESSAGE, reply, queue.broker_name)
    # Messages that do not fit into a reply are redelivered after their time.
    messages, _cut_at = await read_messages(answer.body, queue.broker_name)
    add_handles(messages, answer.header, queue)
    return Lent(answer.header, messages)


async def change(
    instance: ClientInstance,
    group: str,
    topic: str,
    handle: ReceiptHandle,
    invisible_ms: int,
    *,
    unused: bool = False,
) -> ReceiptHandle:
    """Return the new handle of a message, now invisible for another `invisible_ms`. Raises ClientError.

    `unused`: it was not consumed, so brokers that support this (5.5) do not count an attempt.
    """
    header = ChangeInvisibleTimeRequestHeader(
        consumer_group=group,
        topic=handle.topic(group, topic),
        queue_id=handle.queue_id,
        extra_info=handle.encode(),
        offset=handle.offset,
        invisible_time=invisible_ms,
        suspend=unused or None,
    )
    address = await lender(instance, topic, handle.broker_name)
    try:
        told = (await instance.ask(address, CHANGE_MESSAGE_INVISIBLETIME, header, None)).header
    except UNREACHED:
        instance.routes.doubt(topic)
        raise
    return handle._replace(
        pop_time=told.pop_time, invisible_time=told.invisible_time, revive_queue=told.revive_qid
    )


async def acknowledge(
    instance: ClientInstance, address: str, group: str, topic: str, handle: ReceiptHandle
) -> None:
    """Acknowledge a message at its broker. Raises ClientError."""
    header = AckMessageRequestHeader(
        consumer_group=group,
        topic=handle.topic(group, topic),
        queue_id=handle.queue_id,
        extra_info=handle.encode(),
        offset=handle.offset,
    )
    try:
        await instance.ask(address, ACK_MESSAGE, header, None)
    except UNREACHED:
        instance.routes.doubt(topic)
        raise


async def lender(instance: ClientInstance, topic: str, broker_name: str) -> str:
    """Return the address of a master. Raises ClientError."""
    address = (await instance.broker_addresses(MessageQueue(topic, broker_name, ANY_QUEUE)))[0]
    if address != instance.routes.brokers[broker_name].get(MASTER_ID):
        raise no_master(instance, topic, broker_name)
    return address


def no_master(instance: ClientInstance, topic: str, broker_name: str) -> NotFound:
    instance.routes.doubt(topic)
    return instance.not_in_route(
        f"topic {instance.namespace.unwrap(topic)} has no master on broker {broker_name}"
    )


def polling_full(address: str) -> BrokerBusy:
    # Concluded, because the code has another name in the answers to other requests.
    remark = f"{address} holds too many requests that wait for messages"
    return BrokerBusy(ResponseCode.POLLING_FULL, remark, address, POP_MESSAGE.name, concluded=True)


def add_handles(
    messages: Sequence[MessageExt], header: PopMessageResponseHeader, source: MessageQueue
) -> None:
    """Add its handle to each message. Those of retry topics get the topic of `source`.

    Raises UnexpectedReply for strings that cannot be parsed.
    """
    try:
        parts = {
            (part.retry, part.queue_id): (part.start_offset, part.offsets)
            for part in parse_part_infos(header.start_offset_info, header.msg_offset_info)
        }
        counts = parse_order_counts(header.order_count_info)
    except HeaderError as error:
        raise UnexpectedReply(source.broker_name, POP_MESSAGE.name, str(error)) from error
    for (flag, queue_id), some in _by_place(messages).items():
        own = [message.queue_offset for message in some]
        # A broker older than 5.0.0 does not name the offsets.
        start, offsets = parts.get((flag, queue_id)) or (own[0], own)
        for message, offset in zip(some, _handle_offsets(own, offsets), strict=True):
            handle = ReceiptHandle(
                start,
                header.pop_time,
                header.invisible_time,
                header.revive_qid,
                flag,
                source.broker_name,
                queue_id,
                offset,
            )
            message.properties[PropertyName.POP_CK] = handle.encode()
            if times := counts.get((flag, queue_id, offset)):
                force_setattr(message, "reconsume_times", times)
    for message in messages:
        message.properties.setdefault(PropertyName.FIRST_POP_TIME, str(header.pop_time))
        force_setattr(message, "topic", source.topic)


def _by_place(messages: Iterable[MessageExt]) -> dict[Place, list[MessageExt]]:
    """Return the messages without a handle; a retried one that has its topic again comes with its handle."""
    found: dict[Place, list[MessageExt]] = {}
    for message in messages:
        if not _is_retried(message.properties.get(PropertyName.POP_CK)):
            found.setdefault((retry_flag(message.topic), message.queue_id), []).append(message)
    return found


def _is_retried(text: str | None) -> bool:
    try:
        return text is not None and ReceiptHandle.decode(text).retry != NORMAL
    except HeaderError:  # the producer has sent this property
        return False


def _handle_offsets(own: Sequence[int], named: Sequence[int]) -> Sequence[int]:
    """Return the offset in the handle of each message, given those of the messages and those that the reply names.

    They differ for the messages of an inner batch, which have the handle of the batch, and if messages at the
    end are left out.
    """
    if len(own) == len(named):
        return named
    return [named[max(0, bisect_right(named, offset) - 1)] for offset in own]
