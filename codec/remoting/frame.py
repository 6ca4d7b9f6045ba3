"""One frame of the remoting protocol, with either kind of header.

    int32 length of what follows | int8 serialize type, int24 header length | header | body

All integers are big-endian. A frame, including its length field, has at most 16 MiB. `json_header` and
`binary_header` document the two kinds of header and the deviations that are tolerated in them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from construct import Int32sb, Int32ub, Struct

from rmqcli.codec.codes import RPC_RESPONSE, SerializeType
from rmqcli.codec.errors import LocalProtocolError, RemoteProtocolError
from rmqcli.codec.headers.base import Header
from rmqcli.codec.layout import fused
from rmqcli.codec.remoting.binary_header import (
    CODE_SIZE,
    BinaryReader,
    decode_binary_header,
    encode_binary_header,
)
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.json_header import (
    DirectReader,
    decode_json_header,
    encode_json_header,
    end_of_header,
    write_json,
)

__all__ = [
    "FRAME_HEAD",
    "MAX_FRAME",
    "NO_DIRECT",
    "DirectReader",
    "DirectReaders",
    "RemotingCommand",
    "decode_frame",
    "decode_parts",
    "encode_frame",
    "encode_frame_head",
    "encode_short_reply",
]

MAX_FRAME: Final = 16 * 1024 * 1024
"""Maximum bytes of a frame, including its length field (JVM property
``com.rocketmq.remoting.frameMaxLength``).
"""


class DirectReaders:
    """Readers of the most frequent requests, which create their typed header. JSON readers are found by the
    beginning of the header, binary ones by its code. The connections of one server share them.
    """

    __slots__ = ("binary", "json")

    def __init__(self, headers: Mapping[int, type[Header]] = {}) -> None:
        """Prepare for requests with some codes. Raises TypeError if a header class does not forbid unknown
        fields.
        """
        readers = [DirectReader(code, header) for code, header in headers.items()]
        self.json = {reader.beginning: reader for reader in readers}
        # A greater code does not fit into a binary header.
        self.binary = {
            code.to_bytes(CODE_SIZE, "big"): BinaryReader(header)
            for code, header in headers.items()
            if code < 1 << 8 * CODE_SIZE - 1
        }


NO_DIRECT: Final = DirectReaders()

# `mark` has the serialize type in its top byte and the length of the header in the other three.
FRAME_HEAD: Final = fused(Struct("length" / Int32sb, "mark" / Int32ub))

_BINARY_MARK: Final = int(SerializeType.ROCKETMQ) << 24
_BEGINNING_SIZE: Final = DirectReader.BEGINNING_SIZE
_pack_head: Final = FRAME_HEAD.pack
_read_mark: Final = FRAME_HEAD.part("mark").unpack_from
_HEADER_AT: Final = FRAME_HEAD.part("mark").size
_SHORT_REPLY: Final = b'{"code":%d,"extFields":%b' + end_of_header(RPC_RESPONSE)


def encode_frame(command: RemotingCommand) -> bytes:
    """Return the frame with its length field. Raises LocalProtocolError if the protocol cannot carry the
    command.
    """
    body = command.body
    head = encode_frame_head(command, len(body))
    return b"".join((head, body)) if body else head


def encode_frame_head(command: RemotingCommand, body_length: int) -> bytes:
    """Return the frame up to its body of `body_length` bytes, which is sent separately (as memory views)."""
    kind = command.serialize_type
    try:
        header = encode_binary_header(command) if kind else encode_json_header(command)
    except (UnicodeEncodeError, struct.error) as error:
        raise unsendable(error, kind.name) from error
    size = len(header)
    if size + body_length > MAX_FRAME - 8:
        raise too_long(size + body_length + 8)
    return _pack_head(4 + size + body_length, kind << 24 | size) + header


def encode_short_reply(code: int, ext_fields: dict[str, str], opaque: int) -> bytes:
    """Like `encode_frame`, at once, for a reply of ours with a JSON header and without remark and body."""
    try:
        header = _SHORT_REPLY % (code, write_json(ext_fields), opaque)
    except UnicodeEncodeError as error:
        raise unsendable(error) from error
    size = len(header)
    if size > MAX_FRAME - 8:
        raise too_long(size + 8)
    return _pack_head(4 + size, size) + header


def unsendable(error: Exception, kind: str = "JSON") -> LocalProtocolError:
    """Return the error for a text or number that this kind of header cannot hold."""
    return LocalProtocolError(f"this header cannot be sent as {kind}: {error}")


def too_long(size: int) -> LocalProtocolError:
    """Return the error for a frame of `size` bytes, over the limit."""
    return LocalProtocolError(f"a frame of {size} bytes is over the limit of {MAX_FRAME}")


def decode_frame(frame: bytes | bytearray | memoryview, direct: DirectReaders = NO_DIRECT) -> RemotingCommand:
    """Read a complete frame WITHOUT its 4-byte length; the body is copied. A request that `direct` can read
    gets a typed `header`. Raises RemoteProtocolError if the frame is invalid.
    """
    if len(frame) < _HEADER_AT:
        raise RemoteProtocolError(f"a frame of {len(frame)} bytes has no room for its header length")
    mark: int = _read_mark(frame, 0)[0]
    body_at = _HEADER_AT + (mark & 0xFFFFFF)
    if body_at > len(frame):
        raise RemoteProtocolError(f"header of {mark & 0xFFFFFF} bytes in a frame of {len(frame)}")
    return decode_parts(mark, bytes(frame[_HEADER_AT:body_at]), bytes(frame[body_at:]), direct)


def decode_parts(mark: int, header: bytes, body: bytes, direct: DirectReaders) -> RemotingCommand:
    """Read a frame given as mark, header and body. Raises RemoteProtocolError."""
    if mark < _BINARY_MARK:
        reader = direct.json.get(header[:_BEGINNING_SIZE])
        return (reader and reader.decode(header, body)) or decode_json_header(header, body)
    if mark < 2 * _BINARY_MARK:
        binary = direct.binary.get(header[:CODE_SIZE])
        return (binary and binary.decode(header, body)) or decode_binary_header(header, body)
    raise RemoteProtocolError(f"unknown serialize type {mark >> 24}")
