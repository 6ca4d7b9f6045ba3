"""Statuses of replies: from our own errors, and from the refusals of the functions that remoting uses."""

from __future__ import annotations

from typing import Any, Final

from rmqcli.broker.auth.control import EXCEPTION, NotAuthenticated
from rmqcli.broker.errors import Refusal
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.proxy import messages
from rmqcli.codec.proxy.codes import Code

_CODES: dict[int, Code] = {
    ResponseCode.SYSTEM_BUSY: Code.TOO_MANY_REQUESTS,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: Code.NOT_IMPLEMENTED,
    ResponseCode.MESSAGE_ILLEGAL: Code.BAD_REQUEST,
    ResponseCode.NO_PERMISSION: Code.FORBIDDEN,
    ResponseCode.TOPIC_NOT_EXIST: Code.TOPIC_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: Code.CONSUMER_GROUP_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: Code.ILLEGAL_FILTER_EXPRESSION,
    ResponseCode.QUERY_NOT_FOUND: Code.OFFSET_NOT_FOUND,
    ResponseCode.ILLEGAL_OPERATION: Code.BAD_REQUEST,
    ResponseCode.FLUSH_DISK_TIMEOUT: Code.MASTER_PERSISTENCE_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: Code.SLAVE_PERSISTENCE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: Code.HA_NOT_AVAILABLE,
}


class StatusError(Exception):
    """Raised to reply to a call with a code other than OK."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code


def code_of(code: int) -> Code:
    """Return the code of a reply for a response code of remoting."""
    return Code.OK if code == ResponseCode.SUCCESS else _CODES.get(code, Code.INTERNAL_SERVER_ERROR)


def of_refusal(refusal: Refusal) -> StatusError:
    """Return the error for a refusal."""
    remark = refusal.remark or ""
    if isinstance(refusal, NotAuthenticated) or remark.startswith(EXCEPTION):
        return StatusError(Code.UNAUTHORIZED, remark.removeprefix(EXCEPTION))
    return StatusError(code_of(refusal.code), remark)


def status(code: Code = Code.OK, text: str = "") -> Any:
    """Return a Status."""
    return messages.Status(code=code, message=text or code.name)


OK: Final = status()


def common(statuses: list[Any]) -> Any:
    """Return the status of a reply with several entries: theirs, if all have the same code."""
    codes = {one.code for one in statuses}
    return statuses[0] if len(codes) == 1 else status(Code.MULTIPLE_RESULTS)
