"""Typed handlers: adapters that turn a function from a typed request to a typed reply into a server's
handler.

A handler gets the server's context and a `Request`. It returns

* a `Reply`, which is sent with the other replies of its batch;
* a coroutine that later returns the `Reply`, a whole frame, or another node's reply (a RemotingCommand) to
  pass on: it runs as a task of the connection, after the rest of the batch is handled;
* LongWork, which ends in one of the others;
* a whole frame (bytes), which only the hot paths write themselves;
* None if there is no reply, or if something else sends it.

Requests and replies are decoded and encoded by their operation. A request that cannot be decoded, a Refusal
and any other exception are answered with `failure_reply`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import trio
from msgspec.structs import replace

from rmqcli.broker.errors import NotReady, Refusal
from rmqcli.broker.net.dispatch import Handler, failure_reply
from rmqcli.broker.net.session import Session
from rmqcli.broker.net.transport import Buffer
from rmqcli.broker.net.turns import FIRST_STEPS, LongWork, Steps, Turns, emptying
from rmqcli.codec.bodies.base import Body
from rmqcli.codec.bodies.in_steps import NotPlainJson, decode_body_in_steps
from rmqcli.codec.codes import RPC_ONEWAY, RPC_RESPONSE, LanguageCode, RequestCode, ResponseCode
from rmqcli.codec.errors import CodecError
from rmqcli.codec.fastjson import JsonDialect, chunks_in_steps
from rmqcli.codec.headers.base import ext_encoder, from_ext, to_ext
from rmqcli.codec.operations.operation import PROPERTIES, AnyOperation, Operation
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import encode_short_reply
from rmqcli.codec.versions import CURRENT_VERSION

PYTHON = LanguageCode.PYTHON
LONGEST_BODY = 1024 * 1024
"""Maximum size of the JSON body of a request, in bytes."""
LONGEST_ODD_BODY = 32 * 1024
"""Maximum size in bytes of a body in the dialect that only fastjson writes: decoding it takes a hundred times
as long."""
LONGEST_PROPERTIES = 16 * 1024
"""Maximum size in bytes of a body of properties lines, which are slow to read; those of a broker have 5
KiB."""
LONG_TABLE = 256
"""Entries in the tables of a body beyond which it is encoded in several turns of the event loop."""

ContextT = TypeVar("ContextT")
RequestT = TypeVar("RequestT")
RequestBodyT = TypeVar("RequestBodyT")
ReplyT = TypeVar("ReplyT")
ReplyBodyT = TypeVar("ReplyBodyT")
HeaderT_co = TypeVar("HeaderT_co", covariant=True)
BodyT_co = TypeVar("BodyT_co", covariant=True)


# The collector does not scan requests, because up to 200,000 held pulls keep one each: a cycle through a
# request would never be freed.
class Request(msgspec.Struct, Generic[HeaderT_co, BodyT_co], frozen=True, gc=False):
    """A decoded request, with its command and its connection."""

    header: HeaderT_co
    body: BodyT_co
    command: RemotingCommand
    session: Session


class Reply(msgspec.Struct, Generic[HeaderT_co, BodyT_co], frozen=True, gc=False):
    """The reply of a handler.

    If `remark` or `dialect` is None, the operation's is used; `views` are sent as the body without a copy. If
    `is_used_up`, the lists and tables of the body are not shared; they are emptied step by step after
    encoding, because freeing them at once takes too long.
    """

    header: HeaderT_co | None = None
    body: BodyT_co | None = None
    code: int = ResponseCode.SUCCESS
    remark: str | None = None
    views: Sequence[Buffer] = ()
    dialect: JsonDialect | None = None
    is_used_up: bool = False


AnyReply = Reply[Any, Any]
Answered = (
    Reply[ReplyT, ReplyBodyT]
    | Coroutine[Any, Any, Reply[ReplyT, ReplyBodyT] | RemotingCommand | bytes | None]
    | LongWork
    | bytes
    | None
)
Encode = Callable[[RemotingCommand, "AnyReply"], RemotingCommand | bytes]
"""Encodes a reply to a command."""
TypedHandler = Callable[[ContextT, Request[RequestT, RequestBodyT]], Answered[ReplyT, ReplyBodyT]]


class Registration(NamedTuple, Generic[ContextT]):
    """An operation and its handler; `common_ext` returns ext fields for every reply, refusals included."""

    operation: AnyOperation
    handler: Callable[[ContextT, Request[Any, Any]], Answered[Any, Any]]
    common_ext: Callable[[ContextT], Mapping[str, str]] | None = None

    def bind(self, context: ContextT, before: Callable[[], None] | None = None) -> Handler:
        """Return the handler in the form that a server calls; `before` runs first and may refuse the
        request."""
        operation, handle, _ = self
        common_ext = None if self.common_ext is None else partial(self.common_ext, context)
        encode = encoder(operation, common_ext)
        header_type: Any = operation.request
        has_body = operation.request_body is bytes
        # Only a header has to be decoded: the handler does it inline, which saves the calls of
        # `decode_request`.
        plain = header_type is not None and (has_body or operation.request_body is None)
        is_json = operation.json_request is not None

        def handler(session: Session, command: RemotingCommand) -> RemotingCommand | bytes | None:
            try:
                if before is not None:
                    before()
                if plain:
                    header = command.header or from_ext(header_type, command.ext_fields)
                    body = command.body if has_body else None
                elif is_json and len(command.body) > LONGEST_ODD_BODY:
                    steps = _decoded_in_steps(operation, command, partial(decoded, session, command))
                    raise in_turns(session, LongWork(steps))
                else:
                    header, body = _decoded(operation, command)
                reply = handle(context, Request(header, body, command, session))
            except (Refusal, CodecError) as error:
                if common_ext is None:
                    raise
                raise _with_ext(error, common_ext()) from None
            return reply if type(reply) is bytes else answer(session, command, reply)

        def decoded(session: Session, command: RemotingCommand, header: Any, body: Any) -> Any:
            return handle(context, Request(header, body, command, session))

        def in_turns(session: Session, work: LongWork) -> NotReady:
            return NotReady(partial(work.run, session.turns), in_order=True, then=partial(finish, work=work))

        def answer(session: Session, command: RemotingCommand, reply: Any) -> RemotingCommand | bytes | None:
            if type(reply) is Reply:
                if command.flag & RPC_ONEWAY:
                    return None
                if reply.views:
                    session.send(encode(command, reply), reply.views)
                    return None
                if reply.body is None or not _is_long(reply.body):
                    return encode(command, reply)
                # A long body is encoded in turns, which takes a task.
                reply = _itself(reply)
            elif type(reply) is LongWork:
                if reply.advance(FIRST_STEPS):
                    return finish(session, command, reply)
                raise in_turns(session, reply)
            if reply is None or isinstance(reply, bytes):
                return reply
            if not session.spawn(_respond_later, session, command, operation, encode, reply):
                reply.close()  # a coroutine that is never awaited would warn
            return None

        def finish(
            session: Session, command: RemotingCommand, work: LongWork
        ) -> RemotingCommand | bytes | None:
            try:
                reply = work.finish()
            except (Refusal, CodecError) as error:
                if common_ext is None:
                    raise
                raise _with_ext(error, common_ext()) from None
            return answer(session, command, reply)

        return handler


def serve(
    operation: Operation[RequestT, ReplyT, RequestBodyT, ReplyBodyT],
    handler: TypedHandler[ContextT, RequestT, RequestBodyT, ReplyT, ReplyBodyT],
    common_ext: Callable[[ContextT], Mapping[str, str]] | None = None,
) -> Registration[ContextT]:
    """Register a handler for an operation; type checkers check that their types agree."""
    return Registration(operation, handler, common_ext)


def by_code(*registrations: Registration[ContextT]) -> dict[RequestCode, Registration[ContextT]]:
    """Return registrations by request code. Raises ValueError if two have the same code."""
    table = {registration.operation.code: registration for registration in registrations}
    if len(table) != len(registrations):
        raise ValueError("two handlers are registered for one operation")
    return table


def registered(
    registrations: Mapping[RequestCode, Registration[ContextT]], code: int
) -> Registration[ContextT] | None:
    """Return the registration of a code, which may be any number sent by a peer."""
    known: Mapping[Any, Registration[ContextT]] = registrations  # a RequestCode is found by its number
    return known.get(code)


def _with_ext(error: Refusal | CodecError, ext_fields: Mapping[str, str]) -> Refusal:
    if isinstance(error, Refusal):
        return Refusal(error.code, error.remark, ext_fields)
    return Refusal(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}", ext_fields)


def encoder(operation: AnyOperation, common_ext: Callable[[], Mapping[str, str]] | None = None) -> Encode:
    """Compile a function that encodes the replies of an operation as commands, or as frames if they are
    short."""
    usual_remark, encode_reply = operation.remark, operation.encode_reply
    reply_type: Any = operation.reply
    ext_of = to_ext if reply_type is None else ext_encoder(reply_type)

    def encode(command: RemotingCommand, reply: AnyReply) -> RemotingCommand | bytes:
        header = reply.header
        if reply.body is None:
            ext_fields, body = None if header is None else ext_of(header), b""
        else:
            ext_fields, body = encode_reply(header, reply.body, reply.dialect)
        if common_ext is not None:
            ext_fields = {**common_ext(), **(ext_fields or {})}
        remark = usual_remark if reply.remark is None else reply.remark
        is_short = remark is None and not (body or reply.views or command.serialize_type)
        if is_short and ext_fields is not None:
            return encode_short_reply(reply.code, ext_fields, command.opaque)
        return RemotingCommand(
            reply.code,
            ext_fields,
            body,
            command.opaque,
            RPC_RESPONSE,
            remark,
            PYTHON,
            CURRENT_VERSION,
            command.serialize_type,
        )

    return encode


def _decoded(operation: AnyOperation, command: RemotingCommand) -> tuple[Any, Any]:
    _check_size(operation, command)
    return operation.decode_request(command)


def _check_size(operation: AnyOperation, command: RemotingCommand) -> None:
    size = len(command.body)
    limit = LONGEST_PROPERTIES if operation.request_body == PROPERTIES else LONGEST_BODY
    if size > limit and operation.request_body is not bytes:
        remark = f"the body has {size} bytes, {limit} is the limit"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)


def _decoded_in_steps(
    operation: AnyOperation, command: RemotingCommand, handle: Callable[[Any, Any], Any]
) -> Steps:
    """Decode a long body in steps; return a function that handles the request."""
    _check_size(operation, command)
    form: Any = operation.json_request
    body = bytes(command.body)
    try:
        value = yield from decode_body_in_steps(form, body)
    except NotPlainJson:
        remark = (
            f"the body has {len(body)} bytes, {LONGEST_ODD_BODY} is the limit for what is not standard JSON"
        )
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark) from None
    return partial(handle, operation.decode_header(command), value)


def _is_long(body: object) -> bool:
    return _entries(body, LONG_TABLE) > LONG_TABLE


def _entries(value: object, enough: int) -> int:
    """Return the number of table entries and body members in a value, counting only until it exceeds
    `enough`."""
    parts: Collection[object]
    if isinstance(value, Body):
        parts = [getattr(value, name) for name in value.__struct_fields__]
    elif isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
    else:
        return 0
    count = len(parts)
    for part in parts:
        if count > enough:
            break
        count += _entries(part, enough - count)
    return count


async def _itself(reply: AnyReply) -> AnyReply:
    return reply


async def _respond_later(
    session: Session,
    command: RemotingCommand,
    operation: AnyOperation,
    encode: Encode,
    waiting: Coroutine[Any, Any, AnyReply | RemotingCommand | bytes | None],
) -> None:
    try:
        reply = await waiting
        if isinstance(reply, RemotingCommand):
            session.respond(command, command.reply(reply.code, reply.remark, reply.ext_fields, reply.body))
        elif isinstance(reply, bytes):
            session.respond(command, reply)
        elif reply is not None:
            if reply.body is not None and _is_long(reply.body):
                reply = await _encoded(session.turns, reply, operation)
            session.respond(command, encode(command, reply), reply.views)
    except Exception as error:  # an error in the work for one request must not end the connection
        session.respond(command, failure_reply(session, command, error))


async def _encoded(turns: Turns, reply: AnyReply, operation: AnyOperation) -> AnyReply:
    """Encode a long body in as many turns as necessary; return the reply with it as views."""
    try:
        dialect = reply.dialect or operation.reply_dialect
        chunks = await turns.run(chunks_in_steps(reply.body, dialect=dialect))
    finally:
        # Also if the connection has ended: to free thousands of entries at once takes longer than a turn.
        if reply.is_used_up and isinstance(reply.body, Body):
            with trio.CancelScope(shield=True):
                for name in reply.body.__struct_fields__:
                    if isinstance(table := getattr(reply.body, name), dict | list):
                        await turns.run(emptying(table))
    return replace(reply, body=None, views=chunks)


def command_of(
    operation: Operation[RequestT, ReplyT, RequestBodyT, ReplyBodyT], header: RequestT, body: RequestBodyT
) -> RemotingCommand:
    """Return a request to a client or to another server."""
    ext_fields, data = operation.encode_request(header, body)
    return RemotingCommand(operation.code, ext_fields, data)
