"""The binary header of a frame (`RocketMQSerializable`, serialize type 1).

`BINARY_HEADER` declares all of it. Code and version have 16 bits, so the POP codes of 5.x need JSON. An empty
remark means no remark, an empty block no ext fields; the order of ext fields is kept. Text that is not UTF-8
is read with replacement characters, as in Java. Bytes after the ext fields are ignored.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Generic

from construct import (
    Bytes,
    GreedyBytes,
    GreedyRange,
    Int8sb,
    Int16sb,
    Int32sb,
    Int32ub,
    Prefixed,
    Struct,
    this,
)

from rmqcli.codec.codes import SerializeType
from rmqcli.codec.core.heads import read_entries, read_values
from rmqcli.codec.errors import RemoteProtocolError
from rmqcli.codec.headers.base import HeaderT, defaults_of, kinds_of, maker_of
from rmqcli.codec.layout import fused
from rmqcli.codec.remoting.command import RemotingCommand

# Java's lengths are signed. Read as unsigned, a negative one exceeds any header, so that one check suffices.
_BINARY_HEAD = Struct(
    "code" / Int16sb,
    "language" / Int8sb,
    "version" / Int16sb,
    "opaque" / Int32sb,
    "flag" / Int32sb,
    "remark_length" / Int32ub,
)
_EXT_FIELD = Struct("name" / Prefixed(Int16sb, GreedyBytes), "value" / Prefixed(Int32ub, GreedyBytes))

BINARY_HEADER = Struct(
    "head" / _BINARY_HEAD,
    "remark" / Bytes(this.head.remark_length),
    "ext_fields" / Prefixed(Int32ub, GreedyRange(_EXT_FIELD)),
)
"""The whole binary header as a declaration; tests compare the fast reader below with it."""

_HEAD: Final = fused(_BINARY_HEAD)
OPAQUE: Final = _HEAD.part("opaque")
OPAQUE_AT: Final = _HEAD.offsets["opaque"]
_LENGTH16: Final = fused(Struct("length" / Int16sb))
_LENGTH32: Final = fused(Struct("length" / Int32ub))


def encode_binary_header(command: RemotingCommand) -> bytes:
    """Encode the header. Raises struct.error if something is too large, UnicodeEncodeError for a lone
    surrogate.
    """
    remark = command.remark.encode() if command.remark else b""
    head = _HEAD.pack(
        command.code, command.language, command.version, command.opaque, command.flag, len(remark)
    )
    block = b"".join(_entry_parts(command.ext_fields)) if command.ext_fields else b""
    return b"".join((head, remark, _LENGTH32.pack(len(block)), block))


def binary_entry(name: str, value: str) -> bytes:
    """Return one encoded ext field. Raises the errors of `encode_binary_header`."""
    return b"".join(_entry_parts({name: value}))


def pieces_between(command: RemotingCommand, names: Sequence[str]) -> list[bytes]:
    """Return the parts of the header between these: its opaque number, the length of its ext fields, and the
    length and value of each of the last ext fields, which have the names `names`. Raises the errors of
    `encode_binary_header`.
    """
    header, ext_fields = encode_binary_header(command), command.ext_fields or {}
    after_opaque = OPAQUE_AT + OPAQUE.size
    remark_end = _HEAD.size + len((command.remark or "").encode())
    constant = b"".join(binary_entry(name, ext_fields[name]) for name in ext_fields if name not in names)
    entries = [_written_name(name) for name in names]
    return [header[:OPAQUE_AT], header[after_opaque:remark_end], constant + entries[0], *entries[1:]]


def lengthened(beginning: bytes, size: int, more: int) -> bytes:
    """Return the beginning of a header, without a remark and up to the value of an ext field, with its
    lengths changed for a value of `size` bytes, which is `more` bytes longer.
    """
    (block,) = _LENGTH32.unpack_from(beginning, _HEAD.size)
    fields = beginning[_HEAD.size + _LENGTH32.size : -_LENGTH32.size]
    return b"".join((beginning[: _HEAD.size], _LENGTH32.pack(block + more), fields, _LENGTH32.pack(size)))


def _entry_parts(ext_fields: dict[str, str]) -> list[bytes]:
    parts: list[bytes] = []
    for name, value in ext_fields.items():
        text = value.encode()
        parts += (_written_name(name), _LENGTH32.pack(len(text)), text)
    return parts


@lru_cache(maxsize=1024)
def _written_name(name: str) -> bytes:
    written = name.encode()
    return _LENGTH16.pack(len(written)) + written


_ROCKETMQ: Final = SerializeType.ROCKETMQ
CODE_SIZE: Final = _HEAD.part("code").size


class BinaryReader(Generic[HeaderT]):
    """A reader of the requests with one code that creates their typed header, as `DirectReader` does for
    JSON.
    """

    def __init__(self, header: type[HeaderT]) -> None:
        self._make = maker_of(header)
        self._fields = kinds_of(header)
        self._defaults, self._required = defaults_of(header)

    def decode(self, header: bytes, body: bytes) -> RemotingCommand | None:
        """Return the command, or None if only the general reader can read the header."""
        if len(header) < _HEAD.size:
            return None
        code, language, version, opaque, flag, remark_size = _HEAD.unpack_from(header)
        if remark_size:
            return None
        values = read_values(header, _HEAD.size, self._fields, self._defaults, self._required)
        if values is None:
            return None
        typed = self._make(*values)
        return RemotingCommand(code, None, body, opaque, flag, None, language, version, _ROCKETMQ, typed)


def decode_binary_header(header: bytes, body: bytes) -> RemotingCommand:
    """Return the command of a frame with this header and body. Raises RemoteProtocolError."""
    try:
        code, language, version, opaque, flag, remark_size = _HEAD.unpack_from(header)
    except struct.error as error:
        raise RemoteProtocolError(f"a binary header of {len(header)} bytes ends too early") from error
    remark_end = _HEAD.size + remark_size
    ext_fields = read_entries(header, remark_end) or None
    remark = header[_HEAD.size : remark_end].decode("utf-8", "replace") if remark_size else None
    return RemotingCommand(
        code, ext_fields, body, opaque, flag, remark, language, version, SerializeType.ROCKETMQ
    )
