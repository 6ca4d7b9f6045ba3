"""Arrow arrays of one value, and of views that keep a buffer alive. Needs PyArrow.

A view is 16 bytes: its length, its first 4 bytes, the number of its buffer and its offset there; a value of
at most 12 bytes is stored in the view itself.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Array = np.ndarray[Any, np.dtype[Any]]


def is_in(column: pa.Array, texts: Collection[str]) -> pa.Array:
    """Return a mask of the rows that have one of some texts."""
    values = pa.array(sorted(texts), pa.string())
    if not pa.types.is_dictionary(column.type):
        return pc.is_in(column, values)
    return pc.fill_null(pc.is_in(column.dictionary, values).take(column.indices), False)


def always(value: str | None, count: int) -> pa.DictionaryArray:
    """Return a dictionary array with one value, or null, in every row."""
    indices = pa.nulls(count, pa.int32()) if value is None else pa.array(np.zeros(count, dtype=np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array([] if value is None else [value], pa.string()))


VIEWS_ARE_WRITTEN = int(pa.__version__.partition(".")[0]) >= 21
"""False for the versions of PyArrow that cannot write views to Parquet."""

_VIEW = np.dtype([("length", "<i4"), ("prefix", "V4"), ("buffer", "<i4"), ("place", "<i4")])


def select(batch: pa.RecordBatch, rows: Array) -> pa.RecordBatch:
    """Return these rows of a record batch, in which one column may consist of views."""
    places = [place for place, kind in enumerate(batch.schema.types) if kind == pa.binary_view()]
    if not places:
        return batch.take(pa.array(rows))
    column = batch.column(places[0])
    chosen = batch.remove_column(places[0]).take(pa.array(rows))
    field = batch.schema.field(places[0])
    return chosen.add_column(places[0], field, _array(_items(column)[rows], column.buffers()[2:]))


def size_of(batch: pa.RecordBatch) -> int:
    """Return the number of bytes in all columns; a view counts as the bytes that it shows."""
    return sum(
        int(_items(column)["length"].sum()) if column.type == pa.binary_view() else column.nbytes
        for column in batch.columns
    )


def _array(items: Array, buffers: list[pa.Buffer]) -> pa.Array:
    return pa.Array.from_buffers(pa.binary_view(), len(items), [None, pa.py_buffer(items), *buffers])


def _items(column: pa.Array) -> Array:
    items: Array = np.frombuffer(column.buffers()[1], _VIEW)[column.offset : column.offset + len(column)]
    return items
