"""Typed handlers: how a function from a typed request to a typed reply becomes a handler of a server.

A handler gets the server's context and a `Request`. It returns
* a `Reply`, which leaves with the other replies of its batch;
* a coroutine that gives the `Reply` later, or the reply of somebody else (a RemotingCommand) to pass on: it
  runs as a task of the connection, after the rest of the batch is handled;
* a whole frame (bytes), which only the hot paths write themselves;
* None when no reply follows, or when something else sends it.

Decoding and encoding are those of the operation. A request that cannot be decoded, a Refusal and any other
exception are answered by `failure_reply`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from broker.errors import Refusal
from broker.net.dispatch import Handler, failure_reply
from broker.net.session import Session
from codec.codes import RPC_ONEWAY, RequestCode, ResponseCode
from codec.errors import CodecError
from codec.fastjson_writer import JsonDialect
from codec.operations.operation import AnyOperation, Operation
from codec.remoting.command import RemotingCommand

ContextT = TypeVar("ContextT")
RequestT = TypeVar("RequestT")
RequestBodyT = TypeVar("RequestBodyT")
ReplyT = TypeVar("ReplyT")
ReplyBodyT = TypeVar("ReplyBodyT")
HeaderT_co = TypeVar("HeaderT_co", covariant=True)
BodyT_co = TypeVar("BodyT_co", covariant=True)


class Request(msgspec.Struct, Generic[HeaderT_co, BodyT_co], frozen=True):
    """A decoded request, the command that it came in and the connection that it came from."""

    header: HeaderT_co
    body: BodyT_co
    command: RemotingCommand
    session: Session


class Reply(msgspec.Struct, Generic[HeaderT_co, BodyT_co], frozen=True, gc=False):
    """What a handler replies.

    `remark` None is the operation's; `views` are sent as the body without a copy; `dialect` None is the
    operation's.
    """

    header: HeaderT_co | None = None
    body: BodyT_co | None = None
    code: int = ResponseCode.SUCCESS
    remark: str | None = None
    views: Sequence[memoryview] = ()
    dialect: JsonDialect | None = None


AnyReply = Reply[Any, Any]
Answered = (
    Reply[ReplyT, ReplyBodyT]
    | Coroutine[Any, Any, Reply[ReplyT, ReplyBodyT] | RemotingCommand | None]
    | bytes
    | None
)
TypedHandler = Callable[[ContextT, Request[RequestT, RequestBodyT]], Answered[ReplyT, ReplyBodyT]]


class Registration(NamedTuple, Generic[ContextT]):
    """An operation and the handler that serves it; `common_ext` gives ext fields of every reply, refusals
    too.
    """

    operation: AnyOperation
    handler: Callable[[ContextT, Request[Any, Any]], Answered[Any, Any]]
    common_ext: Callable[[ContextT], Mapping[str, str]] | None = None

    def bind(self, context: ContextT, before: Callable[[], None] | None = None) -> Handler:
        """The handler as a server calls it; `before` runs first and may refuse the request."""
        common_ext = partial(self.common_ext, context) if self.common_ext is not None else None
        return _bound(self.operation, partial(self.handler, context), before, common_ext)


def serve(
    operation: Operation[RequestT, ReplyT, RequestBodyT, ReplyBodyT],
    handler: TypedHandler[ContextT, RequestT, RequestBodyT, ReplyT, ReplyBodyT],
    common_ext: Callable[[ContextT], Mapping[str, str]] | None = None,
) -> Registration[ContextT]:
    """Registers a handler for an operation; type checkers compare the types of both."""
    return Registration(operation, handler, common_ext)


def by_code(*registrations: Registration[ContextT]) -> dict[RequestCode, Registration[ContextT]]:
    """Registrations by request code; ValueError when two serve the same one."""
    table = {registration.operation.code: registration for registration in registrations}
    if len(table) != len(registrations):
        raise ValueError("two handlers are registered for one operation")
    return table


def _bound(
    operation: AnyOperation,
    handle: Callable[[Request[Any, Any]], Answered[Any, Any]],
    before: Callable[[], None] | None,
    common_ext: Callable[[], Mapping[str, str]] | None,
) -> Handler:
    decode = operation.decoder()

    def answer(session: Session, command: RemotingCommand) -> RemotingCommand | bytes | None:
        try:
            if before is not None:
                before()
            header, body = decode(command)
            reply = handle(Request(header, body, command, session))
        except (Refusal, CodecError) as error:
            if common_ext is None:
                raise
            raise _with_ext(error, common_ext()) from None
        if reply is None or isinstance(reply, bytes):
            return reply
        if isinstance(reply, Reply):
            return _sent(session, _encoded(operation, command, common_ext, reply), reply.views)
        session.spawn(
            _respond_later, session, command, partial(_encoded, operation, command, common_ext), reply
        )
        return None

    return answer


def _with_ext(error: Refusal | CodecError, ext_fields: Mapping[str, str]) -> Refusal:
    if isinstance(error, Refusal):
        return Refusal(error.code, error.remark, ext_fields)
    return Refusal(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}", ext_fields)


def _encoded(
    operation: AnyOperation,
    command: RemotingCommand,
    common_ext: Callable[[], Mapping[str, str]] | None,
    reply: AnyReply,
) -> RemotingCommand | None:
    """The reply as a command; None for a one-way request."""
    if command.flag & RPC_ONEWAY:
        return None
    ext_fields, body = operation.encode_reply(reply.header, reply.body, reply.dialect)
    if common_ext is not None:
        ext_fields = {**common_ext(), **(ext_fields or {})}
    remark = operation.remark if reply.remark is None else reply.remark
    return command.reply(reply.code, remark, ext_fields, body)


def _sent(
    session: Session, reply: RemotingCommand | None, views: Sequence[memoryview]
) -> RemotingCommand | None:
    """The reply that is still to be sent; one with views is sent here."""
    if reply is None or not views:
        return reply
    session.send(reply, views)
    return None


async def _respond_later(
    session: Session,
    command: RemotingCommand,
    encode: Callable[[AnyReply], RemotingCommand | None],
    waiting: Coroutine[Any, Any, AnyReply | RemotingCommand | None],
) -> None:
    answer: RemotingCommand | None
    try:
        reply = await waiting
        if isinstance(reply, Reply):
            answer = _sent(session, encode(reply), reply.views)
        elif reply is not None:
            answer = command.reply(reply.code, reply.remark, reply.ext_fields, reply.body)
        else:
            answer = None
    except Exception as error:  # whatever work for one request raises, the connection goes on
        answer = failure_reply(session, command, error)
    if answer is not None:
        session.respond(command, answer)


def respond(operation: AnyOperation, request: Request[Any, Any], reply: AnyReply) -> None:
    """Sends the reply to a request whose handler returned None."""
    answer = _sent(request.session, _encoded(operation, request.command, None, reply), reply.views)
    if answer is not None:
        request.session.send(answer)


def command_of(
    operation: Operation[RequestT, ReplyT, RequestBodyT, ReplyBodyT], header: RequestT, body: RequestBodyT
) -> RemotingCommand:
    """A request of ours to a client or another server."""
    ext_fields, data = operation.encode_request(header, body)
    return RemotingCommand(operation.code, ext_fields, data)
