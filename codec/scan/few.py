"""Columns of few values as dictionary arrays. Mostly there is one value, which is seen faster than hashed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

__all__ = ["always", "dictionary"]


def dictionary(column: pa.StringArray) -> pa.DictionaryArray:
    """As `dictionary_encode` makes it."""
    return always(column[0].as_py(), len(column)) if _is_one(column) else column.dictionary_encode()


def always(value: str | None, count: int) -> pa.DictionaryArray:
    """One text, or none, in all of so many rows."""
    indices = pa.nulls(count, pa.int32()) if value is None else pa.array(np.zeros(count, dtype=np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array([] if value is None else [value], pa.string()))


def _is_one(column: pa.StringArray) -> bool:
    if len(column) == 0 or column.null_count:
        return False
    _, ends, data = column.buffers()
    offsets = np.frombuffer(ends, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    width = int(offsets[1] - offsets[0])
    if int(offsets[-1] - offsets[0]) != width * len(column) or (np.diff(offsets) != width).any():
        return False
    texts = np.frombuffer(data or b"", dtype=np.uint8)[offsets[0] : offsets[-1]]
    return width == 0 or np.array_equal(texts[width:], texts[:-width])
