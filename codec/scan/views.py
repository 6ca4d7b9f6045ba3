"""Bodies that stay where they are: arrays of views of the buffer, and what Arrow does not do with these itself.

A view is 16 bytes: its length, its first 4 bytes, which buffer it is of, and where it begins; what is not longer than 12 bytes lies
in the view. The buffer lives as long as the array.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from codec.scan.pieces import pieces

__all__ = ["VIEWS_ARE_WRITTEN", "select", "size_of", "views"]

Array = np.ndarray[Any, np.dtype[Any]]

VIEWS_ARE_WRITTEN = int(pa.__version__.partition(".")[0]) >= 21
"""Before that version pyarrow writes no views to Parquet."""

_VIEW = np.dtype([("length", "<i4"), ("prefix", "V4"), ("buffer", "<i4"), ("place", "<i4")])
_LONGEST_INSIDE = 12
_REACH = 2**31 - 1


def views(data: pa.Buffer, starts: Array, ends: Array) -> pa.Array:
    """data[start:end] for ascending starts; copies, if they are too far apart for views."""
    if len(starts) == 0 or ends[-1] - starts[0] > _REACH:
        return pieces(data, starts, ends).cast(pa.binary_view())
    found = np.zeros(len(starts), _VIEW)
    found["length"] = ends - starts
    found["place"] = starts - starts[0]
    short = np.flatnonzero(found["length"] <= _LONGEST_INSIDE)
    if len(short) < len(found):
        prefixes = np.ndarray(data.size - 3, "V4", data, strides=(1,))
        found["prefix"] = prefixes[np.minimum(starts, data.size - 4)]
    if len(short):
        found[short] = _items(pieces(data, starts[short], ends[short]).cast(pa.binary_view()))
    return _array(found, [data.slice(int(starts[0]))])


def select(batch: pa.RecordBatch, rows: Array) -> pa.RecordBatch:
    """These rows of a record batch, one of whose columns may be views."""
    places = [place for place, kind in enumerate(batch.schema.types) if kind == pa.binary_view()]
    if not places:
        return batch.take(pa.array(rows))
    column = batch.column(places[0])
    chosen = batch.remove_column(places[0]).take(pa.array(rows))
    field = batch.schema.field(places[0])
    return chosen.add_column(places[0], field, _array(_items(column)[rows], column.buffers()[2:]))


def size_of(batch: pa.RecordBatch) -> int:
    """Bytes of its columns, views as if what they show were there."""
    return sum(
        int(_items(column)["length"].sum()) if column.type == pa.binary_view() else column.nbytes
        for column in batch.columns
    )


def _array(items: Array, buffers: list[pa.Buffer]) -> pa.Array:
    return pa.Array.from_buffers(pa.binary_view(), len(items), [None, pa.py_buffer(items), *buffers])


def _items(column: pa.Array) -> Array:
    items: Array = np.frombuffer(column.buffers()[1], _VIEW)[column.offset : column.offset + len(column)]
    return items
