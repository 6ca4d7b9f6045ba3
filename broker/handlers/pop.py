"""Pop consumption: codes 200050 to 200055 and 200151 (Java classes `PopMessageProcessor`,
`AckMessageProcessor`, `ChangeInvisibleTimeProcessor`, `PeekMessageProcessor`, `NotificationProcessor`,
`PollingInfoProcessor`).

Unlike Java's, this broker does not compare the client's clock with its own: a pop waits for its `pollTime`
after its arrival. The reply to a late or repeated acknowledgement is success, as in Java.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import chain

import trio

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import Refusal
from rmqcli.broker.filters import EVERYTHING, SqlSelection, Wanted, is_tag_type
from rmqcli.broker.handlers.common import (
    FAQ,
    Soon,
    after_flush,
    no_filtering,
    no_group,
    no_topic,
    once_flushed,
    when_compiled,
)
from rmqcli.broker.net.handling import Answered, Reply, Request
from rmqcli.broker.net.session import Session
from rmqcli.broker.net.transport import COALESCE_BYTES, Buffer
from rmqcli.broker.services.clients import count_created
from rmqcli.broker.services.pop.revive import real_topic
from rmqcli.broker.services.pop.values import PoppedPart, PopRequest, PopResult
from rmqcli.broker.services.put import can_be_stored
from rmqcli.codec.bodies.config import SubscriptionGroupConfig
from rmqcli.codec.bodies.pop import BatchAck, BatchAckMessageRequestBody
from rmqcli.codec.codes import Perm, ResponseCode
from rmqcli.codec.errors import CodecError, SelectorError
from rmqcli.codec.headers.base import GroupQueueRequestHeader, to_ext
from rmqcli.codec.headers.pop import (
    AckMessageRequestHeader,
    ChangeInvisibleTimeRequestHeader,
    ChangeInvisibleTimeResponseHeader,
    NotificationRequestHeader,
    NotificationResponseHeader,
    PeekMessageRequestHeader,
    PollingInfoRequestHeader,
    PollingInfoResponseHeader,
    PopMessageRequestHeader,
    PopMessageResponseHeader,
)
from rmqcli.codec.ids import pack_host_text
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.receipt_handle import (
    NORMAL,
    ReceiptHandle,
    msg_offset_info,
    order_count_info,
    pop_retry_topic,
    start_offset_info,
)
from rmqcli.codec.records.encoding import encode_record
from rmqcli.codec.records.reading import decode_record
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.reply_head import reply_head
from rmqcli.codec.selector import ALL, parse_tags, tag_codes

MOST_MESSAGES = 32
SHORT_BODY = COALESCE_BYTES
"""Maximum size in bytes of records that are sent as one buffer with the head of the reply."""
MOST_INVISIBLE_MS = 30 * 86_400_000
LONGEST_POLL_MS = 3_600_000
EARLIER_SECONDS = 0.05
"""The time by which the reply to a pop precedes the end of the client's wait."""
LONGEST_EXPRESSION = 32 * 1024
CACHED_TEXT = 1024
"""Maximum length of cached tags, which limits the memory of the cache."""
MOST_ACKED = 10_000
"""Maximum number of messages that one request acknowledges."""
READ = int(Perm.READ)
FOUND, NO_MESSAGE = "FOUND", "NO_MESSAGE_IN_QUEUE"

PopReply = Reply[PopMessageResponseHeader, bytes]
_FOUND = PopMessageResponseHeader(
    pop_time=0, invisible_time=0, revive_qid=0, rest_num=0, start_offset_info="", msg_offset_info=""
)
_found_head = reply_head(ResponseCode.SUCCESS, {}, tuple(to_ext(_FOUND)), FOUND).frame


