"""Hashes and checksums that Java computes and stores.

`String.hashCode` runs over UTF-16 units: h = 31 * h + unit in 32-bit two's complement, where a character
outside the basic plane counts as two units. Checksums are zlib's CRC-32 without its top bit
(`UtilAll.crc32`); zlib-ng computes the same number ten times as fast and is used where it is installed.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from operator import add, mul
from typing import TypeVar

try:
    from zlib_ng.zlib_ng import crc32 as crc32_whole
except ImportError:
    from zlib import crc32 as crc32_whole

__all__ = [
    "CRC_BITS",
    "crc32",
    "crc32_of_each",
    "crc32_whole",
    "index_key_hash",
    "index_key_hashes",
    "index_key_hashes_of_tails",
    "java_string_hash",
    "tags_code",
]

Key = TypeVar("Key")

MASK = 0xFFFFFFFF
SIGN = 0x80000000
CRC_BITS = 0x7FFFFFFF
"""The bits of a CRC that are stored."""
CHUNK = 64
"""UTF-16 units that are summed at once; longer texts are summed in chunks."""
TAIL = 4
"""Characters at the end of a key that are hashed apart, two by two: the counter of a UNIQ_KEY; all before it is
the same for the messages that a client makes within a millisecond."""
MOST_HEADS = 4
"""Heads of keys that are hashed together: a client makes most messages of a batch in one or two milliseconds."""
MAX_HEADS = 4096
"""Cached hashes of heads and short keys; at the limit a cache starts again."""

POWERS: tuple[tuple[int, ...], ...] = tuple(
    tuple(pow(31, n - 1 - i, 1 << 32) for i in range(n)) for n in range(CHUNK + 1)
)
"""POWERS[n][i]: the weight of unit i in a text of n units."""
SCALES: tuple[int, ...] = tuple(pow(31, n, 1 << 32) for n in range(CHUNK + 1))

_heads: dict[tuple[str, str], int] = {}
"""By topic and head: the hash that the head adds to that of any tail."""
_short_keys: dict[tuple[str, str], int] = {}
"""By topic and key: the hashes of keys that are no longer than a tail would be."""


Characters = TypeVar("Characters", str, bytes)


class _Pairs(dict[Characters, int]):
    """The parts of two ASCII characters in a hash, `behind` which others follow; each is computed once."""

    def __init__(self, behind: int) -> None:
        super().__init__()
        self._scale = SCALES[behind]

    def __missing__(self, pair: Characters) -> int:
        """KeyError unless both are ASCII."""
        if not pair.isascii():
            raise KeyError(pair)
        units = pair if isinstance(pair, bytes) else _units(pair)
        value = self[pair] = _extend(0, units) * self._scale
        return value


_third_last, _last = _Pairs[str](2), _Pairs[str](0)
"""By the two characters that begin a tail, and by those that end it."""
_third_last_of, _last_of = _Pairs[bytes](2).__getitem__, _Pairs[bytes](0).__getitem__
"""The same of encoded characters."""
_MOST_TAIL = 127 * sum(POWERS[TAIL])
"""The most that a tail adds to a hash."""


def java_string_hash(text: str) -> int:
    """`String.hashCode` of a text, a signed 32-bit number."""
    return _signed(_extend(0, _units(text)))


def index_key_hash(topic: str, key: str) -> int:
    """The hash of a key in an index item (`IndexFile`): abs(hashCode of `topic#key`), 0 for the smallest
    int32."""
    try:
        if len(key) > TAIL:
            value = _heads[topic, key[:-TAIL]] + _third_last[key[-TAIL:-2]] + _last[key[-2:]] & MASK
        else:
            value = _short_keys[topic, key]
    except KeyError:
        value = _learn(topic, key)
    return value if value < SIGN else -value & CRC_BITS


def index_key_hashes(topic: str, keys: Sequence[str]) -> list[int]:
    """As `index_key_hash` of each: together, if they have few heads."""
    heads = [key[:-TAIL] for key in keys]
    different = {*heads}
    if len(different) > MOST_HEADS or "" in different:
        return [index_key_hash(topic, key) for key in keys]
    bases = {head: _heads.get((topic, head)) or _learned_head(topic, head) for head in different}
    third_last, last = _third_last, _last
    try:
        if len(bases) == 1:
            base = bases[heads[0]]
            values = [base + third_last[key[-TAIL:-2]] + last[key[-2:]] & MASK for key in keys]
        else:
            values = [
                bases[head] + third_last[key[-TAIL:-2]] + last[key[-2:]] & MASK
                for head, key in zip(heads, keys, strict=True)
            ]
    except KeyError:
        return [index_key_hash(topic, key) for key in keys]
    return [value if value < SIGN else -value & CRC_BITS for value in values]


def index_key_hashes_of_tails(
    topic: str, head: str, thirds: Sequence[bytes], lasts: Sequence[bytes]
) -> list[int]:
    """As `index_key_hash` of keys that begin with `head`, given the ASCII characters of their tails, two by
    two.
    """
    base, parts = _heads.get((topic, head)) or _learned_head(topic, head), map(_last_of, lasts)
    if thirds and thirds.count(thirds[0]) == len(thirds):
        base = base + _third_last_of(thirds[0]) & MASK
    else:
        parts = map(add, map(_third_last_of, thirds), parts)
    if base + _MOST_TAIL < SIGN:
        return [base + part for part in parts]
    if SIGN < base < MASK - _MOST_TAIL:
        base = MASK + 1 - base
        return [base - part for part in parts]
    return [value if (value := base + part & MASK) < SIGN else -value & CRC_BITS for part in parts]


@lru_cache(maxsize=4096)
def tags_code(tags: str | None) -> int:
    """The tags code of a consume-queue entry: the hashCode of TAGS, 0 without tags."""
    return java_string_hash(tags) if tags else 0


def crc32(data: bytes | bytearray | memoryview) -> int:
    """The CRC of a body: zlib's CRC-32 in 31 bits."""
    return crc32_whole(data) & CRC_BITS


