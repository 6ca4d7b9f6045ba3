"""Slices of a buffer as an Arrow array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["pieces"]

Array = np.ndarray[Any, np.dtype[Any]]


def pieces(data: pa.Buffer, starts: Array, ends: Array) -> pa.BinaryArray:
    """Copies of data[start:end]: the buffer itself serves as the data of an array in which these and what is between them take turns.

    The more of that array is wanted, the better Arrow knows beforehand how much room the copy takes.
    """
    cuts = np.stack((starts, ends), axis=1).ravel()
    both = pa.Array.from_buffers(pa.large_binary(), len(cuts) - 1, [None, pa.py_buffer(cuts), data])
    return both.take(pa.array(np.arange(0, len(cuts), 2))).cast(pa.binary())
