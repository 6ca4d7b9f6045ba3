"""END_TRANSACTION (37) and RESUME_CHECK_HALF_MESSAGE (323) (Java classes `EndTransactionProcessor`,
`AdminBrokerProcessor`).

A commit stores the real message first and then the op message. After a crash between the two, the transaction
is checked again, so the message may arrive twice but is never lost. An op message that the disk refuses is
kept in memory and stored later. Clients end transactions one-way; other requests get a reply.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import Any

import trio

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import NotReady, Refusal
from rmqcli.broker.handlers.common import message_at, put_refusal
from rmqcli.broker.net.handling import Reply, Request
from rmqcli.broker.services.put import PUT_CODES, put
from rmqcli.broker.services.transactions import end_half, final_message, half_again, record_ends
from rmqcli.broker.store.values import PutStatus
from rmqcli.codec.codes import MessageSysFlag, ResponseCode
from rmqcli.codec.errors import CodecError
from rmqcli.codec.headers.transactions import (
    EndTransactionRequestHeader,
    EndTransactionResponseHeader,
    ResumeCheckHalfMessageRequestHeader,
)
from rmqcli.codec.ids import parse_offset_msg_id
from rmqcli.codec.message import MessageExt
from rmqcli.codec.names import SystemTopic
from rmqcli.codec.operations.operation import NOT_SET
from rmqcli.codec.property_names import PropertyName

COMMIT = MessageSysFlag.TRANSACTION_COMMIT
ROLLBACK = MessageSysFlag.TRANSACTION_ROLLBACK
ILLEGAL = (
    "The message is illegal, maybe msg body or properties length not matched. "
    "msg body length limit {limit}B, msg properties length limit 32KB."
)
NOT_FOUND = "Find prepared transaction message failed"
NOT_PUT = {
    **PUT_CODES,
    PutStatus.CREATE_MAPEDFILE_FAILED: (ResponseCode.SYSTEM_ERROR, "Create mapped file failed."),
    PutStatus.MESSAGE_ILLEGAL: (ResponseCode.MESSAGE_ILLEGAL, ILLEGAL),
    PutStatus.PROPERTIES_SIZE_EXCEEDED: (ResponseCode.MESSAGE_ILLEGAL, ILLEGAL),
    PutStatus.SERVICE_NOT_AVAILABLE: (ResponseCode.SERVICE_NOT_AVAILABLE, "Service not available now."),
}
"""Response code and remark of a commit that stored nothing; those of a send differ."""
NOT_RESUMED = "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed."
NOT_RESUMABLE = "Exception was thrown when putting message back to RMQ_SYS_TRANS_HALF_TOPIC."
RESUMABLE = frozenset((SystemTopic.TRANS_CHECK_MAX_TIME, SystemTopic.TRANS_HALF))

_log = logging.getLogger(__name__)


def end_transaction(
    broker: BrokerContext, request: Request[EndTransactionRequestHeader, None]
) -> (
    Reply[EndTransactionResponseHeader, None]
    | Coroutine[Any, Any, Reply[EndTransactionResponseHeader, None]]
    | None
):
    """Commit or roll back a half message (code 37). A producer that has not decided yet gets no reply."""
    header = request.header
    if broker.is_slave:
        raise Refusal(ResponseCode.SLAVE_NOT_AVAILABLE, NOT_SET)
    if header.commit_or_rollback not in (COMMIT, ROLLBACK):
        return None
    half = _half(broker, header)
    if header.commit_or_rollback == COMMIT:
        _commit(broker, half)
    try:
        end_half(broker, half.queue_offset)
    except NotReady:  # must not be raised: handling the request again would store the message twice
        return _record_later(broker)
    return Reply()


async def _record_later(broker: BrokerContext) -> Reply[EndTransactionResponseHeader, None]:
    with trio.CancelScope(shield=True):  # the message is stored already, even if the producer disconnects now
        try:
            await broker.store.when_ready(record_ends, broker)
        except OSError as error:
            _log.warning("the end of a transaction is not stored yet: %s", error)
    return Reply()


def _half(broker: BrokerContext, header: EndTransactionRequestHeader) -> MessageExt:
    half = message_at(broker, header.commit_log_offset)
    if half is None or half.topic != SystemTopic.TRANS_HALF:
        raise Refusal(ResponseCode.SYSTEM_ERROR, NOT_FOUND)
    wrong = (
        (half.properties.get(PropertyName.PGROUP) != header.producer_group, "The producer group wrong"),
        (half.queue_offset != header.tran_state_table_offset, "The transaction state table offset wrong"),
        (half.commit_log_offset != header.commit_log_offset, "The commit log offset wrong"),
    )
    for is_wrong, remark in wrong:
        if is_wrong:
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    return half


def _commit(broker: BrokerContext, half: MessageExt) -> None:
    message = final_message(half)
    if message is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, NOT_FOUND)
    status = put(broker, message).status
    if status is not PutStatus.PUT_OK:
        raise put_refusal(broker, status, NOT_PUT)


def resume_check(
    broker: BrokerContext, request: Request[ResumeCheckHalfMessageRequestHeader, None]
) -> Reply[None, None]:
    """Check an abandoned half message again, counting its attempts from 0 (code 323)."""
    try:
        _, _, offset = parse_offset_msg_id(request.header.msg_id or "")
    except CodecError:
        raise Refusal(ResponseCode.SYSTEM_ERROR, NOT_RESUMABLE) from None
    message = message_at(broker, offset)
    if message is None or message.topic not in RESUMABLE:
        raise Refusal(ResponseCode.SYSTEM_ERROR, NOT_RESUMABLE)
    properties = {**message.properties, PropertyName.TRANSACTION_CHECK_TIMES: "0"}
    if half_again(broker, message, properties).status is not PutStatus.PUT_OK:
        raise Refusal(ResponseCode.SYSTEM_ERROR, NOT_RESUMED)
    return Reply()
