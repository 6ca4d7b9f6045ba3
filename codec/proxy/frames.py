"""Frames of HTTP/2 (RFC 9113), and header fields that are in no table (RFC 7541), as bytes."""

from __future__ import annotations

import struct
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    range(10)
)
END_STREAM, ACK, END_HEADERS, PADDED, WITH_PRIORITY = 1, 1, 4, 8, 32
PROTOCOL_ERROR, FLOW_CONTROL_ERROR, COMPRESSION_ERROR = 1, 3, 9

FRAME_HEAD: Final = struct.Struct(">HBBBI")
"""The length in two parts, because it has three bytes; kind, flags, stream."""
STATUS_200: Final = b"\x88"
"""`:status: 200`, an entry of the static table."""
_LONG: Final = 127
"""The first byte of a length that does not fit in seven bits."""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame."""
    size = len(payload)
    return FRAME_HEAD.pack(size >> 8, size & 255, kind, flags, stream) + payload


def literal(name: bytes, value: bytes) -> bytes:
    """Return a header field that is in no table and must not be added to one."""
    return b"\0" + _string(name) + _string(value)


def _string(text: bytes) -> bytes:
    """Return a string without Huffman's code."""
    rest = len(text)
    if rest < _LONG:
        return bytes([rest]) + text
    length = bytearray([_LONG])
    rest -= _LONG
    while rest >= 128:
        length.append(rest & 127 | 128)
        rest >>= 7
    length.append(rest)
    return bytes(length) + text
