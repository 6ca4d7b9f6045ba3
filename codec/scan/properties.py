"""The properties texts of many records, split at once by the rules of `codec.properties`. Needs PyArrow.

Texts of a common shape are left to `codec.scan.property_shapes`. Each of the others gets a \\x02 in front, so
that every pair begins after one and ends before the next. NumPy finds all separators in one pass; Arrow
copies the names and values between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from codec.scan.arrays import NAME_END, PAIR_END, Array, ends_of
from codec.scan.arrow_arrays import of_one_width, pieces
from codec.scan.property_shapes import AlikePairs, split_alike

_FEW_NAMES = 48  # a text has at most 2**13 pairs, so sums of these bits fit int64


class PropertyColumns(NamedTuple):
    """All pairs of all records without overridden ones: `offsets[i]:offsets[i + 1]` are those of record i."""

    offsets: Array
    names: pa.DictionaryArray
    values: pa.StringArray
    columns: Mapping[str, Array] = {}
    """Columns whose values have one width in all records, an item for each record."""

    def column(self, name: str) -> pa.StringArray:
        """Return the value of one property in each record, null where it is missing."""
        if name in self.columns:
            return of_one_width(np.ascontiguousarray(self.columns[name]), pa.string())
        code = self.names.dictionary.index(name).as_py()
        rows = len(self.offsets) - 1
        if code < 0:
            return pa.nulls(rows, pa.string())
        pairs = np.flatnonzero(self.names.indices.to_numpy() == code)
        if len(pairs) == rows:
            return self.values.take(pa.array(pairs))
        places = np.zeros(rows, dtype=np.int64)
        places[np.searchsorted(self.offsets, pairs, side="right") - 1] = pairs + 1
        return self.values.take(pa.array(places - 1, mask=places == 0))

    def map_array(self, *, encoded: bool = False) -> pa.MapArray:
        """Return the pairs as a map column; with `encoded` the names stay a dictionary array."""
        names = self.names if encoded else self.names.dictionary_decode()
        return pa.MapArray.from_arrays(pa.array(self.offsets), names, self.values)


def split_properties(data: pa.Buffer, starts: Array, ends: Array) -> PropertyColumns:
    """Split each text data[start:end]; a byte must precede each. Invalid UTF-8 is read as U+FFFD."""
    alike = split_alike(np.frombuffer(data, dtype=np.uint8), starts, ends)
    if len(alike.rows) == len(starts):
        return _alike_columns(alike)
    if len(alike.rows) == 0:
        return _split_texts(pieces(data, starts - 1, ends))
    others = np.delete(np.arange(len(starts)), alike.rows)
    rest = _split_texts(pieces(data, starts[others] - 1, ends[others]))
    return _merged(_alike_columns(alike), rest, np.argsort(np.concatenate((alike.rows, others))))


def _alike_columns(pairs: AlikePairs) -> PropertyColumns:
    names = pa.array([name.decode() for name in pairs.names], pa.string())
    ends = pa.py_buffer(ends_of(pairs.widths))
    return PropertyColumns(
        pairs.offsets.astype(np.int32),
        pa.DictionaryArray.from_arrays(pa.array(pairs.codes), names),
        pa.StringArray.from_buffers(len(pairs.widths), ends, pa.py_buffer(pairs.data)),
        {name.decode(): values for name, values in pairs.columns.items()},
    )


def _merged(some: PropertyColumns, others: PropertyColumns, order: Array) -> PropertyColumns:
    """Merge two groups of records; `order` numbers the records of both, the second after the first, in
    their final order.
    """
    begins = np.concatenate((some.offsets[:-1], others.offsets[:-1] + some.offsets[-1]))[order]
    counts = np.concatenate((np.diff(some.offsets), np.diff(others.offsets)))[order]
    offsets = ends_of(counts)
    pairs = pa.array(np.repeat(begins - offsets[:-1], counts) + np.arange(offsets[-1]))
    names = pa.concat_arrays([some.names, others.names])
    values = pa.concat_arrays([some.values, others.values])
    return PropertyColumns(offsets, names.take(pairs), values.take(pairs))


def _split_texts(texts: pa.BinaryArray) -> PropertyColumns:
    """Split texts whose first byte is a placeholder."""
    data, offsets = _after_separators(texts)
    whole = pa.BinaryArray.from_buffers(
        pa.binary(), len(texts), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    try:
        whole.cast(pa.string())
    except pa.ArrowInvalid:
        readable = [str(text, "utf-8", "replace").encode() for text in whole.to_pylist()]
        data = np.frombuffer(b"".join(readable), dtype=np.uint8)
        offsets = ends_of(np.array([len(text) for text in readable]))
    return _split(data, offsets)


def _after_separators(texts: pa.BinaryArray) -> tuple[Array, Array]:
    """Returns all texts with \\x02 as first byte, and where they start."""
    _, ends, buffer = texts.buffers()
    offsets = np.frombuffer(ends, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(buffer or b"", dtype=np.uint8)[: offsets[-1]]
    if not data.flags.writeable:
        data = data.copy()
    data[offsets[:-1]] = PAIR_END
    return data, offsets


def _split(data: Array, offsets: Array) -> PropertyColumns:
    marks = np.flatnonzero(data - np.uint8(NAME_END) < PAIR_END)  # \x01 and \x02: 0 becomes 255
    begins_pair = np.append(data[marks] == PAIR_END, True)
    marks = np.append(marks, len(data))
    heads = np.flatnonzero(begins_pair)
    places = marks[heads]
    name_ends = marks[heads[:-1] + 1]
    starts, ends = places[:-1] + 1, places[1:]
    good = (name_ends > starts) & (name_ends < ends - 1) & ~begins_pair[heads[:-1] + 1]
    is_first = np.zeros(len(data), dtype=bool)
    is_first[offsets[:-1]] = True
    firsts = np.append(np.flatnonzero(is_first[places[:-1]]), len(starts))
    if not good.all():
        starts, name_ends, ends = starts[good], name_ends[good], ends[good]
        firsts = ends_of(good)[firsts]
    names, values = _strings(data, starts, name_ends, ends)
    kept = _last_of_equal(firsts, names.indices.to_numpy(), len(names.dictionary))
    if kept is not None:
        names, values = names.take(pa.array(kept)), values.take(pa.array(kept))
        firsts = np.searchsorted(kept, firsts)
    return PropertyColumns(firsts.astype(np.int32), names, values)


def _strings(
    data: Array, starts: Array, name_ends: Array, ends: Array
) -> tuple[pa.DictionaryArray, pa.StringArray]:
    """Return names and values: first and third of each pair's pieces (name, separator, value, gap)."""
    cuts = np.empty((len(starts), 4), dtype=np.int32)
    cuts[:, 0] = starts
    cuts[:, 1] = name_ends
    cuts[:, 2] = name_ends + 1
    cuts[:, 3] = ends
    pieces = pa.StringArray.from_buffers(
        cuts.size, pa.py_buffer(np.append(cuts.ravel(), cuts[-1:, -1])), pa.py_buffer(data)
    )
    places = np.arange(0, cuts.size, 4, dtype=np.int32)
    return pieces.take(pa.array(places)).dictionary_encode(), pieces.take(pa.array(places + 2))


def _last_of_equal(firsts: Array, codes: Array, names: int) -> Array | None:
    """Return which pairs to keep when a record repeats a name; None when no record does."""
    if len(codes) == 0:
        return None
    counts = np.diff(firsts)
    codes = codes.astype(np.int64)
    if names <= _FEW_NAMES:
        # One bit for each name: the sum of a record's bits equals their union unless a name comes twice.
        bits = np.left_shift(np.int64(1), codes)
        begins = firsts[:-1][counts > 0]
        if np.array_equal(np.bitwise_or.reduceat(bits, begins), np.add.reduceat(bits, begins)):
            return None
    pairs = np.repeat(np.arange(len(counts)), counts) * np.int64(names) + codes
    _, from_behind = np.unique(pairs[::-1], return_index=True)
    return np.sort(len(pairs) - 1 - from_behind)