def check_pop(
    broker: BrokerContext, session: Session | None, group: str, topic: str, queue_id: int, max_messages: int
) -> SubscriptionGroupConfig:
    """Return the group of a pop, which is created if that is allowed. Raises Refusal if the pop is not allowed."""
    _check_broker(broker)
    if max_messages > MOST_MESSAGES:
        remark = f"the broker[{broker.host}] pop message's num is greater than {MOST_MESSAGES}"
        raise Refusal(ResponseCode.INVALID_PARAMETER, remark)
    if max_messages < 1:
        remark = f"maxMsgNums is {max_messages}, 1 to {MOST_MESSAGES} is expected"
        raise Refusal(ResponseCode.INVALID_PARAMETER, remark)
    config = broker.topics.get(topic)
    if config is None:
        raise no_topic(topic, " ")
    if not config.perm & READ:
        raise Refusal(ResponseCode.NO_PERMISSION, f"the topic[{topic}] peeking message is forbidden")
    if queue_id >= config.read_queue_nums:
        raise _illegal_queue(session, topic, queue_id, config.read_queue_nums, ResponseCode.INVALID_PARAMETER)
    found, made = broker.groups.find(group)
    if made:
        if session is not None:
            count_created(broker, session, partial(broker.groups.remove, group))
        broker.files.groups_changed()
    if found is None:
        raise no_group(group, f"subscription group [{group}] does not exist, {FAQ}")
    if not found.consume_enable:
        raise Refusal(ResponseCode.NO_PERMISSION, f"subscription group no permission, {group}")
    if broker.groups.is_forbidden(group, topic):
        remark = f"the consumer group[{group}] is forbidden for topic[{topic}]"
        raise Refusal(ResponseCode.NO_PERMISSION, remark)
    if not can_be_stored(retry := pop_retry_topic(group, topic)):
        remark = (
            f"messages could not be lent again: the name of the retry topic {retry} is longer than 127 bytes"
        )
        raise Refusal(ResponseCode.INVALID_PARAMETER, remark)
    return found


def _check_broker(broker: BrokerContext) -> None:
    if broker.is_slave:
        remark = f"the broker[{broker.host}] is a slave, which lends no messages: pop from its master"
        raise Refusal(ResponseCode.NO_PERMISSION, remark)
    if not broker.config.broker_permission & READ:
        raise Refusal(ResponseCode.NO_PERMISSION, f"the broker[{broker.host}] pop message is forbidden")


def _illegal_queue(
    session: Session | None, topic: str, queue_id: int, queues: int, code: ResponseCode
) -> Refusal:
    peer = "" if session is None else session.peer_text
    remark = f"queueId[{queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:[{queues}] consumer:[/{peer}]"
    return Refusal(code, remark)


def wanted_by(broker: BrokerContext, group: str, topic: str, kind: str | None, text: str | None) -> Wanted:
    """Return the messages that an expression selects. Raises Refusal."""
    try:
        if len(text or "") > LONGEST_EXPRESSION:
            raise SelectorError("the expression is too long")
        if is_tag_type(kind):
            return (_by_tags if len(text or "") <= CACHED_TEXT else _by_tags.__wrapped__)(text or ALL)
        if not broker.config.enable_property_filter:
            raise no_filtering(kind)
        one = broker.filters.build(topic, group, text or "", kind or "", 0)
        return Wanted(None, SqlSelection(broker.filters, topic, one))
    except SelectorError:
        remark = "parse the consumer's subscription failed"
        raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark) from None


@lru_cache(maxsize=4096)
def _by_tags(text: str) -> Wanted:
    tags = parse_tags(text)
    return Wanted(tag_codes(tags)) if tags else EVERYTHING


def pop(
    broker: BrokerContext, request: Request[PopMessageRequestHeader, None]
) -> Answered[PopMessageResponseHeader, bytes]:
    """Lend messages, or wait for some (code 200050)."""
    if is_tag_type(request.header.exp_type):
        return _pop(broker, request)
    return when_compiled(broker, [request.header.exp], partial(_pop, broker, request))


