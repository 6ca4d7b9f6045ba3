"""gRPC on HTTP/2: messages with a prefix, deadlines, statuses, and the bounds of HTTP/2 frames.

A message has a prefix of 5 bytes: 0 (not compressed), and its length in big-endian order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import Final
from urllib.parse import quote

from rmqcli.codec.errors import RemoteProtocolError

PREFIX: Final = 5
MAX_MESSAGE: Final = 4 * 1024 * 1024 + 64 * 1024
"""Maximum size of a received message in bytes: the longest body, and 64 KiB for all the rest."""
MAX_FRAME: Final = 16 * 1024
"""Maximum length of an HTTP/2 frame; the default of the protocol, which no client may exceed unasked."""


class GrpcStatus(IntEnum):
    """The status of a call in its trailers. Results of RocketMQ are OK, and have a code in the reply."""

    OK = 0
    CANCELLED = 1
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
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


def message_header(text: str) -> str:
    """Return a text as a grpc-message header: UTF-8, percent-encoded."""
    return quote(text, safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~")


_HEADER = 9
_PREFACE = 24
DATA, HEADERS, RST_STREAM, SETTINGS, PING, CONTINUATION = 0, 1, 3, 4, 6, 9
FRAMES_AT_ONCE = 16
"""Frames that are handled before other connections get their turn."""


class FrameBounds:
    """Follows the frames in the bytes of a client, without decoding them.

    It refuses frames that are too long before they are received, and counts those that cost more than they
    bring, so that a connection has an allowance of them: `spent` is compared with a limit and reset by its
    user.
    """

    def __init__(self) -> None:
        self.resets = 0
        """Streams that the client has reset."""
        self.idle = 0
        """Frames that carry nothing: settings, pings, priorities, continuations, unknown and empty ones."""
        self._skip = _PREFACE
        self._head = b""

    @property
    def is_inside(self) -> bool:
        """True if the bytes so far end inside a frame."""
        return bool(self._skip or self._head)

    def parts(self, data: bytes) -> Iterator[bytes]:
        """Yield `data` in parts with a few frames each. Raises RemoteProtocolError for a frame that is too
        long."""
        begin = position = frames = 0
        size = len(data)
        while position < size:
            if self._skip:
                taken = min(self._skip, size - position)
                self._skip -= taken
                position += taken
                continue
            head = self._head + data[position : position + _HEADER - len(self._head)]
            position += len(head) - len(self._head)
            if len(head) < _HEADER:
                self._head = head
                break
            self._head = b""
            self._note(head)
            # A header block is decoded byte by byte.
            frames += 1 + (self._skip // 1024 if head[3] in (HEADERS, CONTINUATION) else 0)
            if frames >= FRAMES_AT_ONCE:
                yield data[begin:position]
                begin, frames = position, 0
        if begin < size:
            yield data[begin:]

    def _note(self, head: bytes) -> None:
        length, kind = int.from_bytes(head[:3], "big"), head[3]
        if length > MAX_FRAME:
            raise RemoteProtocolError(f"an HTTP/2 frame has {length} bytes, {MAX_FRAME} is the limit")
        self._skip = length
        if kind == RST_STREAM:
            self.resets += 1
        elif kind not in (DATA, HEADERS, 8) or (kind == DATA and not length and not head[4] & 1):
            self.idle += 1
