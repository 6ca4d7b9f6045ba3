"""Arrow arrays of parts of a buffer: copies (`pieces`), dictionaries of few values, and views that keep the
buffer alive. Needs PyArrow.

A view is 16 bytes: its length, its first 4 bytes, the number of its buffer and its offset there; a value of
at most 12 bytes is stored in the view itself.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rmqcli.codec.scan.columns import Array, windows


def pieces(data: pa.Buffer, starts: Array, ends: Array) -> pa.BinaryArray:
    """Return copies of data[start:end].

    If lengths differ, the buffer serves as the data of an array that alternates between the pieces and the
    gaps between them; Arrow takes every second item of it.
    """
    lengths = ends - starts
    if len(lengths) and lengths[0] > 0 and (lengths == lengths[0]).all():
        width = int(lengths[0])
        return of_one_width(windows(data, width)[starts], pa.binary())
    cuts = np.stack((starts, ends), axis=1).ravel()
    both = pa.Array.from_buffers(pa.large_binary(), len(cuts) - 1, [None, pa.py_buffer(cuts), data])
    return both.take(pa.array(np.arange(0, len(cuts), 2))).cast(pa.binary())


def of_one_width(items: Array, kind: pa.DataType) -> pa.Array:
    """Return an array of texts or bytes from items of the same width without gaps."""
    ends = np.arange(0, items.nbytes + 1, items.itemsize, dtype=np.int32)
    return pa.Array.from_buffers(kind, len(items), [None, pa.py_buffer(ends), pa.py_buffer(items)])


def dictionary(column: pa.StringArray) -> pa.DictionaryArray:
    """Dictionary-encode a column; a column with a single value, the usual case, is recognised without
    hashing.
    """
    return always(column[0].as_py(), len(column)) if _is_one(column) else column.dictionary_encode()


def always(value: str | None, count: int) -> pa.DictionaryArray:
    """Return a dictionary array with one value, or null, in every row."""
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


VIEWS_ARE_WRITTEN = int(pa.__version__.partition(".")[0]) >= 21
"""False for the versions of PyArrow that cannot write views to Parquet."""

_VIEW = np.dtype([("length", "<i4"), ("prefix", "V4"), ("buffer", "<i4"), ("place", "<i4")])
_LONGEST_INSIDE = 12
# Offsets in views are int32.
REACH = 2**31 - 1


def views(data: pa.Buffer, starts: Array, ends: Array, reach: int = REACH) -> pa.Array:
    """Return views of data[start:end] for ascending starts; copies if they span more than `reach` bytes."""
    if len(starts) == 0 or ends[-1] - starts[0] > reach:
        return pieces(data, starts, ends).cast(pa.binary_view())
    found = np.zeros(len(starts), _VIEW)
    found["length"] = ends - starts
    found["place"] = starts - starts[0]
    short = np.flatnonzero(found["length"] <= _LONGEST_INSIDE)
    if len(short) < len(found):
        # A value that begins in the last 4 bytes is short, so its view is replaced below.
        found["prefix"] = windows(data, 4)[np.minimum(starts, data.size - 4)]
    if len(short):
        found[short] = _items(pieces(data, starts[short], ends[short]).cast(pa.binary_view()))
    return _array(found, [data.slice(int(starts[0]))])


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
