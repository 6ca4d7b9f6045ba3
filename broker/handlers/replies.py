"""SEND_REPLY_MESSAGE (324, 325), which forwards the reply to a request message to the requester
(`ReplyMessageProcessor`).

The requester is the producer connection whose client id is in the property REPLY_TO_CLIENT. It receives the
reply as PUSH_REPLY_MESSAGE_TO_CLIENT (326) and has 10 s to respond, which determines the result of the
request. The message is also stored in the reply topic, and before it is pushed, so that it survives a replier
that disconnects; a failure to store it only leaves the ids in the response empty.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import Any

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import RemoteClosed, RemoteTimeout
from rmqcli.broker.handlers.common import SendHeader
from rmqcli.broker.handlers.send import check_open, checked_topic
from rmqcli.broker.net.handling import Reply, Request, command_of
from rmqcli.broker.net.session import Session
from rmqcli.broker.services.put import put
from rmqcli.broker.store.values import AppendResult, PutStatus, StoreMessage
from rmqcli.codec.codes import MessageSysFlag, ResponseCode
from rmqcli.codec.errors import LocalProtocolError
from rmqcli.codec.headers.send import ReplyMessageRequestHeader, SendMessageResponseHeader
from rmqcli.codec.operations.messages import PUSH_REPLY_MESSAGE_TO_CLIENT
from rmqcli.codec.properties import decode_properties, encode_properties, sound_text
from rmqcli.codec.property_names import PropertyName

PUSH_SECONDS = 10
KEPT_FLAGS = MessageSysFlag.COMPRESSED | MessageSysFlag.COMPRESSION_MASK
"""The bits of the producer's sysFlag that are stored: those needed to read the body."""

_log = logging.getLogger(__name__)


def send_reply(
    broker: BrokerContext, request: Request[SendHeader, bytes]
) -> Coroutine[Any, Any, Reply[SendMessageResponseHeader, None]]:
    """Store the reply and push it to the requester (codes 324, 325); respond after the requester."""
    if broker.config.start_accept_send_request_time_stamp:
        check_open(broker)
    queue_id = _queue_id(broker, request.session, request.header)
    stored = _store(broker, request, queue_id)
    if stored is None:
        ids = SendMessageResponseHeader(msg_id="0", queue_id=queue_id, queue_offset=0)
    else:
        msg_id = broker.offset_msg_id(stored.physical_offset)
        ids = SendMessageResponseHeader(msg_id=msg_id, queue_id=queue_id, queue_offset=stored.queue_offset)
    return _pushed_reply(broker, request, ids)


def _queue_id(broker: BrokerContext, session: Session, header: SendHeader) -> int:
    config = checked_topic(broker, session, header)
    if header.queue_id >= 0:
        return header.queue_id
    return broker.rng.randrange(max(1, config.write_queue_nums))


def _store(broker: BrokerContext, request: Request[SendHeader, bytes], queue_id: int) -> AppendResult | None:
    """Store the reply with the properties that the replier sent; return None if that fails or is turned
    off."""
    header, session = request.header, request.session
    if not broker.config.store_reply_message_enable:
        return None
    text = (header.properties or "").encode("utf-8", "replace")
    properties = decode_properties(text)
    message = StoreMessage(
        topic=header.topic,
        queue_id=queue_id,
        body=request.body,
        properties=properties,
        properties_text=sound_text(text, properties),
        born_timestamp=header.born_timestamp,
        born_host=session.packed_peer,
        flag=header.flag,
        sys_flag=header.sys_flag & KEPT_FLAGS,
        reconsume_times=header.reconsume_times or 0,
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


async def _pushed_reply(
    broker: BrokerContext, request: Request[SendHeader, bytes], ids: SendMessageResponseHeader
) -> Reply[SendMessageResponseHeader, None]:
    failure = await _push(broker, request.session, request.header, request.body)
    code = ResponseCode.SUCCESS if failure is None else ResponseCode.SYSTEM_ERROR
    return Reply(ids, code=code, remark=failure)


async def _push(broker: BrokerContext, session: Session, header: SendHeader, body: bytes) -> str | None:
    """Push the reply to the requester; return None, or the remark of a failure."""
    properties = decode_properties(header.properties or "")
    requester = properties.get(PropertyName.REPLY_TO_CLIENT)
    if requester is None:
        return f"reply message properties[{PropertyName.REPLY_TO_CLIENT}] is null"
    client = broker.producers.find(requester)
    if client is None:
        return f"push reply message fail, channel of <{requester}> not found."
    failed = f"push reply message to {requester}fail."
    try:
        push = command_of(PUSH_REPLY_MESSAGE_TO_CLIENT, _pushed(broker, session, header, properties), body)
        answer = await client.channel.request(push, PUSH_SECONDS)
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
