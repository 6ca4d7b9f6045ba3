"""Arrays, the separators of properties, and copies of many pieces of a buffer. Needs NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from codec.core.pairs import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR

Array = np.ndarray[Any, np.dtype[Any]]
NAME_END, PAIR_END = ord(NAME_VALUE_SEPARATOR), ord(PROPERTY_SEPARATOR)


def windows(data: Any, size: int, step: int = 1) -> Array:
    """View a buffer as overlapping items of `size` bytes, one every `step` bytes; indexing copies items."""
    return np.ndarray((memoryview(data).nbytes - size) // step + 1, f"V{size}", data, strides=(step,))


def bytes_at(data: Any, starts: Array, size: int) -> Array:
    """Copy `size` bytes from each start into the rows of a table."""
    if size == 0:
        return np.empty((len(starts), 0), dtype=np.uint8)
    return windows(data, size)[starts].view(np.uint8).reshape(-1, size)


def distinct(numbers: Array) -> list[int]:
    """Return each of some small numbers, none below 0, once and in order.

    numpy.unique takes ten times as long.
    """
    found: list[int] = np.flatnonzero(np.bincount(numbers)).tolist()
    return found


def ends_of(lengths: Array, dtype: Any = np.int32) -> Array:
    """Return where each of adjacent pieces begins, and the end of the last."""
    ends = np.zeros(len(lengths) + 1, dtype)
    np.cumsum(lengths, out=ends[1:])
    return ends
