"""gRPC on HTTP/2: messages with a prefix, deadlines, statuses.

A message has a prefix of 5 bytes: 0 (not compressed), and its length in big-endian order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Final
from urllib.parse import quote

from rmqcli.codec.proxy.frames import STATUS_200, literal

PREFIX: Final = 5
MAX_MESSAGE: Final = 4 * 1024 * 1024 + 64 * 1024
"""Maximum size of a received message in bytes: the longest body, and 64 KiB for everything else."""


class GrpcStatus(IntEnum):
    """The status of a call in its trailers. Results of RocketMQ are OK, and have a code in the reply."""

    OK = 0
    CANCELLED = 1
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class CallError(Exception):
    """The call ends with a status other than OK."""

    def __init__(self, status: GrpcStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


def prefixed(message: bytes) -> bytes:
    """Return a message with its prefix."""
    return b"\0" + len(message).to_bytes(4, "big") + message


def size_of_next(buffer: bytearray) -> int:
    """Return the size of the first message with its prefix, PREFIX if that is incomplete. Raises CallError."""
    if len(buffer) < PREFIX:
        return PREFIX
    if buffer[0]:
        raise CallError(
            GrpcStatus.UNIMPLEMENTED, "the message is compressed: send it with the encoding identity"
        )
    size = int.from_bytes(buffer[1:PREFIX], "big")
    if size > MAX_MESSAGE:
        raise CallError(
            GrpcStatus.RESOURCE_EXHAUSTED, f"the message has {size} bytes, {MAX_MESSAGE} is the limit"
        )
    return PREFIX + size


_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_TIMEOUT = re.compile(r"([0-9]{1,8})([HMSmun])")


def timeout_seconds(text: str) -> float:
    """Return the seconds of a grpc-timeout header, such as "3S" or "3010m". Raises CallError."""
    found = _TIMEOUT.fullmatch(text)
    if found is None:
        raise CallError(GrpcStatus.INTERNAL, f"grpc-timeout {text!r}: up to 8 digits and a unit are expected")
    return int(found[1]) * _UNITS[found[2]]


_CONTENT_TYPE = "application/grpc"


def http_refusal(headers: Mapping[str, str]) -> tuple[int, str] | None:
    """Return the HTTP status and the reason to refuse a request that is not a gRPC call; None for a call.

    A call is a POST with the type `application/grpc`, which may name an encoding after "+" or parameters
    after ";" (gRPC over HTTP2, Requests).
    """
    method, content_type = headers.get(":method"), headers.get("content-type", "")
    if method != "POST":
        return 405, f"the method is {method}: gRPC calls are POST requests"
    if content_type != _CONTENT_TYPE and not content_type.lower().startswith(
        (f"{_CONTENT_TYPE}+", f"{_CONTENT_TYPE};")
    ):
        return 415, f"the content type is {content_type or 'missing'}: gRPC calls have {_CONTENT_TYPE}"
    return None


def message_header(text: str) -> str:
    """Return a string as a grpc-message header: UTF-8, percent-encoded."""
    return quote(text, safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~")


_REPLY_TYPE = literal(b"content-type", _CONTENT_TYPE.encode())
REPLY_HEADERS: Final = STATUS_200 + _REPLY_TYPE
"""The header block that begins a reply; before trailers, it makes a reply without a message."""


def refusal_headers(http_status: int) -> bytes:
    """Return the header block that begins a refusal with an HTTP status; trailers follow."""
    return literal(b":status", b"%d" % http_status) + _REPLY_TYPE


def trailers(status: GrpcStatus, text: str = "") -> bytes:
    """Return the header block that ends a call."""
    return _OK if not (status or text) else _trailers(status, text)


def _trailers(status: GrpcStatus, text: str) -> bytes:
    block = literal(b"grpc-status", str(int(status)).encode())
    return block + literal(b"grpc-message", message_header(text).encode()) if text else block


_OK = _trailers(GrpcStatus.OK, "")
