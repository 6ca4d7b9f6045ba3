"""Reader of the ext fields in a binary header (`RocketMQSerializable`), whose layout
`rmqcli.codec.remoting.binary_header` declares.

Text that is not UTF-8 is read with replacement characters. Bytes after the block of ext fields are ignored.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i16_be, read_i32_be
from mypy_extensions import i64

from rmqcli.codec.errors import RemoteProtocolError

TEXT: Final = 0
"""Kinds of fields for `read_values`: any text; whole numbers of at most 9 or 18 digits; `true` or `false`."""
INT32: Final = 1
INT64: Final = 2
BOOL: Final = 3

_NAME_LENGTH: Final[i64] = 2
_VALUE_LENGTH: Final[i64] = 4
# Numbers of 9 digits fit into 32 bits, those of 18 into 64; longer ones are left to the general reader.
_DIGITS: Final[i64] = 9
_ZERO: Final[i64] = ord("0")
_NINE: Final[i64] = ord("9")


def _block_end(header: bytes, at: i64) -> i64:
    """Return the end of the block of ext fields whose length is at a position. Raises RemoteProtocolError."""
    limit: i64 = len(header)
    if at + _VALUE_LENGTH > limit:
        raise RemoteProtocolError(f"a binary header of {limit} bytes ends too early")
    end: i64 = at + _VALUE_LENGTH + i64(read_i32_be(header, at))
    if not at + _VALUE_LENGTH <= end <= limit:
        raise RemoteProtocolError(f"ext fields end at {end} in a binary header of {limit} bytes")
    return end


def _next_entry(header: bytes, at: i64, end: i64) -> tuple[i64, i64, i64]:
    """Return the end of the name, and the begin and end of the value, of the ext field at a position.

    Raises RemoteProtocolError unless the whole field is before the end of the block.
    """
    name_at: i64 = at + _NAME_LENGTH
    if name_at > end:
        raise RemoteProtocolError(f"a binary header of {len(header)} bytes ends too early")
    name_end: i64 = name_at + i64(read_i16_be(header, at))
    value_at: i64 = name_end + _VALUE_LENGTH
    if name_end < name_at:
        raise RemoteProtocolError(f"the name of an ext field has {name_end - name_at} bytes")
    if value_at > end:
        raise RemoteProtocolError(f"a binary header of {len(header)} bytes ends too early")
    value_end: i64 = value_at + i64(read_i32_be(header, name_end))
    if not value_at <= value_end <= end:
        raise RemoteProtocolError(f"an ext field ends at {value_end}, their block at {end}")
    return name_end, value_at, value_end


def read_entries(header: bytes, at: i64) -> dict[str, str]:
    """Return the ext fields of the block whose length is at a position. Raises RemoteProtocolError."""
    end: i64 = _block_end(header, at)
    found: dict[str, str] = {}
    at += _VALUE_LENGTH
    while at < end:
        name_end, value_at, value_end = _next_entry(header, at, end)
        name = header[at + _NAME_LENGTH : name_end].decode("utf-8", "replace")
        found[name] = header[value_at:value_end].decode("utf-8", "replace")
        at = value_end
    return found


def read_values(
    header: bytes, at: i64, fields: dict[bytes, tuple[int, int]], defaults: list[object], required: i64
) -> list[object] | None:
    """Return the values of the ext fields that `read_entries` finds, in the order of `defaults`.

    `fields` has index and kind by wire name; the bits of `required` stand for the indexes of fields without a
    default. Returns None if only the general reader can decide: for a missing, unknown or repeated name, and
    for a number or a bool not written as Java does. Raises RemoteProtocolError.
    """
    end: i64 = _block_end(header, at)
    values = defaults.copy()
    seen: i64 = 0
    at += _VALUE_LENGTH
    while at < end:
        name_end, value_at, value_end = _next_entry(header, at, end)
        field = fields.get(header[at + _NAME_LENGTH : name_end])
        if field is None:
            return None
        place, kind = field
        bit: i64 = 1
        bit <<= place
        if seen & bit:
            return None
        seen |= bit
        if kind == TEXT:
            values[place] = header[value_at:value_end].decode("utf-8", "replace")
        else:
            value = _value(header, value_at, value_end, kind)
            if value is None:
                return None
            values[place] = value
        at = value_end
    return values if seen & required == required else None


def _value(text: bytes, begin: i64, end: i64, kind: int) -> object:
    """Return the bool or number that some bytes represent in the usual form; None if they do not."""
    if kind == BOOL:
        value = text[begin:end]
        return value == b"true" if value in {b"true", b"false"} else None
    digits: i64 = _DIGITS if kind == INT32 else 2 * _DIGITS
    if not begin < end <= begin + digits or (text[begin] == _ZERO and end > begin + 1):
        return None
    number: i64 = 0
    for at in range(begin, end):
        digit: i64 = text[at]
        if not _ZERO <= digit <= _NINE:
            return None
        number = number * 10 + digit - _ZERO
    return number
