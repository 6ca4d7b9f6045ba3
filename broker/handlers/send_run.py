"""The hot path of SEND_MESSAGE (10) and SEND_MESSAGE_V2 (310): plain sends of one batch of frames are stored
by one write.

A plain send needs neither a decision nor a wait: one message, to a queue of a topic that was checked
before, without a transaction, a delay, several tags or a dead-letter count, with ASYNC_FLUSH. `send`
handles all others and refuses.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.context import BrokerContext
from broker.handlers.plain_properties import PlainTexts
from broker.handlers.send import MULTI_TAG
from broker.net.session import Session
from broker.services.put import put_run
from broker.store.values import StoreMessage
from codec.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from codec.names import RETRY_PREFIX
from codec.remoting.frame import RemotingCommand

HEADERS = SendMessageRequestHeaderV2, SendMessageRequestHeader


def send_run(
    broker: BrokerContext, texts: PlainTexts, session: Session, requests: Sequence[RemotingCommand]
) -> list[bytes]:
    """Stores the plain sends at the beginning of `requests`; the frames of their replies."""
    if not broker.takes_runs:
        return []
    texts.follow(broker.own_properties)
    messages = _plain(broker, texts, session, requests)
    if not messages:
        return []
    frame_of = broker.send_replies.by_kind
    return [
        frame_of[request.serialize_type](
            request.opaque, result.physical_offset, message.queue_id, result.queue_offset
        )
        for request, message, result in zip(requests, messages, put_run(broker, messages), strict=False)
    ]


def _plain(
    broker: BrokerContext, texts: PlainTexts, session: Session, requests: Sequence[RemotingCommand]
) -> list[StoreMessage]:
    read, born_host = texts.read, session.packed_peer
    messages: list[StoreMessage] = []
    known, queues = "", 0
    for request in requests:
        header = request.header
        if not isinstance(header, HEADERS) or request.flag or header.batch:
            break
        topic, queue_id = header.topic, header.queue_id
        if topic is not known:
            known, queues = topic, _open_queues(broker, topic)
        if not 0 <= queue_id < queues:
            break
        plain = read(header.properties or "")
        if plain is None:
            break
        stored, code, properties = plain
        messages.append(
            StoreMessage(
                topic,
                queue_id,
                request.body,
                properties,
                stored,
                header.born_timestamp,
                born_host,
                header.flag,
                header.sys_flag,
                header.reconsume_times,
                0,
                code,
            )
        )
    return messages


def _open_queues(broker: BrokerContext, topic: str) -> int:
    """The number of queues for plain sends of a topic that was checked; 0 if it needs a decision."""
    config = broker.checked_topics.get(topic)
    if config is None or config is not broker.topics.get(topic):
        return 0
    if config.topic_filter_type == MULTI_TAG or topic.startswith(RETRY_PREFIX):
        return 0
    return config.write_queue_nums
