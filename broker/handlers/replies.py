"""SEND_REPLY_MESSAGE (324, 325): the answer to a request message goes to who asked (Java class `ReplyMessageProcessor`).

The requester is the producer connection whose client id is in the property REPLY_TO_CLIENT. It gets the reply as
PUSH_REPLY_MESSAGE_TO_CLIENT (326) and has 10 s to answer. Whether that succeeds is the result of the request; whether the
message could be stored in the reply topic, too, only decides about the ids in the answer. It is stored before it is pushed,
so that a replier who goes away meanwhile leaves it behind.
"""

from __future__ import annotations

import logging

from broker.context import BrokerContext
from broker.errors import Refusal, RemoteClosed, RemoteTimeout
from broker.handlers.send import check_open, checked_topic
from broker.net.session import Session
from broker.services.put import put
from broker.store.values import AppendResult, PutStatus, StoreMessage
from codec.codes import MessageSysFlag, RequestCode, ResponseCode
from codec.errors import CodecError, LocalProtocolError
from codec.hashing import tags_code
from codec.headers.base import from_ext, to_ext
from codec.headers.send import ReplyMessageRequestHeader, SendMessageRequestHeader, SendMessageRequestHeaderV2
from codec.ids import pack_host
from codec.properties import PropertyName, decode_properties, encode_properties
from codec.remoting.frame import RemotingCommand

__all__ = ["PUSH_SECONDS", "send_reply"]

PUSH_SECONDS = 10
KEPT_FLAGS = MessageSysFlag.COMPRESSED | MessageSysFlag.COMPRESSION_MASK
"""Of the producer's sysFlag only what is needed to read the body is stored."""

SendHeader = SendMessageRequestHeader | SendMessageRequestHeaderV2

_log = logging.getLogger(__name__)


def send_reply(broker: BrokerContext, session: Session, request: RemotingCommand) -> None:
    """324, 325: stores the reply and pushes it to the requester; answered when that one has answered."""
    try:
        header = _header(request)
        if broker.config.start_accept_send_request_time_stamp:
            check_open(broker)
        queue_id = _queue_id(broker, session, header)
    except Refusal as refusal:
        raise Refusal(refusal.code, refusal.remark, broker.reply_ext) from None
    except CodecError as error:
        remark = f"{type(error).__name__}: {error}"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark, broker.reply_ext) from None
    ext = {**broker.reply_ext, "queueId": str(queue_id), "msgId": "0", "queueOffset": "0"}
    stored = _store(broker, session, request, header, queue_id)
    if stored is not None:
        ext["msgId"] = f"{broker.id_prefix}{stored.physical_offset:016X}"
        ext["queueOffset"] = str(stored.queue_offset)
    session.spawn(_answer, broker, session, request, header, ext)


def _header(request: RemotingCommand) -> SendHeader:
    if request.code == RequestCode.SEND_REPLY_MESSAGE:
        return from_ext(SendMessageRequestHeader, request.ext_fields)
    return from_ext(SendMessageRequestHeaderV2, request.ext_fields)


def _queue_id(broker: BrokerContext, session: Session, header: SendHeader) -> int:
    config = checked_topic(broker, session, header)
    if header.queue_id >= 0:
        return header.queue_id
    return broker.rng.randrange(max(1, config.write_queue_nums))


def _store(
    broker: BrokerContext, session: Session, request: RemotingCommand, header: SendHeader, queue_id: int
) -> AppendResult | None:
    """Where the reply was stored, its properties as the replier sent them; None when it was not."""
    if not broker.config.store_reply_message_enable:
        return None
    text = (header.properties or "").encode("utf-8", "replace")
    properties = decode_properties(text)
    message = StoreMessage(
        topic=header.topic,
        queue_id=queue_id,
        body=request.body,
        properties=properties,
        properties_text=text,
        born_timestamp=header.born_timestamp,
        born_host=pack_host(*session.peer),
        flag=header.flag,
        sys_flag=header.sys_flag & KEPT_FLAGS | broker.store_host_flag,
        reconsume_times=header.reconsume_times or 0,
        tags_code=tags_code(properties.get(PropertyName.TAGS)),
    )
    try:
        result = put(broker, message)
    except LocalProtocolError as error:
        _log.warning("a reply message of %s is not stored: %s", session.peer_text, error)
        return None
    if result.status is not PutStatus.PUT_OK:
        _log.warning("a reply message of %s is not stored: %s", session.peer_text, result.status.name)
        return None
    return result


async def _answer(
    broker: BrokerContext,
    session: Session,
    request: RemotingCommand,
    header: SendHeader,
    ext: dict[str, str],
) -> None:
    failure = await _push(broker, session, header, bytes(request.body))
    code = ResponseCode.SUCCESS if failure is None else ResponseCode.SYSTEM_ERROR
    session.respond(request, request.reply(code, failure, ext))


async def _push(broker: BrokerContext, session: Session, header: SendHeader, body: bytes) -> str | None:
    """None when the requester took the reply, else why not."""
    properties = decode_properties(header.properties or "")
    requester = properties.get(PropertyName.REPLY_TO_CLIENT)
    if requester is None:
        return f"reply message properties[{PropertyName.REPLY_TO_CLIENT}] is null"
    client = broker.producers.find(requester)
    if client is None:
        return f"push reply message fail, channel of <{requester}> not found."
    failed = f"push reply message to {requester}fail."
    try:
        ext = to_ext(_pushed(broker, session, header, properties))
        code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
        answer = await client.channel.request(RemotingCommand(code, ext_fields=ext, body=body), PUSH_SECONDS)
    except (RemoteTimeout, RemoteClosed, LocalProtocolError) as error:
        _log.info("%s %s", failed, error)
        return failed
    return None if answer.code == ResponseCode.SUCCESS else failed


def _pushed(
    broker: BrokerContext, session: Session, header: SendHeader, properties: dict[str, str]
) -> ReplyMessageRequestHeader:
    now = broker.now_ms()
    properties[PropertyName.PUSH_REPLY_TIME] = str(now)
    return ReplyMessageRequestHeader(
        producer_group=header.producer_group,
        topic=header.topic,
        default_topic=header.default_topic,
        default_topic_queue_nums=header.default_topic_queue_nums,
        queue_id=header.queue_id,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        flag=header.flag,
        born_host=session.peer_text,
        store_host=broker.address,
        store_timestamp=now,
        properties=encode_properties(properties).decode(),
        reconsume_times=header.reconsume_times,
        unit_mode=header.unit_mode,
    )
