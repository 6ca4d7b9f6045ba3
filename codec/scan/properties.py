"""The properties texts of many records, taken apart at once.

All texts are joined with \\x02 between them. Every separator is found by NumPy; the bytes that are no separator are then one
buffer in which names and values alternate, so Arrow needs only the offsets. Same rules as `codec.properties`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["PropertyColumns", "split_properties"]

Array = np.ndarray[Any, np.dtype[Any]]

_NAME_END = 1
_PAIR_END = 2
_FEW_NAMES = 48  # a text has at most 2**13 pairs, so sums of so many bits stay within int64


class PropertyColumns(NamedTuple):
    """All pairs of all records, in order, the last of equal names only: `offsets[i]:offsets[i + 1]` are those of record i."""

    offsets: Array
    names: pa.DictionaryArray
    values: pa.StringArray

    def column(self, name: str) -> pa.StringArray:
        """The value of one property in each record, null where it has none."""
        code = self.names.dictionary.index(name).as_py()
        rows = len(self.offsets) - 1
        if code < 0:
            return pa.nulls(rows, pa.string())
        pairs = np.flatnonzero(self.names.indices.to_numpy() == code)
        places = np.zeros(rows, dtype=np.int64)
        places[np.searchsorted(self.offsets, pairs, side="right") - 1] = pairs + 1
        return self.values.take(pa.array(places - 1, mask=places == 0))

    def map_array(self) -> pa.MapArray:
        return pa.MapArray.from_arrays(pa.array(self.offsets), self.names.dictionary_decode(), self.values)


def split_properties(texts: pa.BinaryArray) -> PropertyColumns:
    """The pairs of each text. Text that is not UTF-8 is read with U+FFFD, as everywhere."""
    try:
        texts.cast(pa.string())
    except pa.ArrowInvalid:
        texts = pa.array([str(text, "utf-8", "replace").encode() for text in texts.to_pylist()], pa.binary())
    ended = pc.binary_join_element_wise(texts, b"", b"\x02")
    _, offsets, data = ended.buffers()
    text_ends = np.frombuffer(offsets, dtype=np.int32)[ended.offset + 1 : ended.offset + len(ended) + 1]
    used = int(text_ends[-1]) if len(text_ends) else 0
    return _split(np.frombuffer(data or b"", dtype=np.uint8)[:used], text_ends)


def _split(data: Array, text_ends: Array) -> PropertyColumns:
    """`text_ends`: where each text ends, its last \\x02 included."""
    ends = np.flatnonzero(data == _PAIR_END)
    starts = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    marks = np.append(np.flatnonzero(data == _NAME_END), len(data))
    name_ends = marks[np.searchsorted(marks, starts)]
    good = (name_ends > starts) & (name_ends < ends - 1)
    pairs_of_text = np.diff(np.searchsorted(ends, text_ends), prepend=0)
    owners = np.repeat(np.arange(len(text_ends)), pairs_of_text)
    names, values = _strings(data, starts, name_ends, ends, good)
    owners = owners[good]
    kept = _last_of_equal(owners, names)
    if kept is not None:
        names, values, owners = names.take(pa.array(kept)), values.take(pa.array(kept)), owners[kept]
    counts = np.bincount(owners, minlength=len(text_ends))
    return PropertyColumns(_offsets(counts), names, values)


def _strings(
    data: Array, starts: Array, name_ends: Array, ends: Array, good: Array
) -> tuple[pa.DictionaryArray, pa.StringArray]:
    """Names and values of the good pairs: drop all other bytes, and what is left alternates."""
    keep = np.ones(len(data), dtype=bool)
    keep[ends] = False
    keep[name_ends[good]] = False
    for start, end in zip(starts[~good].tolist(), ends[~good].tolist(), strict=True):
        keep[start:end] = False
    lengths = np.empty((int(good.sum()), 2), dtype=np.int32)
    lengths[:, 0] = (name_ends - starts)[good]
    lengths[:, 1] = (ends - name_ends - 1)[good]
    both = pa.StringArray.from_buffers(
        lengths.size, pa.py_buffer(_offsets(lengths.ravel())), pa.py_buffer(data[keep])
    )
    places = np.arange(0, lengths.size, 2, dtype=np.int32)
    return both.take(pa.array(places)).dictionary_encode(), both.take(pa.array(places + 1))


def _last_of_equal(owners: Array, names: pa.DictionaryArray) -> Array | None:
    """Which pairs to keep when a record has a name twice; None when no record has."""
    codes = names.indices.to_numpy().astype(np.int64)
    if len(codes) == 0:
        return None
    if len(names.dictionary) <= _FEW_NAMES:
        # One bit for each name: the sum of a record's bits is their union unless a name comes twice.
        bits = np.left_shift(np.int64(1), codes)
        firsts = np.flatnonzero(np.diff(owners, prepend=-1))
        union = np.bitwise_or.reduceat(bits, firsts)
        if np.array_equal(union, np.add.reduceat(bits, firsts)):
            return None
    pairs = owners * np.int64(len(names.dictionary)) + codes
    _, from_behind = np.unique(pairs[::-1], return_index=True)
    return np.sort(len(pairs) - 1 - from_behind)


def _offsets(lengths: Array) -> Array:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
