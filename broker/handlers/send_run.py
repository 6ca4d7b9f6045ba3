"""The hot path of SEND_MESSAGE (10) and SEND_MESSAGE_V2 (310): plain sends of one batch of frames are stored
by one write.

A plain send needs no decision: one message, to a queue of a topic that was checked before, without a
transaction, a delay, several tags or a dead-letter count. `send` handles all others and refuses. Where the
broker promises more than to have a message in memory, one task waits for all of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.context import BrokerContext
from broker.handlers.send import MULTI_TAG
from broker.net.session import Session
from broker.services.put import begin_flush, put_run, safely_stored
from broker.store.values import StoreMessage
from codec.codes import RequestCode, ResponseCode, SerializeType
from codec.core.text import TextReader, joined_text
from codec.errors import HeaderError
from codec.headers.base import Header, from_ext
from codec.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from codec.names import RETRY_PREFIX
from codec.remoting.frame import RemotingCommand

HEADERS = SendMessageRequestHeaderV2, SendMessageRequestHeader
_TYPES: dict[int, type[Header]] = {
    RequestCode.SEND_MESSAGE: SendMessageRequestHeader,
    RequestCode.SEND_MESSAGE_V2: SendMessageRequestHeaderV2,
}


def send_run(broker: BrokerContext, session: Session, requests: Sequence[RemotingCommand]) -> int:
    """Stores the plain sends at the beginning of `requests`, and replies to them; returns their number."""
    if not broker.takes_runs:
        return 0
    messages = _plain(broker, session, requests)
    results = put_run(broker, messages) if messages else []
    if not results:
        return 0
    if broker.waits_for_store:
        begin_flush(broker)
        sent = [
            _Sent(
                request.serialize_type,
                request.opaque,
                result.physical_offset,
                message.queue_id,
                result.queue_offset,
            )
            for request, message, result in zip(requests, messages, results, strict=False)
        ]
        end = results[-1].physical_offset + results[-1].size
        session.spawn(_reply_when_safe, broker, session, sent, end)
    else:
        frame_of = broker.send_replies.by_kind
        session.queue_replies(
            [
                frame_of[request.serialize_type](
                    request.opaque, result.physical_offset, message.queue_id, result.queue_offset
                )
                for request, message, result in zip(requests, messages, results, strict=False)
            ]
        )
    return len(results)


class _Sent(NamedTuple):
    """The contents of the reply to a send, the form of it, and the number of the request."""

    kind: SerializeType
    opaque: int
    physical_offset: int
    queue_id: int
    queue_offset: int


async def _reply_when_safe(broker: BrokerContext, session: Session, sent: Sequence[_Sent], end: int) -> None:
    code, replies = await safely_stored(broker, end), broker.send_replies
    if code == ResponseCode.SUCCESS:
        frames = [replies.by_kind[kind](*rest) for kind, *rest in sent]
    else:
        frames = [
            b"".join(
                replies.pieces(
                    one.kind,
                    code,
                    one.opaque,
                    [broker.offset_msg_id(one.physical_offset).encode()],
                    one.queue_id,
                    one.queue_offset,
                )
            )
            for one in sent
        ]
    session.queue_replies(frames)
    session.flush()


def _plain(
    broker: BrokerContext, session: Session, requests: Sequence[RemotingCommand]
) -> list[StoreMessage]:
    reader, own = TextReader(), broker.own_properties.text
    born_host, must_wait = session.packed_peer, broker.waits_for_store
    messages: list[StoreMessage] = []
    known, queues = "", 0
    for request in requests:
        header = request.header or _header(request)
        if not isinstance(header, HEADERS) or request.flag or header.batch:
            break
        topic, queue_id = header.topic, header.queue_id
        if topic is not known:
            known, queues = topic, _open_queues(broker, topic)
        if not 0 <= queue_id < queues:
            break
        text = (header.properties or "").encode("utf-8", "replace")
        if reader.read(text, 0, len(text)) or (must_wait and not reader.waits(text)):
            break
        messages.append(
            StoreMessage(
                topic,
                queue_id,
                request.body,
                {},
                joined_text(reader.without_wait(text), own),
                header.born_timestamp,
                born_host,
                header.flag,
                header.sys_flag,
                header.reconsume_times,
            )
        )
    return messages


def _header(request: RemotingCommand) -> Header | None:
    """Return the header of a request that was not read into one, such as a signed one; None if it is not a send's."""
    header_type = _TYPES.get(request.code)
    try:
        return None if header_type is None else from_ext(header_type, request.ext_fields)
    except HeaderError:
        return None


def _open_queues(broker: BrokerContext, topic: str) -> int:
    """The number of queues for plain sends of a topic that was checked; 0 if it needs a decision."""
    config = broker.checked_topics.get(topic)
    if config is None or config is not broker.topics.get(topic):
        return 0
    if config.topic_filter_type == MULTI_TAG or topic.startswith(RETRY_PREFIX):
        return 0
    return config.write_queue_nums
