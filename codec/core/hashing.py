"""Hashes and checksums that Java computes and stores.

`String.hashCode` runs over UTF-16 units: h = 31 * h + unit in 32-bit two's complement, where a character
outside the basic plane counts as two units. Checksums are zlib's CRC-32 without its top bit
(`UtilAll.crc32`); zlib-ng computes the same number ten times as fast and is used if it is installed.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i64_be
from mypy_extensions import i64

try:
    from zlib_ng.zlib_ng import crc32 as crc32_whole
except ImportError:
    from zlib import crc32 as crc32_whole

__all__ = [
    "CRC_BITS",
    "crc32",
    "crc32_whole",
    "extended",
    "index_hash",
    "index_key_hash",
    "index_seed",
    "java_string_hash",
    "signed",
    "tags_code",
]

CRC_BITS: Final = 0x7FFFFFFF
"""The bits of a CRC that are stored."""
_MASK: Final[i64] = 0xFFFFFFFF
_SIGN: Final[i64] = 0x80000000
_RANGE: Final[i64] = 0x100000000
# Not a literal, because mypyc makes a Python object of a literal with more than 63 bits.
_NOT_ASCII: Final[i64] = int.from_bytes(b"\x80" * 8, "big", signed=True)
"""The highest bit of each of eight bytes."""
_POWER_1: Final[i64] = 31
_POWER_2: Final[i64] = 31**2
_POWER_3: Final[i64] = 31**3
_POWER_4: Final[i64] = 31**4
_POWER_5: Final[i64] = 31**5
_POWER_6: Final[i64] = 31**6
_POWER_7: Final[i64] = 31**7 & 0xFFFFFFFF
_POWER_8: Final[i64] = 31**8 & 0xFFFFFFFF


def extended(seed: i64, data: bytes, begin: i64, end: i64) -> i64:
    """Return the unsigned hash of a text whose beginning has the hash `seed` and whose rest is UTF-8 in
    [begin, end) of `data`.
    """
    value: i64 = seed
    at: i64 = begin
    # Eight bytes at once take a third of the time, because no product waits for the one before.
    while at + 8 <= end:
        word: i64 = read_i64_be(data, at)
        if word & _NOT_ASCII:
            break
        value = (
            # The product may wrap around in 64 bits, which does not affect the low 32.
            value * _POWER_8
            + (word >> 56) * _POWER_7
            + (word >> 48 & 0xFF) * _POWER_6
            + (word >> 40 & 0xFF) * _POWER_5
            + (word >> 32 & 0xFF) * _POWER_4
            + (word >> 24 & 0xFF) * _POWER_3
            + (word >> 16 & 0xFF) * _POWER_2
            + (word >> 8 & 0xFF) * _POWER_1
            + (word & 0xFF)
        ) & _MASK
        at += 8
    while at < end:
        unit: i64 = data[at]
        if unit > 127:
            # All bytes before are ASCII, so the rest begins with a whole character.
            return _extended_by_units(value, data[at:end].decode("utf-8", "replace"))
        value = (value * _POWER_1 + unit) & _MASK
        at += 1
    return value


def _extended_by_units(seed: i64, text: str) -> i64:
    """Do the same as `extended` for a rest that is not ASCII."""
    value: i64 = seed
    for character in text:
        code: i64 = ord(character)
        if code > 0xFFFF:
            # UTF-16 writes these characters as two surrogates, which Java hashes one after the other.
            code -= 0x10000
            value = (value * 31 + 0xD800 + (code >> 10)) & _MASK
            code = 0xDC00 + (code & 0x3FF)
        value = (value * 31 + code) & _MASK
    return value


def signed(value: i64) -> i64:
    """Return the int32 with these 32 bits."""
    return value - _RANGE if value >= _SIGN else value


def index_hash(value: i64) -> i64:
    """Return the hash of an index item, given the unsigned hash of `topic#key`: its absolute value, or 0 for
    the smallest int32 (`IndexFile.indexKeyHashMethod`).
    """
    if value < _SIGN:
        return value
    return (_RANGE - value) & CRC_BITS


def index_seed(topic: str) -> int:
    """Return the unsigned hash of `topic#`, with which the hashes of a topic's keys begin."""
    return _extended_by_units(0, topic + "#")


def java_string_hash(text: str) -> int:
    """Return `String.hashCode` of a text, a signed 32-bit number."""
    return signed(_extended_by_units(0, text))


def index_key_hash(topic: str, key: str) -> int:
    """Return the hash of a key of a topic in an index item."""
    return index_hash(_extended_by_units(index_seed(topic), key))


def tags_code(tags: str | None) -> int:
    """Return the tags code of a consume-queue entry: the hashCode of TAGS, 0 without tags."""
    return java_string_hash(tags) if tags else 0


def crc32(data: bytes | bytearray | memoryview) -> int:
    """Return the CRC of a body: zlib's CRC-32 in 31 bits."""
    return crc32_whole(data) & CRC_BITS