def _pop(broker: BrokerContext, request: Request[PopMessageRequestHeader, None]) -> Soon[PopReply | bytes]:
    header = request.header
    check_pop(
        broker, request.session, header.consumer_group, header.topic, header.queue_id, header.max_msg_nums
    )
    _check_invisible(header.invisible_time)
    wanted = PopRequest(
        group=header.consumer_group,
        topic=header.topic,
        queue_id=header.queue_id,
        max_messages=header.max_msg_nums,
        invisible_ms=header.invisible_time,
        wanted=wanted_by(broker, header.consumer_group, header.topic, header.exp_type, header.exp),
        from_start=header.init_mode == 0,
        order=header.order,
        attempt_id=header.attempt_id,
    )
    found = broker.pops.pop_now(wanted)
    wait = _wait_seconds(header.poll_time)
    if broker.pops.must_save or not (found.count or wait <= 0):
        return _pop_later(broker, request, wanted, found, trio.current_time() + wait)
    is_short = found.is_plain and 0 < found.size <= SHORT_BODY and not wanted.order
    reply = _frame(request.command, found) if is_short else _pop_reply(broker, wanted, found)
    return once_flushed(broker, reply, found.end)


def _frame(command: RemotingCommand, found: PopResult) -> bytes:
    """Return the frame of a reply with few records of the topic itself: a copy of them is cheaper than views."""
    infos = [part.info for part in found.parts]
    values = [
        b"%d" % found.pop_time,
        b"%d" % found.invisible_ms,
        b"%d" % found.revive_queue,
        b"%d" % found.rest,
        start_offset_info(infos).encode(),
        msg_offset_info(infos).encode(),
    ]
    head = _found_head(bool(command.serialize_type), command.opaque, values, found.size)
    return b"".join((head, *chain.from_iterable([part.views for part in found.parts])))


async def _pop_later(
    broker: BrokerContext,
    request: Request[PopMessageRequestHeader, None],
    wanted: PopRequest,
    found: PopResult,
    until: float,
) -> PopReply:
    last = await broker.pops.receive(wanted, until, request.session, found)
    reply = _pop_reply(broker, wanted, found if last is None else last, is_full=last is None)
    return reply if last is None else await after_flush(broker, reply, last.end)


def _wait_seconds(poll_time: int) -> float:
    return min(poll_time, LONGEST_POLL_MS) / 1000 - EARLIER_SECONDS


def _check_invisible(invisible_ms: int) -> None:
    if not 0 <= invisible_ms <= MOST_INVISIBLE_MS:
        remark = f"invisibleTime[{invisible_ms}] is illegal, 0 to {MOST_INVISIBLE_MS} ms is expected"
        raise Refusal(ResponseCode.INVALID_PARAMETER, remark)


def _pop_reply(
    broker: BrokerContext, wanted: PopRequest, found: PopResult, *, is_full: bool = False
) -> PopReply:
    infos = [part.info for part in found.parts]
    counts = None
    if wanted.order:
        counts = ";".join(
            order_count_info(
                part.retry,
                part.queue_id,
                part.counts,
                min(part.counts.values()) if len(part.counts) >= len(part.offsets) else 0,
            )
            for part in found.parts
        )
    header = PopMessageResponseHeader(
        pop_time=found.pop_time,
        invisible_time=found.invisible_ms,
        revive_qid=found.revive_queue,
        rest_num=found.rest,
        start_offset_info=start_offset_info(infos),
        msg_offset_info=msg_offset_info(infos),
        order_count_info=counts,
    )
    if not found.count:
        broker.rates.missed += 1
        code = ResponseCode.POLLING_FULL if is_full else ResponseCode.POLLING_TIMEOUT
        return Reply(header, code=code, remark=NO_MESSAGE)
    views: list[Buffer] = []
    for part in found.parts:
        views += part.views if part.retry == NORMAL else _renamed(broker, wanted, found, part)
    return Reply(header, remark=FOUND, views=views)


def _renamed(
    broker: BrokerContext, wanted: PopRequest, found: PopResult, part: PoppedPart
) -> Iterator[bytes]:
    """Return the records of a retry topic as records of the topic, with their handles."""
    for offset, record in zip(part.offsets, part.records, strict=True):
        one = decode_record(record)
        properties = one.properties
        properties.setdefault(PropertyName.POP_CK, found.handle(part, offset, broker.name).encode())
        yield encode_record(
            topic=wanted.topic.encode(),
            queue_id=one.queue_id,
            flag=one.flag,
            queue_offset=one.queue_offset,
            physical_offset=one.commit_log_offset,
            sys_flag=one.sys_flag,
            born_timestamp=one.born_timestamp,
            born_host=pack_host_text(one.born_host),
            store_timestamp=one.store_timestamp,
            store_host=pack_host_text(one.store_host),
            reconsume_times=one.reconsume_times,
            prepared_transaction_offset=one.prepared_transaction_offset,
            body=one.body,
            properties=encode_properties(properties),
        )


