"""END_TRANSACTION (37) and RESUME_CHECK_HALF_MESSAGE (323) (Java classes `EndTransactionProcessor`, `AdminBrokerProcessor`).

A commit stores the real message first and the op message behind it: whoever dies in between is asked again, and the message
may come twice, but is never lost. Clients end transactions one-way; replies are for those that do not.
"""

from __future__ import annotations

from broker.context import BrokerContext
from broker.errors import Refusal
from broker.handlers.common import ok
from broker.net.session import Session
from broker.services.put import put
from broker.services.transactions import end_half, final_message, half_again
from broker.store.values import PutStatus
from codec.codes import MessageSysFlag, ResponseCode
from codec.errors import CodecError
from codec.headers.base import from_ext
from codec.headers.transactions import EndTransactionRequestHeader, ResumeCheckHalfMessageRequestHeader
from codec.ids import parse_offset_msg_id
from codec.message import MessageExt
from codec.names import SystemTopic
from codec.properties import PropertyName
from codec.remoting.frame import RemotingCommand
from codec.store.record import decode_record

__all__ = ["end_transaction", "resume_check"]

COMMIT = MessageSysFlag.TRANSACTION_COMMIT
ROLLBACK = MessageSysFlag.TRANSACTION_ROLLBACK
ILLEGAL = (
    "The message is illegal, maybe msg body or properties length not matched. "
    "msg body length limit {limit}B, msg properties length limit 32KB."
)
NOT_FOUND = "Find prepared transaction message failed"
NOT_PUT = {
    PutStatus.CREATE_MAPEDFILE_FAILED: (ResponseCode.SYSTEM_ERROR, "Create mapped file failed."),
    PutStatus.MESSAGE_ILLEGAL: (ResponseCode.MESSAGE_ILLEGAL, ILLEGAL),
    PutStatus.PROPERTIES_SIZE_EXCEEDED: (ResponseCode.MESSAGE_ILLEGAL, ILLEGAL),
    PutStatus.SERVICE_NOT_AVAILABLE: (ResponseCode.SERVICE_NOT_AVAILABLE, "Service not available now."),
}
"""Response code and remark of a commit that stored nothing; they are not those of a send."""
NOT_RESUMED = "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed."
NOT_RESUMABLE = "Exception was thrown when putting message back to RMQ_SYS_TRANS_HALF_TOPIC."
RESUMABLE = frozenset((SystemTopic.TRANS_CHECK_MAX_TIME, SystemTopic.TRANS_HALF))


def end_transaction(
    broker: BrokerContext, _session: Session, request: RemotingCommand
) -> RemotingCommand | None:
    """37: commits or rolls back a half message. A producer that does not know yet is not answered."""
    header = from_ext(EndTransactionRequestHeader, request.ext_fields)
    if broker.is_slave:
        raise Refusal(ResponseCode.SLAVE_NOT_AVAILABLE, "")
    if header.commit_or_rollback not in (COMMIT, ROLLBACK):
        return None
    half = _half(broker, header)
    if header.commit_or_rollback == COMMIT:
        _commit(broker, half)
    end_half(broker, half.queue_offset)
    return ok(request)


def _half(broker: BrokerContext, header: EndTransactionRequestHeader) -> MessageExt:
    half = _message_at(broker, header.commit_log_offset)
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


def _message_at(broker: BrokerContext, offset: int) -> MessageExt | None:
    record = broker.store.record_at(offset)
    try:
        return decode_record(record) if record is not None else None
    except CodecError:  # an offset that a client made up is in the middle of something
        return None


def _commit(broker: BrokerContext, half: MessageExt) -> None:
    message = final_message(half)
    if message is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, NOT_FOUND)
    status = put(broker, message).status
    if status is not PutStatus.PUT_OK:
        code, remark = NOT_PUT.get(status, (ResponseCode.SYSTEM_ERROR, "UNKNOWN_ERROR"))
        raise Refusal(code, remark.replace("{limit}", str(broker.config.max_message_size)))


def resume_check(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """323: a half message that was given up is checked again, its attempts counted from 0."""
    header = from_ext(ResumeCheckHalfMessageRequestHeader, request.ext_fields)
    try:
        _, _, offset = parse_offset_msg_id(header.msg_id or "")
    except CodecError:
        raise Refusal(ResponseCode.SYSTEM_ERROR, NOT_RESUMABLE) from None
    message = _message_at(broker, offset)
    if message is None or message.topic not in RESUMABLE:
        raise Refusal(ResponseCode.SYSTEM_ERROR, NOT_RESUMABLE)
    properties = {**message.properties, PropertyName.TRANSACTION_CHECK_TIMES: "0"}
    if half_again(broker, message, properties).status is not PutStatus.PUT_OK:
        raise Refusal(ResponseCode.SYSTEM_ERROR, NOT_RESUMED)
    return ok(request)
