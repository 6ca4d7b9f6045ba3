"""Values of one property of many records at once. Needs NumPy.

The texts are joined, each followed by \\x02; everything else works on the places of the separators.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from codec.scan.arrays import NAME_END, PAIR_END, Array, bytes_at


class Rows(Protocol):
    """Columns of records by name, as `codec.scan.fixed_columns` returns them."""

    def __getitem__(self, name: str, /) -> Any: ...


class Values(NamedTuple):
    """The non-empty values of one property in text order: record, first byte, byte after the last."""

    rows: Array
    starts: Array
    stops: Array


class JoinedProperties(NamedTuple):
    r"""Joined texts: `text_ends[i]` is the byte after text i and its \x02; `marks` are separators."""

    text: bytes
    data: Array
    text_ends: Array
    marks: Array
    is_pair_end: Array
    piece_starts: Array
    opens_piece: Array

    def values(self, name: str) -> Values:
        encoded = np.frombuffer(name.encode(), dtype=np.uint8)
        lengths = self.marks - self.piece_starts
        found = np.flatnonzero(self.opens_piece & ~self.is_pair_end & (lengths == len(encoded)))
        starts = self.piece_starts[found]
        if len(found):
            same = bytes_at(self.data, starts, len(encoded)) == encoded
            found = found[same.all(axis=1)]
        starts = self.marks[found] + 1
        # A value may contain \x01: it ends at the next pair end.
        pair_ends = self.marks[self.is_pair_end]
        stops = pair_ends[np.searchsorted(pair_ends, starts)]
        full = stops > starts
        starts, stops = starts[full], stops[full]
        return Values(np.searchsorted(self.text_ends, starts, side="right"), starts, stops)


def join_properties(data: memoryview, rows: Rows) -> JoinedProperties:
    """Join the properties texts of these records."""
    starts, ends = rows["properties_start"], rows["properties_end"]
    text = b"\x02".join([*cut(data, starts, ends), b""])
    joined = np.frombuffer(text, dtype=np.uint8)
    marks = np.flatnonzero((joined == NAME_END) | (joined == PAIR_END))
    is_pair_end = joined[marks] == PAIR_END
    before = np.concatenate(([-1], marks[:-1]))
    opens_piece = np.concatenate(([True], is_pair_end[:-1]))
    return JoinedProperties(
        text, joined, np.cumsum(ends - starts + 1), marks, is_pair_end, before + 1, opens_piece
    )


def cut(data: memoryview, starts: Array, ends: Array) -> Iterator[bytes]:
    """Yield the bytes of ranges of a file."""
    # Slicing the mapping costs half of slicing a view of it.
    source: Any = data.obj if len(data) == len(data.obj) else data  # type: ignore[arg-type]
    return map(source.__getitem__, map(slice, starts.tolist(), ends.tolist()))
