"""The records of a transaction (Java `TransactionalMessageBridge`, `EndTransactionProcessor`).

* half: queue 0 of RMQ_SYS_TRANS_HALF_TOPIC; the real topic and queue are in properties. It has no transaction
  bits, so that it gets a queue offset. A delay level takes effect at the commit.
* op: queue 0 of RMQ_SYS_TRANS_OP_HALF_TOPIC, tag `d`; the body is the queue offset of the half message in
  decimal. 5.x writes several, each followed by a comma.
* commit: the half message in its real queue, with the commit bits and the commit-log offset of the half
  message.
* TRANS_CHECK_MAX_TIME_TOPIC, 1 queue: half messages that were given up.

Stored properties keep all names: a committed message still has TRAN_MSG, REAL_TOPIC and REAL_QID.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from itertools import islice

import trio

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import Refusal
from rmqcli.broker.services.put import ensure_topic, hide, own_message, put, real_place, restored
from rmqcli.broker.store.values import AppendResult, PutStatus, StoreMessage
from rmqcli.codec.codes import MessageSysFlag, ResponseCode
from rmqcli.codec.message import MessageExt
from rmqcli.codec.names import SystemTopic
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.property_names import PropertyName, delay_level

HALF_QUEUE = 0
OP_TAG = "d"
ENDS_AT_ONCE = 2
"""Op messages that are written in one call: the two for a half message and its newest copy."""

P = PropertyName
MASK = MessageSysFlag.TRANSACTION_MASK
NEVER_NORMAL = (MessageSysFlag.TRANSACTION_PREPARED, MessageSysFlag.TRANSACTION_ROLLBACK)

_log = logging.getLogger(__name__)


def prepare(broker: BrokerContext, message: StoreMessage, *, is_batch: bool) -> None:
    """Turn a message that requests a transaction into a half message. Raises Refusal if it is invalid or
    transactions are turned off.

    A retried message (with attempts and a delay level) keeps TRAN_MSG from its first send, and is stored as a
    normal message.
    """
    properties = message.properties
    requested = properties.get(P.TRAN_MSG, "").lower() == "true"
    if requested and message.reconsume_times > 0 and delay_level(properties) > 0:
        message.sys_flag &= ~MASK
        return
    flagged = message.sys_flag & MASK in NEVER_NORMAL
    if not requested and not flagged:
        return
    if broker.config.reject_transaction_message:
        remark = f"the broker[{broker.host}] sending transaction message is forbidden"
        raise Refusal(ResponseCode.NO_PERMISSION, remark)
    if is_batch or not requested:
        what = "a batch" if is_batch else "a message without the property TRAN_MSG"
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"{what} cannot be a transaction message")
    hide(message, SystemTopic.TRANS_HALF, HALF_QUEUE)
    message.sys_flag &= ~MASK
    ensure_topic(broker, SystemTopic.TRANS_HALF)


def half_again(broker: BrokerContext, half: MessageExt, properties: dict[str, str]) -> AppendResult:
    """Copy a half message to the end of the half queue. Raises LocalProtocolError if its properties are too
    long."""
    return _put_system(broker, half, properties, SystemTopic.TRANS_HALF)


def retire(broker: BrokerContext, half: MessageExt, properties: dict[str, str]) -> AppendResult:
    """Copy an abandoned half message to TRANS_CHECK_MAX_TIME_TOPIC. Raises LocalProtocolError like
    `half_again`.
    """
    return _put_system(broker, half, properties, SystemTopic.TRANS_CHECK_MAX_TIME)


def final_message(half: MessageExt) -> StoreMessage | None:
    """Return the message that a commit stores; None if the half message has no valid topic and queue."""
    properties = dict(half.properties)
    place = real_place(properties)
    if place is None:
        return None
    message = restored(half, properties, encode_properties(properties))
    message.topic, message.queue_id = place
    message.sys_flag = half.sys_flag & ~MASK | MessageSysFlag.TRANSACTION_COMMIT
    message.prepared_transaction_offset = half.commit_log_offset
    for name in (P.TRAN_MSG, P.REAL_TOPIC, P.REAL_QID):
        properties.pop(name, None)
    return message


def end_half(broker: BrokerContext, queue_offset: int) -> None:
    """End a half message, given by its offset in the half queue, and its newest copy: write their op
    messages."""
    for offset in (queue_offset, broker.half_copies.newest(queue_offset)):
        broker.unrecorded_ends[offset] = None
    record_ends(broker)


def record_ends(broker: BrokerContext) -> bool:
    """Write the first of the op messages that are not stored yet. Return False if the store refuses one.

    Op messages that are refused, or wait for the disk (NotReady), are written by a later call: a half message
    that has ended but has no op message would be checked, and perhaps committed again.
    """
    ends = broker.unrecorded_ends
    for offset in list(islice(ends, ENDS_AT_ONCE)):
        properties: dict[str, str] = {P.WAIT: "true", P.TAGS: OP_TAG}
        operation = own_message(broker, SystemTopic.TRANS_OP_HALF, str(offset).encode(), properties)
        if put(broker, operation).status is not PutStatus.PUT_OK:
            return False
        ends.pop(offset, None)
    return True


async def record_all_ends(broker: BrokerContext) -> None:
    """Write the remaining op messages, before the store closes, if it accepts them."""
    ends = broker.unrecorded_ends
    with suppress(OSError):
        are_taken = True
        while ends and are_taken:
            are_taken = await broker.store.when_ready(record_ends, broker)
            await trio.lowlevel.checkpoint()
    if ends:
        _log.warning("half messages whose end is not stored, and which will be checked again: %d", len(ends))


def _put_system(
    broker: BrokerContext, half: MessageExt, properties: dict[str, str], topic: str
) -> AppendResult:
    ensure_topic(broker, topic)
    message = restored(half, properties, encode_properties(properties))
    message.topic, message.queue_id = topic, HALF_QUEUE
    return put(broker, message)