def peek(
    broker: BrokerContext, request: Request[PeekMessageRequestHeader, None]
) -> Answered[PopMessageResponseHeader, bytes]:
    """Return the messages of the next pop without lending them (code 200052)."""
    header = request.header
    check_pop(
        broker, request.session, header.consumer_group, header.topic, header.queue_id, header.max_msg_nums
    )
    wanted = PopRequest(
        group=header.consumer_group,
        topic=header.topic,
        queue_id=header.queue_id,
        max_messages=header.max_msg_nums,
        invisible_ms=0,
        from_start=True,
    )
    found = broker.pops.peek(wanted)
    if not found.count:
        empty = PopMessageResponseHeader(pop_time=0, invisible_time=0, revive_qid=0, rest_num=found.rest)
        return Reply(empty, code=ResponseCode.PULL_NOT_FOUND, remark=NO_MESSAGE)
    return once_flushed(broker, _pop_reply(broker, wanted, found), found.end)


async def notification(
    broker: BrokerContext, request: Request[NotificationRequestHeader, None]
) -> Reply[NotificationResponseHeader, None]:
    """Notify the client once there are messages (code 200054)."""
    header = request.header
    check_pop(broker, request.session, header.consumer_group, header.topic, header.queue_id, 1)
    wanted = PopRequest(
        group=header.consumer_group,
        topic=header.topic,
        queue_id=header.queue_id,
        max_messages=1,
        invisible_ms=0,
        from_start=True,
        order=header.order,
        attempt_id=header.attempt_id,
    )
    until = trio.current_time() + _wait_seconds(header.poll_time)
    told = await broker.pops.notified(wanted, until, request.session)
    return Reply(NotificationResponseHeader(has_msg=bool(told), polling_full=told is None))


def polling_info(
    broker: BrokerContext, request: Request[PollingInfoRequestHeader, None]
) -> Reply[PollingInfoResponseHeader, None]:
    """Return the number of waiting pops (code 200055)."""
    header = request.header
    check_pop(broker, request.session, header.consumer_group, header.topic, header.queue_id, 1)
    waiting = broker.pops.waiting.of(header.consumer_group, header.topic, max(header.queue_id, -1))
    return Reply(PollingInfoResponseHeader(polling_num=waiting))


def ack(broker: BrokerContext, request: Request[AckMessageRequestHeader, None]) -> Reply[None, None]:
    """Acknowledge a message (code 200051)."""
    header = request.header
    handle, topic = _checked_handle(broker, request.session, header, header.extra_info, header.offset)
    group = header.consumer_group
    if broker.pops.ack(group, topic, handle) or not handle.is_order:
        return Reply()
    key = group, handle.topic(group, topic), handle.queue_id
    block, committed = broker.pops.orders.get(key), broker.offsets.query(*key)
    is_of_block = block is not None and block.pop_time == handle.pop_time
    if is_of_block and handle.offset >= committed and handle.offset not in block.visible:  # type: ignore[union-attr]
        remark = f"offset is illegal, key:{key[1]}@{group}@{handle.queue_id}, commit:{committed}, next:{handle.offset}"
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, remark)
    return Reply()


def _checked_handle(
    broker: BrokerContext, session: Session, header: GroupQueueRequestHeader, text: str, offset: int
) -> tuple[ReceiptHandle, str]:
    """Return the handle of a request, and the popped topic; a client names the topic in which the message is
    stored. Raises Refusal or HeaderError.
    """
    handle = ReceiptHandle.decode(text)._replace(queue_id=header.queue_id, offset=offset)
    topic = real_topic(header.consumer_group, header.topic)
    stored = handle.topic(header.consumer_group, topic)
    config = broker.topics.get(stored)
    if config is None:
        raise no_topic(stored, " ")
    if not 0 <= header.queue_id < config.read_queue_nums:
        raise _illegal_queue(
            session, stored, header.queue_id, config.read_queue_nums, ResponseCode.MESSAGE_ILLEGAL
        )
    search = broker.store.search
    low, high = search.min_offset(stored, header.queue_id), search.max_offset(stored, header.queue_id)
    if not low <= offset <= high:
        remark = f"offset is illegal, key:{stored}@{header.queue_id}, commit:{offset}, store:{low}~{high}"
        raise Refusal(ResponseCode.NO_MESSAGE, remark)
    return handle, topic


