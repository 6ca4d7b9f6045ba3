"""CRCs of many bodies. zstandard's segments of a buffer are made from numbers in an array, so that a body costs neither a slice nor
a memoryview: of 1 KB 0.14 instead of 0.24 µs, of 100 B 0.11 instead of 0.20.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from codec.hashing import CRC_BITS, crc32_whole
from codec.scan.columns import FixedColumns

__all__ = ["find_bad_crc"]

Buffer = bytes | bytearray | memoryview
Array = np.ndarray[Any, np.dtype[Any]]


def find_bad_crc(buffer: Buffer, rows: FixedColumns) -> list[int]:
    """The row numbers whose body does not have the stored CRC; the CRC of an empty body is not looked at, as in Java."""
    if len(rows) == 0:
        return []
    lengths = rows["body_length"]
    crcs = map(crc32_whole, _bodies(buffer, rows["body_start"], lengths))
    found = np.fromiter(crcs, dtype=np.int64, count=len(rows)) & CRC_BITS
    bad: list[int] = np.flatnonzero((found != rows["body_crc"]) & (lengths > 0)).tolist()
    return bad


def _bodies(buffer: Buffer, starts: Array, lengths: Array) -> Iterator[Any]:
    import zstandard

    segments = getattr(zstandard, "BufferWithSegments", None)
    if segments is None:  # zstandard without its C code, as on PyPy
        return map(memoryview(buffer).__getitem__, map(slice, starts.tolist(), (starts + lengths).tolist()))
    places = np.stack((starts, lengths), axis=1).astype(np.uint64)
    return iter(segments(buffer, places))
