"""SEND_MESSAGE (10), SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320) (Java class `SendMessageProcessor`).

The header, not the code, marks a request as a batch. Every reply, refusals included, carries the region and
the trace switch. A topic name is checked once per topic config. With SYNC_FLUSH, the reply to a message that
waits for the store is sent when its bytes are on the disk; as SYNC_MASTER, when a slave has them. Such
replies may overtake others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import datetime
from functools import partial

import trio
from msgspec.structs import replace

from rmqcli.broker.context import BrokerContext, OwnProperties
from rmqcli.broker.errors import IllegalBatch, Refusal
from rmqcli.broker.handlers.common import (
    SendHeader,
    no_topic,
    put_refusal,
    retry_group,
    valid_topic,
)
from rmqcli.broker.net.dispatch import Barrier
from rmqcli.broker.net.handling import Answered, Reply, Request
from rmqcli.broker.net.session import Session
from rmqcli.broker.net.turns import LongWork, Steps
from rmqcli.broker.services.clients import count_created
from rmqcli.broker.services.put import begin_flush, put, put_batch, put_sends, safely_stored
from rmqcli.broker.services.retries import DLQ_QUEUES, retry_limit
from rmqcli.broker.services.timer_properties import timer_problem
from rmqcli.broker.services.timers import recall_handle
from rmqcli.broker.services.transactions import prepare
from rmqcli.broker.store.batches import LONG_PROPERTIES, Batch
from rmqcli.broker.store.values import AppendResult, PutStatus, StoreMessage
from rmqcli.broker.tables.topics import UNIT, UNIT_SUB, describe_topic
from rmqcli.codec.bodies.config import TopicConfig
from rmqcli.codec.codes import MessageSysFlag, Perm, RequestCode, ResponseCode, SerializeType
from rmqcli.codec.core.record_writer import QueueRun
from rmqcli.codec.core.sends import Sends
from rmqcli.codec.core.text import OWN, UNSOUND, TextReader, joined_text
from rmqcli.codec.errors import HeaderError, LocalProtocolError, PropertiesTooLong
from rmqcli.codec.headers.base import Header, from_ext
from rmqcli.codec.headers.send import (
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from rmqcli.codec.ids import joined_offset_msg_ids
from rmqcli.codec.names import RETRY_PREFIX, TIMER_TOPIC, SystemTopic, dlq_topic, is_closed_to_senders
from rmqcli.codec.properties import decode_properties, encode_properties
from rmqcli.codec.property_names import TIMERS, PropertyName, priority
from rmqcli.codec.remoting.command import RemotingCommand

SendReply = Reply[SendMessageResponseHeader, None]

CHECKED_TOPICS = 65536
LAST_TIME = 253_370_764_800_000
"""The end of year 9999 in ms, the last that datetime can represent."""

# Names that the hot path looks up for each message, bound here to avoid attribute access.
PUT_OK = PutStatus.PUT_OK
TRAN_MSG, WAIT = PropertyName.TRAN_MSG, PropertyName.WAIT
MULTI_TAG = "MULTI_TAG"
"""The topicFilterType of a topic whose messages are flagged as having several TAGS."""
TRANSACTION_MASK = MessageSysFlag.TRANSACTION_MASK


def send(
    broker: BrokerContext, request: Request[SendHeader, bytes]
) -> Answered[SendMessageResponseHeader, None]:
    """Store one message or one batch."""
    command = request.command
    message, queue_id = accepted(broker, request)
    if request.header.batch:
        return LongWork(_prepare_batch(broker, request, message))
    result = stored(broker, message)
    must_wait = broker.waits_for_store and message.wait_store
    handle = recall_handle(broker, message) if message.topic == TIMER_TOPIC else None
    if not must_wait and handle is None:
        ids = broker.offset_msg_id(result.physical_offset).encode()
        return broker.send_replies.frame(
            command.serialize_type, command.opaque, ids, queue_id, result.queue_offset
        )
    reply = _reply(queue_id, result, broker.offset_msg_id(result.physical_offset), handle)
    if not must_wait:
        return reply
    begin_flush(broker)
    # The coroutine has to await the barrier: there is no reply yet that the dispatcher could hold back.
    return _stored_reply(broker, reply, result.physical_offset + result.size, broker.store.barrier)


def accepted(broker: BrokerContext, request: Request[SendHeader, bytes]) -> tuple[StoreMessage, int]:
    """Return the message of a send, a half one if it begins a transaction, and the id of its queue. Raises
    Refusal."""
    if broker.config.start_accept_send_request_time_stamp:
        check_open(broker)
    config = checked_topic(broker, request.session, request.header)
    try:
        message = _message(broker, request, config)
        queue_id = message.queue_id
        if TRAN_MSG in message.properties or message.sys_flag & TRANSACTION_MASK:
            check_timer(broker, message)
            prepare(broker, message, is_batch=request.header.batch)
    except LocalProtocolError as error:
        raise _refusal_of(broker, error) from None
    return message, queue_id


def stored(broker: BrokerContext, message: StoreMessage) -> AppendResult:
    """Store a message. Raises Refusal if it is not stored."""
    try:
        result = put(broker, message)
    except LocalProtocolError as error:
        raise _refusal_of(broker, error) from None
    if result.status is not PUT_OK:
        raise put_refusal(broker, result.status)
    return result


def _refusal_of(broker: BrokerContext, error: LocalProtocolError) -> Refusal:
    """Return the refusal of a message that cannot be a record."""
    if isinstance(error, PropertiesTooLong):
        return put_refusal(broker, PutStatus.PROPERTIES_SIZE_EXCEEDED)
    return Refusal(ResponseCode.SYSTEM_ERROR, str(error))


def check_timer(broker: BrokerContext, message: StoreMessage) -> None:
    """Refuse a half message whose commit would be refused because of its timer."""
    problem = None if TIMERS.isdisjoint(message.properties) else timer_problem(broker, message)
    if problem is not None:
        raise put_refusal(broker, problem)


def _reply(queue_id: int, result: AppendResult, msg_ids: str, handle: str | None = None) -> SendReply:
    header = SendMessageResponseHeader(
        msg_id=msg_ids, queue_id=queue_id, queue_offset=result.queue_offset, recall_handle=handle
    )
    return Reply(header)


def _prepare_batch(
    broker: BrokerContext, request: Request[SendHeader, bytes], message: StoreMessage
) -> Steps:
    try:
        parts = yield from broker.store.writer.prepare_batch(message)
    except PropertiesTooLong:
        raise put_refusal(broker, PutStatus.PROPERTIES_SIZE_EXCEEDED) from None
    except IllegalBatch as error:
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
    return partial(_store_batch, broker, request, parts)


def _store_batch(
    broker: BrokerContext, request: Request[SendHeader, bytes], parts: list[Batch]
) -> Answered[SendMessageResponseHeader, None]:
    checked_topic(broker, request.session, request.header)  # again: it may have been deleted in the meantime
    if len(parts) > 1:
        return _store_parts(broker, request, deque(parts), broker.store.barrier)
    (batch,) = parts
    result = _stored(broker, batch)
    msg_ids, queue_id, command = _joined_ids(broker, result), batch.queue_id, request.command
    if broker.waits_for_store and batch.message.wait_store:
        begin_flush(broker)
        reply = _reply(queue_id, result, msg_ids.decode())
        return _stored_reply(broker, reply, result.physical_offset + result.size, broker.store.barrier)
    return broker.send_replies.frame(
        command.serialize_type, command.opaque, msg_ids, queue_id, result.queue_offset
    )


async def _store_parts(
    broker: BrokerContext, request: Request[SendHeader, bytes], parts: deque[Batch], barrier: Barrier | None
) -> SendReply | None:
    """Store a long batch, one part per turn, even if its sender disconnects.

    If a part is refused, the refusal is the reply, and earlier parts stay stored. Each part is freed in its
    turn, because freeing all at once takes too long; the reply with all message ids is as long, and is sent
    in parts.
    """
    pace, message, store = request.session.turns.pace(), parts[0].message, broker.store
    first = last = AppendResult(PUT_OK)
    msg_ids: list[bytes] = []
    with trio.CancelScope(shield=True):
        async with store.holding(message.topic, message.queue_id) as hold:
            while parts:
                part = parts.popleft()
                part.hold = hold
                try:
                    last = await store.when_ready(_store_part, broker, part)
                except Refusal as error:
                    return Reply(code=error.code, remark=error.remark)
                first = first if msg_ids else last
                msg_ids.append(_joined_ids(broker, last, b"," if msg_ids else b""))
                await pace.step()
    wait_for = last.physical_offset + last.size
    must_wait = broker.waits_for_store and message.wait_store
    if must_wait:
        begin_flush(broker)
    code = await _settled(broker, wait_for if must_wait else None, barrier)
    command = request.command
    head, *views = broker.send_replies.pieces(
        command.serialize_type, code, command.opaque, msg_ids, message.queue_id, first.queue_offset
    )
    request.session.respond(command, head, views)
    return None


def _store_part(broker: BrokerContext, part: Batch) -> AppendResult:
    if broker.topics.get(part.topic) is None:
        raise no_topic(part.topic)
    return _stored(broker, part)


def _stored(broker: BrokerContext, batch: Batch) -> AppendResult:
    """Store a batch or part and return the result. Raises Refusal if it is not stored."""
    result = put_batch(broker, batch)
    if result.status is not PUT_OK:
        raise put_refusal(broker, result.status)
    return result


def _joined_ids(broker: BrokerContext, result: AppendResult, begin: bytes = b"") -> bytes:
    """Return the message ids of a batch or part, preceded by `begin`."""
    return begin + joined_offset_msg_ids(broker.store_host, result.physical_offsets).encode()


async def _stored_reply(
    broker: BrokerContext, reply: SendReply, wait_for: int | None, barrier: Barrier | None
) -> SendReply:
    code = await _settled(broker, wait_for, barrier)
    return reply if code == ResponseCode.SUCCESS else replace(reply, code=code)


async def _settled(broker: BrokerContext, wait_for: int | None, barrier: Barrier | None) -> int:
    """Return the code for the reply, once the log is safely stored up to `wait_for` and `barrier` has
    returned."""
    code: int = ResponseCode.SUCCESS if wait_for is None else await safely_stored(broker, wait_for)
    if barrier is not None:
        await barrier()
    return code


def check_open(broker: BrokerContext) -> None:
    """Refuse sends before the time from which the broker accepts them."""
    opens = broker.config.start_accept_send_request_time_stamp
    if broker.now_ms() < opens:
        moment = datetime.fromtimestamp(min(opens, LAST_TIME) // 1000)
        until = f"{moment:%Y-%m-%d %H:%M:%S},{opens % 1000:03d}"
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"broker unable to service, until {until}")


def checked_topic(broker: BrokerContext, session: Session, header: SendHeader) -> TopicConfig:
    """Return the config of the topic, which is created if that is allowed. Raises Refusal otherwise."""
    config = broker.topics.get(header.topic)
    if config is None or broker.checked_topics.get(header.topic) is not config:
        config = _check_topic(broker, session, header)
    if header.queue_id >= config.write_queue_nums and header.queue_id >= config.read_queue_nums:
        remark = (
            f"request queueId[{header.queue_id}] is illegal, {describe_topic(config)} "
            f"Producer: {session.peer_text}"
        )
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    return config


def known_topic(broker: BrokerContext, session: Session, topic: str) -> TopicConfig:
    """Return the config of a topic, which is created like that of a send if that is allowed. Raises Refusal."""
    queues = broker.config.default_topic_queue_nums
    header = SendMessageRequestHeaderV2("", topic, SystemTopic.AUTO_CREATE, queues, -1, 0, 0, 0)
    return checked_topic(broker, session, header)


def _check_topic(broker: BrokerContext, session: Session, header: SendHeader) -> TopicConfig:
    topic = header.topic
    known = broker.topics.get(topic)
    if not broker.config.broker_permission & Perm.WRITE and known is not None and known.order:
        raise Refusal(ResponseCode.NO_PERMISSION, f"the broker[{broker.host}] sending message is forbidden")
    wrong = valid_topic(topic)
    if wrong is not None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, wrong)
    if is_closed_to_senders(topic) and topic != broker.config.msg_trace_topic_name:
        raise Refusal(ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")
    config = known or _create_topic(broker, session, header)
    if len(broker.checked_topics) >= CHECKED_TOPICS:
        broker.checked_topics.clear()
    if broker.config.broker_permission & Perm.WRITE:
        broker.checked_topics[topic] = config
    return config


def _create_topic(broker: BrokerContext, session: Session, header: SendHeader) -> TopicConfig:
    topic = header.topic
    is_retry = topic.startswith(RETRY_PREFIX)
    sys_flag = (UNIT_SUB if is_retry else UNIT) if header.unit_mode else 0
    config = broker.topics.inherit(
        topic, header.default_topic, header.default_topic_queue_nums, sys_flag=sys_flag
    )
    if config is None and is_retry:
        config, _ = broker.topics.ensure(topic, 1, sys_flag=sys_flag)
    if config is None:
        raise no_topic(topic)
    count_created(broker, session, partial(broker.topics.remove, topic))
    broker.topics_changed([config])
    broker.store.barrier = broker.topics_known
    return config


def _message(broker: BrokerContext, request: Request[SendHeader, bytes], config: TopicConfig) -> StoreMessage:
    header = request.header
    text = (header.properties or "").encode("utf-8", "replace")
    properties = decode_properties(text)
    topic, queue_id = header.topic, header.queue_id
    if queue_id < 0:
        queue_id = broker.rng.randrange(max(1, config.write_queue_nums))
    if topic.startswith(RETRY_PREFIX) and _is_exhausted(broker, request):
        topic, queue_id = _dead_letter_topic(broker, topic), 0
        delays = properties.keys() & {PropertyName.DELAY, *TIMERS}
        if delays:
            properties = {name: value for name, value in properties.items() if name not in delays}
            text = encode_properties(properties)
    if PropertyName.PRIORITY in properties and not header.batch:
        queue_id, properties, text = _by_priority(config, queue_id, properties, text)
    sys_flag = header.sys_flag
    if config.topic_filter_type == MULTI_TAG and topic == header.topic:
        sys_flag |= MessageSysFlag.MULTI_TAGS
    stored = stored_properties(text, properties, broker.own_properties, keeps_wait=header.batch)
    return StoreMessage(
        topic,
        queue_id,
        request.body,
        properties,
        stored,
        header.born_timestamp,
        request.session.packed_peer,
        header.flag,
        sys_flag,
        header.reconsume_times,
        wait_store=properties.get(WAIT, "true").lower() != "false",
    )


def _by_priority(
    config: TopicConfig, queue_id: int, properties: dict[str, str], text: bytes
) -> tuple[int, dict[str, str], bytes]:
    """Return the queue of a message with a priority, its properties and their text.

    The priority is the queue, as far as the topic has queues; a message of another type loses it (5.4).
    """
    wanted = priority(properties)
    if wanted >= 0:
        return max(0, min(wanted, config.write_queue_nums - 1)), properties, text
    properties = {name: value for name, value in properties.items() if name != PropertyName.PRIORITY}
    return queue_id, properties, encode_properties(properties)


def stored_properties(
    text: bytes, properties: dict[str, str], own: OwnProperties, *, keeps_wait: bool
) -> bytes:
    """Return the properties in stored form: with the broker's own, which are also added to `properties`, and
    without WAIT.

    Raises PropertiesTooLong if they have to be encoded again and are too long.
    """
    reader = TextReader()
    traits = reader.read(text, 0, len(text))
    properties.update(own.values)
    if not traits & (UNSOUND | OWN):
        return joined_text(text if keeps_wait else reader.without_wait(text), own.text)
    return encode_properties(
        {name: value for name, value in properties.items() if keeps_wait or name != WAIT}
    )


def _is_exhausted(broker: BrokerContext, request: Request[SendHeader, bytes]) -> bool:
    """Return True if a message that a consumer itself sends to the retry topic has used up its attempts."""
    header = request.header
    group = retry_group(broker, request.session, header.topic[len(RETRY_PREFIX) :])
    return header.reconsume_times >= retry_limit(group, header.max_reconsume_times, request.command.version)


def _dead_letter_topic(broker: BrokerContext, retry: str) -> str:
    topic = dlq_topic(retry[len(RETRY_PREFIX) :])
    config, made = broker.topics.ensure(topic, DLQ_QUEUES)
    if made:
        broker.topics_changed([config])
        broker.store.barrier = broker.topics_known
    return topic


# The hot path of SEND_MESSAGE (10) and SEND_MESSAGE_V2 (310): plain sends of one batch of frames are stored
# by one write; a send that came alone is a run of one.
#
# A plain send (`rmqcli.codec.core.sends`) goes to a queue of a topic that was checked before. `send` handles
# all others and refuses. Where the broker promises more than to have a message in memory, one task waits for
# all of a run.

HEADERS = SendMessageRequestHeaderV2, SendMessageRequestHeader
_TYPES: dict[int, type[Header]] = {
    RequestCode.SEND_MESSAGE: SendMessageRequestHeader,
    RequestCode.SEND_MESSAGE_V2: SendMessageRequestHeaderV2,
}


def send_run(broker: BrokerContext, session: Session, requests: Sequence[RemotingCommand]) -> int:
    """Store the leading plain sends of `requests`, and reply to them; return their number."""
    if not broker.takes_runs:
        return 0
    sends = begin_sends(broker, session)
    for request in requests:
        header = request.header or _header(request)
        if not isinstance(header, HEADERS) or not sends.take(request, header):
            break
    count = len(sends)
    if not count:
        return 0
    put_sends(broker, sends)
    if broker.waits_for_store:
        begin_flush(broker)
        session.spawn(_reply_when_safe, broker, session, sends)
    else:
        replies = broker.send_replies
        session.queue_reply(sends.replies(replies.head, replies.id_prefix))
    return count


def begin_sends(broker: BrokerContext, session: Session) -> Sends:
    """Return a run for plain sends of a connection, if `takes_runs`."""
    return Sends(
        broker.store.writer.begin_run(),
        partial(_queue_of, broker),
        broker.own_properties.text,
        session.packed_peer,
        broker.config.max_message_size,
        LONG_PROPERTIES,
        broker.waits_for_store,
    )


async def _reply_when_safe(broker: BrokerContext, session: Session, sends: Sends) -> None:
    code, replies = await safely_stored(broker, sends.run.end), broker.send_replies
    if code == ResponseCode.SUCCESS:
        session.queue_reply(sends.replies(replies.head, replies.id_prefix))
    else:
        for kind, opaque, offset, queue_id, queue_offset in sends.results():
            ids = [broker.offset_msg_id(offset).encode()]
            pieces = replies.pieces(SerializeType(kind), code, opaque, ids, queue_id, queue_offset)
            session.queue_reply(b"".join(pieces))
    session.flush()


def _queue_of(broker: BrokerContext, topic: str, queue_id: int) -> QueueRun | None:
    """Return an empty run of a queue for plain sends; None if a send to it is not plain and needs `send`."""
    config = broker.checked_topics.get(topic)
    if config is None or config is not broker.topics.get(topic) or config.topic_filter_type == MULTI_TAG:
        return None
    if topic.startswith(RETRY_PREFIX) or not 0 <= queue_id < config.write_queue_nums:
        return None
    return broker.store.writer.run_of(topic, queue_id)


def _header(request: RemotingCommand) -> Header | None:
    """Decode the header of a send without one, such as a signed send; return None if the request is not a
    send."""
    header_type = _TYPES.get(request.code)
    try:
        return None if header_type is None else from_ext(header_type, request.ext_fields)
    except HeaderError:
        return None