def ack_batch(broker: BrokerContext, request: Request[None, BatchAckMessageRequestBody]) -> Reply[None, None]:
    """Acknowledge many messages (code 200151). Those that are not in flight are ignored, as in Java."""
    acks = request.body.acks
    if not acks:
        raise Refusal(ResponseCode.NO_MESSAGE, "the request acknowledges no message")
    handles = [(one, _offsets(one)) for one in acks]
    count = sum(bits.bit_count() for _, bits in handles)
    if count > MOST_ACKED:
        remark = f"the request acknowledges {count} messages, {MOST_ACKED} is the limit"
        raise Refusal(ResponseCode.INVALID_PARAMETER, remark)
    for one, bits in handles:
        group, topic = one.consumer_group or "", real_topic(one.consumer_group or "", one.topic or "")
        handle = ReceiptHandle(
            one.start_offset,
            one.pop_time,
            one.invisible_time,
            one.revive_queue_id,
            one.retry or NORMAL,
            broker.name,
            one.queue_id,
            one.start_offset,
        )
        if handle.topic(group, topic) in broker.topics:
            acked = (handle._replace(offset=one.start_offset + bit) for bit in _bits(bits))
            broker.pops.ack_all(group, topic, acked)
    return Reply()


def _offsets(one: BatchAck) -> int:
    """Return the bits of a BitSet: bit N is the start offset + N. Raises Refusal."""
    try:
        if one.retry not in (None, "0", "1", "2"):
            raise CodecError
        return int.from_bytes(base64.b64decode(one.bit_set or "", validate=True), "little")
    except (binascii.Error, ValueError, CodecError):
        remark = f"the acknowledgement of {one.topic} cannot be read"
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, remark) from None


def _bits(bits: int) -> Iterator[int]:
    for place, byte in enumerate(bits.to_bytes((bits.bit_length() + 7) // 8, "little")):
        for bit in range(8) if byte else ():
            if byte >> bit & 1:
                yield place * 8 + bit


def change_invisible_time(
    broker: BrokerContext, request: Request[ChangeInvisibleTimeRequestHeader, None]
) -> Answered[ChangeInvisibleTimeResponseHeader, None]:
    """Change the time for which a message is lent, counted from now (code 200053)."""
    header = request.header
    handle, topic = _checked_handle(broker, request.session, header, header.extra_info, header.offset)
    _check_invisible(header.invisible_time)
    stored = handle.topic(header.consumer_group, topic)
    if header.offset >= broker.store.search.max_offset(stored, header.queue_id):
        remark = f"offset is illegal, key:{stored}@{header.queue_id}, commit:{header.offset}"
        raise Refusal(ResponseCode.NO_MESSAGE, remark)
    if header.suspend and not header.invisible_time:
        return _take_back(broker, header.consumer_group, topic, handle)
    changed = broker.pops.change(header.consumer_group, topic, handle, header.invisible_time)
    # As in Java, a client whose message is already lent to another client is not notified.
    return _changed(changed or handle)


async def _take_back(
    broker: BrokerContext, group: str, topic: str, handle: ReceiptHandle
) -> Reply[ChangeInvisibleTimeResponseHeader, None]:
    """Let a message that was not consumed be popped again now."""
    await broker.pops.release(group, topic, handle)
    return _changed(handle)


def _changed(changed: ReceiptHandle) -> Reply[ChangeInvisibleTimeResponseHeader, None]:
    return Reply(
        ChangeInvisibleTimeResponseHeader(
            pop_time=changed.pop_time,
            invisible_time=changed.invisible_time,
            revive_qid=changed.revive_queue,
        )
    )
