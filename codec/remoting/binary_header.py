"""The binary header of a frame (`RocketMQSerializable`, serialize type 1).

`BINARY_HEADER` declares all of it. Code and version have 16 bits, so the POP codes of 5.x need JSON. An
empty remark and an empty block of ext fields are the same as none; the order of ext fields is kept. Text
that is not UTF-8 is read with replacement characters, as in Java. Bytes after the ext fields are ignored.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

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

from codec.codes import SerializeType
from codec.errors import RemoteProtocolError
from codec.layout import fused
from codec.remoting.command import RemotingCommand

# Java's lengths are signed. Read as unsigned, a negative one is longer than any header: one check for both.
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
_read16: Final = _LENGTH16.unpack_from
_read32: Final = _LENGTH32.unpack_from


def encode_binary_header(command: RemotingCommand) -> bytes:
    """Encodes the header. Raises struct.error for what is too large, UnicodeEncodeError for a lone
    surrogate."""
    remark = command.remark.encode() if command.remark else b""
    head = _HEAD.pack(
        command.code, command.language, command.version, command.opaque, command.flag, len(remark)
    )
    block = b"".join(_entry_parts(command.ext_fields)) if command.ext_fields else b""
    return b"".join((head, remark, _LENGTH32.pack(len(block)), block))


def binary_entry(name: str, value: str) -> bytes:
    """One ext field as it is written. Raises what `encode_binary_header` raises."""
    return b"".join(_entry_parts({name: value}))


def pieces_around(command: RemotingCommand, names: Sequence[str]) -> list[bytes]:
    """The header without its opaque number and the values of its last ext fields, which have these names:
    what is before, between and behind them. Raises what `encode_binary_header` raises."""
    header, ext_fields = encode_binary_header(command), command.ext_fields or {}
    entries = [binary_entry(name, ext_fields[name]) for name in names]
    first = header[OPAQUE_AT + OPAQUE.size : len(header) - sum(map(len, entries))]
    heads = [
        entry[: len(entry) - len(ext_fields[name].encode())]
        for name, entry in zip(names, entries, strict=True)
    ]
    return [header[:OPAQUE_AT], first + heads[0], *heads[1:]]


def lengthened(beginning: bytes, size: int, more: int) -> bytes:
    """The beginning of a header without a remark, up to the value of an ext field that gets another `size`,
    which is by `more` longer."""
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


def decode_binary_header(header: bytes, body: bytes) -> RemotingCommand:
    try:
        code, language, version, opaque, flag, remark_size = _HEAD.unpack_from(header)
        remark_end = _HEAD.size + remark_size
        (ext_size,) = _LENGTH32.unpack_from(header, remark_end)
        start = remark_end + 4
        ext_fields = _read_entries(header, start, start + ext_size) if ext_size else None
    except struct.error as error:
        raise RemoteProtocolError(f"a binary header of {len(header)} bytes ends too early") from error
    remark = header[_HEAD.size : remark_end].decode("utf-8", "replace") if remark_size else None
    return RemotingCommand(
        code, ext_fields, body, opaque, flag, remark, language, version, SerializeType.ROCKETMQ
    )


def _read_entries(header: bytes, position: int, end: int) -> dict[str, str]:
    if end > len(header):
        raise RemoteProtocolError(f"ext fields end at {end} in a binary header of {len(header)} bytes")
    # slices of a text are cheaper than bytes decoded one by one, and right while they are ASCII
    text = header.decode("latin-1")
    ext_fields: dict[str, str] = {}
    while position < end:
        name_at = position + 2
        name_end = name_at + _read16(header, position)[0]
        value_at = name_end + 4
        if name_end < name_at:
            raise RemoteProtocolError(f"the name of an ext field has {name_end - name_at} bytes")
        position = value_at + _read32(header, name_end)[0]
        if position > end:
            raise RemoteProtocolError(f"an ext field ends at {position}, their block at {end}")
        name, value = text[name_at:name_end], text[value_at:position]
        if not name.isascii():
            name = header[name_at:name_end].decode("utf-8", "replace")
        if not value.isascii():
            value = header[value_at:position].decode("utf-8", "replace")
        ext_fields[name] = value
    return ext_fields
