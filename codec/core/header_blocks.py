"""Reader of the HTTP/2 header blocks (RFC 7541) of usual calls: those that consist of entries of the table and
of short literals, and do not change the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

_INDEXED: Final[i64] = 128
"""The bit of an entry of the table. The other bits are its index, which is never 0."""
_LONG_INDEX: Final[i64] = 255
"""The mark of an index that takes further bytes."""
_NOT_INDEXED: Final[i64] = 0
_NEVER_INDEXED: Final[i64] = 16
_LONGEST: Final[i64] = 126
"""Maximum length of a name or value. More is the mark of Huffman's code, or of a length that takes further
    bytes."""
_MOST_KNOWN: Final[i64] = 64

Field = tuple[str, str, int]
"""Name, value and size of a field."""


def plain_fields(
    block: bytes, known: dict[bytes, Field], longest: i64, find: Callable[[bytes, int], Field]
) -> dict[str, str] | None:
    """Return the fields of a block; None for one of another kind, and for fields of over `longest` bytes in
    total.

    `known` keeps the fields that were read last, by their bytes. `find` returns another one, given its bytes
    and the position in them of the length of its value, or 0 for an entry of the table.
    """
    fields: dict[str, str] = {}
    at: i64 = 0
    total: i64 = 0
    size: i64 = len(block)
    while at < size:
        begin: i64 = at
        middle: i64 = 0
        first: i64 = block[at]
        if _INDEXED < first < _LONG_INDEX:
            at += 1
        elif first in (_NOT_INDEXED, _NEVER_INDEXED):
            if begin + 1 >= size:
                return None
            length: i64 = block[begin + 1]
            value_at: i64 = begin + 2 + length
            if length > _LONGEST or value_at >= size:
                return None
            length = block[value_at]
            at = value_at + 1 + length
            if length > _LONGEST or at > size:
                return None
            middle = value_at - begin
        else:
            return None
        key = block[begin:at]
        field = known.get(key)
        if field is None:
            # Request ids and the like come once, so they would fill any cache: it begins again.
            if len(known) >= _MOST_KNOWN:
                known.clear()
            field = known[key] = find(key, middle)
        fields[field[0]] = field[1]
        total += field[2]
    return fields if total <= longest else None
