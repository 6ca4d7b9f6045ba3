"""SendMessage, EndTransaction and RecallMessage."""

from __future__ import annotations

import re
from collections.abc import Coroutine, Sequence
from typing import Any

from rmqcli.broker.errors import Refusal
from rmqcli.broker.proxy.answers import OK, StatusError, code_of, common, of_refusal, status
from rmqcli.broker.proxy.backend import Backend, Outgoing, PlainSends, Stored
from rmqcli.broker.proxy.calling import Caller, Front, caller_of, decoded, publish, topic_name
from rmqcli.broker.proxy.clients import transaction_id
from rmqcli.broker.proxy.convert import full_name, milliseconds, plain_body, properties_of, type_of
from rmqcli.broker.proxy.http2 import Call
from rmqcli.broker.proxy.routes import accepted_types
from rmqcli.codec.codes import MessageSysFlag, ResponseCode
from rmqcli.codec.errors import PropertiesTooLong
from rmqcli.codec.headers.transactions import EndTransactionRequestHeader
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.proxy import messages
from rmqcli.codec.proxy.codes import Code, MessageType, TransactionResolution, TransactionSource
from rmqcli.codec.proxy.framing import CallError

MOST_MESSAGES = 1024
_TRANSACTION_ID = re.compile(r"([0-9A-F]{16})([0-9A-F]{16})(.*)", re.DOTALL)


async def send_message(caller: Caller, request: Any) -> Any:
    """Store messages of one topic: one of any type, or several normal ones, which go to one queue."""
    if not request.messages:
        raise StatusError(Code.BAD_REQUEST, "no message to send")
    if len(request.messages) > MOST_MESSAGES:
        raise StatusError(Code.BAD_REQUEST, f"{MOST_MESSAGES} messages can be sent together")
    topic = topic_name(full_name(request.messages[0].topic))
    caller.check(publish(topic))
    backend = caller.backend
    given = [await _outgoing(backend, topic, message) for message in request.messages]
    if len(given) > 1:
        if any(full_name(message.topic) != topic for message in request.messages):
            raise StatusError(Code.BAD_REQUEST, "messages that are sent together must have one topic")
        if any(message.system_properties.message_type > MessageType.NORMAL for message in request.messages):
            raise StatusError(Code.BAD_REQUEST, "only normal messages can be sent together")
    reply = messages.SendMessageResponse()
    for one, result in zip(given, await backend.send(caller, topic, given), strict=True):
        if isinstance(result, Refusal):
            error = of_refusal(result)
            reply.entries.add(status=status(error.code, str(error)))
        else:
            _add_entry(reply, one, result)
    reply.status.CopyFrom(common([entry.status for entry in reply.entries]))
    return reply


def send_together(front: Front, calls: Sequence[Call]) -> int:
    """Store the messages of the first calls that are plain sends together, and answer them; return their
    number."""
    sends = None if front.backend.checks_types else front.backend.plain_sends(calls[0].session)
    if sends is None:
        return 0
    ids: list[str] = []
    for call in calls:
        message_id = _added(front, call, sends)
        if message_id is None:
            break
        ids.append(message_id)
    if ids:
        offsets, confirmed = sends.store()
        sent = list(zip(calls, ids, offsets, strict=False))
        if confirmed is None:
            _answer(sent, OK)
        elif not calls[0].session.spawn(_answer_when_confirmed, sent, confirmed):
            confirmed.close()
    return len(ids)


def _added(front: Front, call: Call, sends: PlainSends) -> str | None:
    """Add the message of a call, and return its id. Return None if the call must be carried out alone, for
    example to report what is wrong with it.
    """
    data = call.request
    if data is None:
        return None
    try:
        request = decoded(messages.SendMessageRequest, data)
        if len(request.messages) != 1:
            return None
        message = request.messages[0]
        topic = full_name(message.topic)
        caller_of(front, call).check(publish(topic))
        given = _prepared(front.backend, message, properties_of(message, topic))
    except (CallError, StatusError, Refusal):
        return None
    return given.properties[PropertyName.UNIQ_KEY] if sends.add(topic, given) else None


async def _answer_when_confirmed(
    sent: Sequence[tuple[Call, str, int]], confirmed: Coroutine[Any, Any, ResponseCode]
) -> None:
    code = await confirmed
    _answer(sent, OK if code == ResponseCode.SUCCESS else status(code_of(code), code.name))
    sent[0][0].session.flush()


