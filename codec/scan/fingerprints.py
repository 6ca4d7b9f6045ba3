"""Keyed fingerprints of 64 bits, which are summed: collections of rows with equal sums are equal. Needs NumPy.

Those of different collections are equal once in 2**64 times, also for bytes that somebody chose who does not
know the key.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from codec.scan.arrays import Array, bytes_at, distinct

_HALF, _SHIFT = np.uint64(32), np.uint64(33)
_WORD = 8


class Fingerprints(NamedTuple):
    """The key: a first value and a factor, of 64 bits each. The factor is odd."""

    first: int
    factor: int

    @classmethod
    def of(cls, secret: int) -> Fingerprints:
        """Returns the key that is made of 128 random bits."""
        return cls(secret >> 64 & (1 << 64) - 1, secret & (1 << 64) - 1 | 1)

    def of_columns(self, *columns: Any) -> Array:
        """Returns the fingerprint of each row of these columns of whole numbers."""
        factor = np.uint64(self.factor)
        found = np.full(len(columns[0]), self.first, np.uint64)
        for column in columns:
            found ^= np.asarray(column).astype(np.uint64)
            # Only then the product: it carries bits upwards, and one of the upper half would not spread.
            found ^= found >> _HALF
            found *= factor
        found ^= found >> _SHIFT
        found *= factor
        found ^= found >> _SHIFT
        return found

    def of_texts(self, data: Any, starts: Array, ends: Array) -> Array:
        """Returns the fingerprint of each text data[start:end]."""
        lengths = ends - starts
        found = np.empty(len(starts), np.uint64)
        for length in distinct(lengths):
            chosen = np.flatnonzero(lengths == length)
            table = np.zeros((len(chosen), -(-length // _WORD) * _WORD), np.uint8)
            table[:, :length] = bytes_at(data, starts[chosen], length)
            words = table.view(np.uint64).T
            found[chosen] = self.of_columns(np.full(len(chosen), length), *words)
        return found
