"""The number of distinct values, counted exactly up to a limit and estimated above it, in bounded memory.

The estimate is that of the k minimum values: of n distinct hashes, spread over [0, 2**64), the k-th smallest
is near k / n of the range. Its standard error is 1 / sqrt(k - 2).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from hashlib import blake2b

KEPT = 1024
"""Hashes that are kept: 8 KiB, up to 16 KiB between two cuts; a standard error of 3 %."""
_RANGE = 1 << 64


def hash_of(value: bytes) -> int:
    """Return 64 bits that are the same in every process."""
    return int.from_bytes(blake2b(value, digest_size=8).digest(), "big")


class Distinct:
    def __init__(self) -> None:
        self._hashes = array("Q")
        self._limit = _RANGE

    def add(self, hashes: Iterable[int]) -> None:
        limit = self._limit
        self._hashes.extend(one for one in hashes if one < limit)
        if len(self._hashes) >= 2 * KEPT:
            self._cut()

    def _cut(self) -> None:
        found = sorted(set(self._hashes))
        if len(found) > KEPT:
            del found[KEPT:]
            self._limit = found[-1] + 1
        self._hashes = array("Q", found)

    @property
    def is_exact(self) -> bool:
        return self._limit == _RANGE

    @property
    def count(self) -> int:
        self._cut()
        if self.is_exact:
            return len(self._hashes)
        return round((len(self._hashes) - 1) * _RANGE / self._hashes[-1])
