"""Slices of a buffer as an Arrow array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["of_one_width", "pieces"]

Array = np.ndarray[Any, np.dtype[Any]]


def pieces(data: pa.Buffer, starts: Array, ends: Array) -> pa.BinaryArray:
    """Copies of data[start:end].

    Where they are of different lengths, the buffer itself serves as the data of an array in which these and what is between them
    take turns. The more of that array is wanted, the better Arrow knows beforehand how much room the copy takes.
    """
    lengths = ends - starts
    if len(lengths) and lengths[0] > 0 and (lengths == lengths[0]).all():
        width = int(lengths[0])
        windows = np.ndarray(data.size - width + 1, f"V{width}", data, strides=(1,))
        return of_one_width(windows[starts], pa.binary())
    cuts = np.stack((starts, ends), axis=1).ravel()
    both = pa.Array.from_buffers(pa.large_binary(), len(cuts) - 1, [None, pa.py_buffer(cuts), data])
    return both.take(pa.array(np.arange(0, len(cuts), 2))).cast(pa.binary())


def of_one_width(items: Array, kind: pa.DataType) -> pa.Array:
    """An array of texts or bytes from items without gaps."""
    ends = np.arange(0, items.nbytes + 1, items.itemsize, dtype=np.int32)
    return pa.Array.from_buffers(kind, len(items), [None, pa.py_buffer(ends), pa.py_buffer(items)])
