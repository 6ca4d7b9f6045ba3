"""The records of a transaction (Java classes `TransactionalMessageBridge`, `EndTransactionProcessor`).

* half: queue 0 of RMQ_SYS_TRANS_HALF_TOPIC, where its real topic and queue are properties; no transaction bits, so that it has
  a place in the queue. A delay level waits for the commit.
* op: queue 0 of RMQ_SYS_TRANS_OP_HALF_TOPIC, tag `d`, the body is the half message's queue offset in decimal; 5.x writes
  several, each with a comma behind it.
* commit: the half message in its real queue, with the commit bits and the commit log offset of the half message.
* TRANS_CHECK_MAX_TIME_TOPIC, 1 queue: half messages that nobody ended.

No property is taken away from a stored text: a committed message still has TRAN_MSG, REAL_TOPIC and REAL_QID.
"""

from __future__ import annotations

from broker.context import BrokerContext
from broker.errors import Refusal
from broker.services.put import put
from broker.services.restore import real_place, restored
from broker.store.values import AppendResult, StoreMessage
from codec.codes import MessageSysFlag, ResponseCode
from codec.hashing import tags_code
from codec.message import MessageExt
from codec.names import SystemTopic
from codec.properties import PropertyName, delay_level, encode_properties

__all__ = [
    "HALF_QUEUE",
    "PROGRESS_GROUP",
    "end_half",
    "final_message",
    "half_again",
    "prepare",
    "retire",
]

PROGRESS_GROUP = "CID_RMQ_SYS_TRANS"
"""Its consumer offsets say how far the half and the op queue have been checked."""
HALF_QUEUE = 0
SYSTEM_QUEUES = 1
OP_TAG = "d"

P = PropertyName
MASK = MessageSysFlag.TRANSACTION_MASK
NEVER_NORMAL = (MessageSysFlag.TRANSACTION_PREPARED, MessageSysFlag.TRANSACTION_ROLLBACK)


def prepare(broker: BrokerContext, message: StoreMessage, *, is_batch: bool) -> None:
    """Makes a half message of one that asks for it. Refusal when it cannot be one, or transactions are switched off.

    A retried message (attempts and a delay level) keeps TRAN_MSG from its first life and is stored as a normal one.
    """
    properties = message.properties
    asked = properties.get(P.TRAN_MSG, "").lower() == "true"
    if asked and message.reconsume_times > 0 and delay_level(properties) > 0:
        message.sys_flag &= ~MASK
        return
    flagged = message.sys_flag & MASK in NEVER_NORMAL
    if not asked and not flagged:
        return
    if broker.config.reject_transaction_message:
        remark = f"the broker[{broker.host}] sending transaction message is forbidden"
        raise Refusal(ResponseCode.NO_PERMISSION, remark)
    if is_batch or not asked:
        what = "a batch" if is_batch else "a message without the property TRAN_MSG"
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"{what} cannot be a transaction message")
    properties[P.REAL_TOPIC] = message.topic
    properties[P.REAL_QID] = str(message.queue_id)
    message.properties_text = encode_properties(properties)
    message.sys_flag &= ~MASK
    message.topic, message.queue_id = SystemTopic.TRANS_HALF, HALF_QUEUE
    _ensure_topic(broker, SystemTopic.TRANS_HALF)


def half_again(broker: BrokerContext, half: MessageExt, properties: dict[str, str]) -> AppendResult:
    """Puts a half message at the end of the half queue. LocalProtocolError when the properties are too long."""
    return _put_system(broker, half, properties, SystemTopic.TRANS_HALF)


def retire(broker: BrokerContext, half: MessageExt, properties: dict[str, str]) -> AppendResult:
    """Puts a half message that is given up where an administrator finds it. LocalProtocolError as above."""
    return _put_system(broker, half, properties, SystemTopic.TRANS_CHECK_MAX_TIME)


def final_message(half: MessageExt) -> StoreMessage | None:
    """The message that a commit makes visible; None when the half message does not say where it belongs."""
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
    """Notes that the half message at an offset of the half queue, and the copy of it that checks made, is ended."""
    for offset in {queue_offset: None, broker.half_copies.newest(queue_offset): None}:
        put(broker, _op_message(broker, offset))


def _op_message(broker: BrokerContext, queue_offset: int) -> StoreMessage:
    properties: dict[str, str] = {P.WAIT: "true", P.TAGS: OP_TAG}
    return StoreMessage(
        topic=SystemTopic.TRANS_OP_HALF,
        queue_id=HALF_QUEUE,
        body=str(queue_offset).encode(),
        properties=properties,
        properties_text=encode_properties(properties),
        born_timestamp=broker.now_ms(),
        born_host=broker.store_host,
        sys_flag=broker.own_host_flags,
        tags_code=tags_code(OP_TAG),
    )


def _put_system(
    broker: BrokerContext, half: MessageExt, properties: dict[str, str], topic: str
) -> AppendResult:
    _ensure_topic(broker, topic)
    message = restored(half, properties, encode_properties(properties))
    message.topic, message.queue_id = topic, HALF_QUEUE
    return put(broker, message)


def _ensure_topic(broker: BrokerContext, topic: str) -> None:
    config, made = broker.topics.ensure(topic, SYSTEM_QUEUES)
    if made:
        broker.topics_changed([config])