def _answer(sent: Sequence[tuple[Call, str, int]], found: Any) -> None:
    """Answer calls whose messages are stored, all with one status."""
    reply = messages.SendMessageResponse(status=found)
    entry = reply.entries.add(status=found)
    # One message serves all calls: only these two fields differ.
    for call, entry.message_id, entry.offset in sent:
        data = reply.SerializeToString()
        if not call.answer(data):
            call.carry_out(_sent(call, data))


async def _sent(call: Call, data: bytes) -> None:
    await call.send(data)
    call.finish()


async def _outgoing(backend: Backend, topic: str, message: Any) -> Outgoing:
    """Return a message to be stored. Raises StatusError."""
    properties = properties_of(message, topic)
    if backend.checks_types:
        await _check_type(backend, topic, type_of(properties))
    return _prepared(backend, message, properties)


def _prepared(backend: Backend, message: Any, properties: dict[str, str]) -> Outgoing:
    """Return a message with these properties to be stored. Raises StatusError."""
    body = plain_body(message, backend.max_message_size)
    longest = backend.longest_delay_ms
    if milliseconds(message.system_properties.delivery_timestamp) - backend.now_ms() > longest:
        raise StatusError(Code.ILLEGAL_DELIVERY_TIME, f"a message can be delayed by {longest} ms")
    try:
        text = encode_properties(properties).decode()
    except PropertiesTooLong as error:
        raise StatusError(Code.MESSAGE_PROPERTIES_TOO_LARGE, str(error)) from None
    born = message.system_properties.born_timestamp
    born_ms = born.seconds * 1000 + born.nanos // 1_000_000 or backend.now_ms()
    return Outgoing(body, properties, text, born_ms)


async def _check_type(backend: Backend, topic: str, kind: MessageType) -> None:
    """Raise StatusError unless a topic accepts messages of this type."""
    expected = await backend.type_of(topic)
    if kind not in accepted_types(backend, expected):
        text = f"the expected type is {expected}, but actual type is {kind.name}"
        raise StatusError(
            Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, f"TopicMessageType validate failed, {text}"
        )


def _add_entry(reply: Any, message: Outgoing, stored: Stored) -> None:
    entry = reply.entries.add()
    code = stored.code
    entry.status.CopyFrom(OK if code == ResponseCode.SUCCESS else status(code_of(code), code.name))
    entry.message_id = message.properties[PropertyName.UNIQ_KEY]
    entry.offset = stored.offset
    if stored.half_at >= 0:
        entry.transaction_id = transaction_id(stored.half_at, stored.offset, stored.broker_name)
    elif stored.recall_handle:
        entry.recall_handle = stored.recall_handle


_ENDS = {
    TransactionResolution.COMMIT: MessageSysFlag.TRANSACTION_COMMIT,
    TransactionResolution.ROLLBACK: MessageSysFlag.TRANSACTION_ROLLBACK,
}


async def end_transaction(caller: Caller, request: Any) -> Any:
    """Commit or roll back the half message that the transaction id names."""
    topic = topic_name(full_name(request.topic))
    caller.check(publish(topic))
    found = _TRANSACTION_ID.fullmatch(request.transaction_id)
    if found is None:
        raise StatusError(
            Code.INVALID_TRANSACTION_ID, f"transaction id {request.transaction_id!r} is not one of ours"
        )
    end = _ENDS.get(request.resolution)
    if end is None:
        raise StatusError(Code.BAD_REQUEST, "resolution: COMMIT or ROLLBACK is expected")
    header = EndTransactionRequestHeader(
        producer_group=topic,
        commit_log_offset=int(found[1], 16),
        tran_state_table_offset=int(found[2], 16),
        commit_or_rollback=end,
        from_transaction_check=request.source == TransactionSource.SOURCE_SERVER_CHECK,
        msg_id=request.message_id,
        transaction_id=request.transaction_id,
    )
    await caller.backend.end_transaction(caller, topic, found[3], header)
    return messages.EndTransactionResponse()


async def recall_message(caller: Caller, request: Any) -> Any:
    """Take a delayed message back."""
    topic = topic_name(full_name(request.topic))
    caller.check(publish(topic))
    if caller.backend.checks_types:
        await _check_type(caller.backend, topic, MessageType.DELAY)
    message_id = await caller.backend.recall(caller, topic, request.recall_handle)
    return messages.RecallMessageResponse(message_id=message_id)
