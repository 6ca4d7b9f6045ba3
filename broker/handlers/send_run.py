"""The hot path of SEND_MESSAGE (10) and SEND_MESSAGE_V2 (310): plain sends of one batch of frames are stored
by one write; one that came alone is a run of one.

A plain send (`codec.core.sends`) goes to a queue of a topic that was checked before. `send` handles all
others and refuses. Where the broker promises more than to have a message in memory, one task waits for all of
a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from broker.context import BrokerContext
from broker.handlers.send import MULTI_TAG
from broker.net.session import Session
from broker.services.put import begin_flush, put_sends, safely_stored
from broker.store.batches import LONG_PROPERTIES
from codec.codes import RequestCode, ResponseCode, SerializeType
from codec.core.run import QueueRun
from codec.core.sends import Sends
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
    """Store the plain sends at the beginning of `requests`, and reply to them; return their number."""
    if not broker.takes_runs:
        return 0
    sends = Sends(
        broker.store.writer.begin_run(),
        partial(_queue_of, broker),
        broker.own_properties.text,
        session.packed_peer,
        broker.config.max_message_size,
        LONG_PROPERTIES,
        broker.waits_for_store,
    )
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
    """Return no messages yet of a queue for plain sends; None if one of them needs a decision."""
    config = broker.checked_topics.get(topic)
    if config is None or config is not broker.topics.get(topic) or config.topic_filter_type == MULTI_TAG:
        return None
    if topic.startswith(RETRY_PREFIX) or not 0 <= queue_id < config.write_queue_nums:
        return None
    return broker.store.writer.run_of(topic, queue_id)


def _header(request: RemotingCommand) -> Header | None:
    """Return the header of a request that was not read into one, such as a signed one; None if it is not a send's."""
    header_type = _TYPES.get(request.code)
    try:
        return None if header_type is None else from_ext(header_type, request.ext_fields)
    except HeaderError:
        return None
