"""Requests of this client and typed contents of replies, by the table of operations (`rmqcli.codec.operations`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rmqcli.client.errors import UnexpectedReply, refusal
from rmqcli.codec.codes import LanguageCode, ResponseCode
from rmqcli.codec.errors import CodecError
from rmqcli.codec.remoting.command import RemotingCommand

if TYPE_CHECKING:
    from rmqcli.codec.operations.operation import Answer, Operation

_PYTHON = LanguageCode.PYTHON

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")
RequestBodyT = TypeVar("RequestBodyT")
ReplyBodyT = TypeVar("ReplyBodyT")


def command(code: int, ext: dict[str, str] | None = None, body: bytes | memoryview = b"") -> RemotingCommand:
    """Return a request with language PYTHON, the version of this library and a JSON header."""
    return RemotingCommand(code, ext, body, 0, 0, None, _PYTHON)


def request_of(
    operation: Operation[RequestT, ReplyT, RequestBodyT, ReplyBodyT], header: RequestT, body: RequestBodyT
) -> RemotingCommand:
    ext, data = operation.encode_request(header, body)
    return command(operation.code, ext, data)


def answer_of(
    operation: Operation[RequestT, ReplyT, RequestBodyT, ReplyBodyT], reply: RemotingCommand, address: str
) -> Answer[ReplyT, ReplyBodyT]:
    """Return header and body of a reply.

    Raises BrokerRefused for an error code, UnexpectedReply if they cannot be decoded.
    """
    if reply.code != ResponseCode.SUCCESS:
        raise refusal(reply.code, reply.remark, address, operation.code)
    return read_answer(operation, reply, address)


def read_header(
    operation: Operation[RequestT, ReplyT, RequestBodyT, ReplyBodyT], reply: RemotingCommand, address: str
) -> ReplyT:
    """Return the header of a reply, whatever its code. Raises UnexpectedReply if it cannot be decoded."""
    try:
        return operation.decode_reply_header(reply)
    except CodecError as error:
        raise UnexpectedReply(address, operation.name, str(error)) from error


def read_answer(
    operation: Operation[RequestT, ReplyT, RequestBodyT, ReplyBodyT], reply: RemotingCommand, address: str
) -> Answer[ReplyT, ReplyBodyT]:
    """Return header and body of a reply, whatever its code.

    Raises UnexpectedReply if they cannot be decoded.
    """
    try:
        return operation.decode_reply(reply)
    except CodecError as error:
        raise UnexpectedReply(address, operation.name, str(error)) from error
