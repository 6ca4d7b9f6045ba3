"""The bit map of a consume-queue extension entry: a bloom filter of the groups that select the message (Java
`BloomFilter`).

A group, under the name `group#topic`, has `hashes` positions of `bits`. Position 0 is the lowest bit of
the first byte.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from rmqcli.codec.bodies.filters import BloomFilterData

MASK_64 = 0xFFFFFFFFFFFFFFFF
C1 = 0x87C37B91114253D5
C2 = 0x4CF5AD432745937F
BLOCK = 16


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """A bloom filter with `hashes` positions for each name and `bits` positions in total."""

    hashes: int
    bits: int

    @classmethod
    def of(cls, error_rate: int, expected: int) -> BloomFilter:
        """Create a filter for an error rate in percent (1 to 99) and a number of names (from 1). Raises
        ValueError.
        """
        if not 1 <= error_rate <= 99:
            raise ValueError(f"an error rate of {error_rate} %; it must be from 1 to 99")
        if expected < 1:
            raise ValueError(f"{expected} names expected; it must be at least 1")
        rate = error_rate / 100.0
        hashes = math.ceil(_log(0.5, rate))
        bits = math.ceil(expected * _log(2, 1 / rate) * _log(2, math.e))
        return cls(hashes, 8 * math.ceil(bits / 8))

    @property
    def size(self) -> int:
        """The size of a bit map, in bytes."""
        return self.bits // 8

    def positions(self, name: str) -> tuple[int, ...]:
        """Return the positions of the bits of a name; one may occur twice."""
        digest = murmur3_128(name.encode("utf-8", "replace"))
        low, high = _int32(digest), _int32(digest >> 32)
        steps = (_int32(low + step * high) for step in range(1, self.hashes + 1))
        # As in Java, the bits are inverted: -2**31 has no positive counterpart in 32 bits.
        return tuple((~step if step < 0 else step) % self.bits for step in steps)

    def data(self, name: str) -> BloomFilterData:
        """Return the positions of a name in the form of consumerFilter.json."""
        return BloomFilterData(bit_pos=self.positions(name), bit_num=self.bits)

    def owns(self, data: BloomFilterData | None) -> bool:
        """Return True if the positions are those of an equal filter, so that each is in the bit map."""
        return (
            data is not None
            and data.bit_num == self.bits
            and len(data.bit_pos) == self.hashes
            and all(0 <= position < self.bits for position in data.bit_pos)
        )

    def bit_map(self, names: Iterable[BloomFilterData]) -> bytes:
        """Return the bit map with the bits of these names."""
        bits = bytearray(self.size)
        for data in names:
            for position in data.bit_pos:
                bits[position >> 3] |= 1 << (position & 7)
        return bytes(bits)

    def may_hold(self, bit_map: bytes, data: BloomFilterData) -> bool:
        """Return False if the name is certainly not in the bit map."""
        return all(bit_map[position >> 3] >> (position & 7) & 1 for position in data.bit_pos)


def _log(base: float, value: float) -> float:
    # A quotient of natural logarithms, not math.log2: its rounding decides whether `ceil` adds one.
    return math.log(value) / math.log(base)


def _int32(value: int) -> int:
    return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


def murmur3_128(data: bytes) -> int:
    """Return the first half of MurmurHash3 x64 128 with seed 0, unsigned (Guava `murmur3_128().asLong()`)."""
    first = second = 0
    whole = len(data) - len(data) % BLOCK
    for at in range(0, whole, BLOCK):
        first ^= _mix(int.from_bytes(data[at : at + 8], "little"), C1, 31, C2)
        first = (_rotated(first, 27) + second) * 5 + 0x52DCE729 & MASK_64
        second ^= _mix(int.from_bytes(data[at + 8 : at + BLOCK], "little"), C2, 33, C1)
        second = (_rotated(second, 31) + first) * 5 + 0x38495AB5 & MASK_64
    rest = data[whole:]
    first ^= _mix(int.from_bytes(rest[:8], "little"), C1, 31, C2) ^ len(data)
    second ^= _mix(int.from_bytes(rest[8:], "little"), C2, 33, C1) ^ len(data)
    first = first + second & MASK_64
    second = second + first & MASK_64
    return _finished(first) + _finished(second) & MASK_64


def _mix(block: int, before: int, turn: int, after: int) -> int:
    return _rotated(block * before & MASK_64, turn) * after & MASK_64


def _rotated(value: int, turn: int) -> int:
    return (value << turn | value >> 64 - turn) & MASK_64


def _finished(value: int) -> int:
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        value = (value ^ value >> 33) * factor & MASK_64
    return value ^ value >> 33