def crc32_of_each(bodies: Sequence[bytes]) -> list[int]:
    """The `crc32` of each body."""
    return [crc32_whole(body) & CRC_BITS for body in bodies]


def _units(text: str) -> Sequence[int]:
    if text.isascii():
        return text.encode("ascii")
    data = text.encode("utf-16-be", "surrogatepass")
    return struct.unpack(f">{len(data) // 2}H", data)


def _extend(value: int, units: Sequence[int]) -> int:
    """The unsigned hash of a text that consists of a text with hash `value` and these units."""
    count = len(units)
    if count <= CHUNK:
        sums: int = value * SCALES[count] + sum(map(mul, units, POWERS[count]))
        return sums & MASK
    for start in range(0, count, CHUNK):
        value = _extend(value, units[start : start + CHUNK])
    return value


def _learn(topic: str, key: str) -> int:
    """The unsigned hash of `topic#key`, for which the caches keep its head, unless the tail is not ASCII."""
    head, tail = key[:-TAIL], key[-TAIL:]
    if head and tail.isascii():
        return _extend(0, _units(tail)) + _learned_head(topic, head) & MASK
    value = _extend(_topic_hash(topic), _units(key))
    if not head:
        _remember(_short_keys, MAX_HEADS, (topic, key), value)
    return value


def _learned_head(topic: str, head: str) -> int:
    base = _heads.get((topic, head))
    if base is None:
        base = _extend(_topic_hash(topic), _units(head)) * SCALES[TAIL] & MASK
        _remember(_heads, MAX_HEADS, (topic, head), base)
    return base


@lru_cache(maxsize=4096)
def _topic_hash(topic: str) -> int:
    return _extend(0, _units(f"{topic}#"))


def _remember(cache: dict[Key, int], limit: int, key: Key, value: int) -> None:
    if len(cache) >= limit:
        cache.clear()
    cache[key] = value


def _signed(value: int) -> int:
    return value - 0x100000000 if value >= 0x80000000 else value
