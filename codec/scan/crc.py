"""CRCs of many bodies. A body is a slice of the buffer, or, where bodies are small, one of the bytes objects that Arrow makes
of many pieces at once: for 100 bytes half the time of a slice, for 1 KB more than it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from codec.hashing import CRC_BITS, crc32_whole
from codec.scan.columns import FixedColumns

__all__ = ["find_bad_crc"]

Buffer = bytes | bytearray | memoryview
Array = np.ndarray[Any, np.dtype[Any]]

_SMALL = 512
_AT_ONCE = 2048
"""So many bodies that small stay in the processor's cache between copy and CRC."""


def find_bad_crc(buffer: Buffer, rows: FixedColumns) -> list[int]:
    """The row numbers whose body does not have the stored CRC; the CRC of an empty body is not looked at, as in Java."""
    if len(rows) == 0:
        return []
    lengths = rows["body_length"]
    small = lengths.sum(dtype=np.int64) <= _SMALL * len(rows)
    crcs = map(crc32_whole, (_pieces if small else _slices)(buffer, rows["body_start"], rows["body_end"]))
    found = np.fromiter(crcs, dtype=np.int64, count=len(rows)) & CRC_BITS
    bad: list[int] = np.flatnonzero((found != rows["body_crc"]) & (lengths > 0)).tolist()
    return bad


def _slices(buffer: Buffer, starts: Array, ends: Array) -> Iterable[memoryview]:
    return map(memoryview(buffer).__getitem__, map(slice, starts.tolist(), ends.tolist()))


def _pieces(buffer: Buffer, starts: Array, ends: Array) -> Iterable[bytes]:
    return chain.from_iterable(_blocks(buffer, starts, ends))


def _blocks(buffer: Buffer, starts: Array, ends: Array) -> Iterator[list[bytes]]:
    """The buffer is the data of an array in which bodies and what is between them take turns, the latter as nulls."""
    import pyarrow as pa

    data = pa.py_buffer(buffer)
    valid = pa.py_buffer(np.full(_AT_ONCE // 4 + 1, 0b01010101, dtype=np.uint8))
    for begin in range(0, len(starts), _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        cuts = np.stack((starts[part], ends[part]), axis=1).ravel()
        pieces = pa.Array.from_buffers(pa.large_binary(), len(cuts) - 1, [valid, pa.py_buffer(cuts), data])
        yield pieces.to_numpy(zero_copy_only=False)[::2].tolist()
