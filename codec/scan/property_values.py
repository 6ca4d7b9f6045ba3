"""Values of one property of many records at once, and their hashes. Needs NumPy.

The texts are joined, each followed by \\x02; everything else works on the places of the separators.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from codec.core.hashing import index_key_hash, java_string_hash, tags_code
from codec.properties import MAX_PROPERTIES_LENGTH, PropertyName
from codec.scan.arrays import NAME_END, PAIR_END, Array, bytes_at, distinct

_BLANK = 32
_MASK = (1 << 32) - 1
_POWERS = np.cumprod(np.append(1, np.full(MAX_PROPERTIES_LENGTH, 31)).astype(np.uint32), dtype=np.uint32)
"""31**n in 32 bits."""


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
    """Joins the properties texts of these records."""
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
    """Yields the bytes of ranges of a file."""
    # Slicing the mapping costs half of slicing a view of it.
    source: Any = data.obj if len(data) == len(data.obj) else data  # type: ignore[arg-type]
    return map(source.__getitem__, map(slice, starts.tolist(), ends.tolist()))


def record_tags_codes(properties: JoinedProperties) -> Array:
    """Returns the tags code of each record, 0 without tags; the last TAGS counts."""
    codes = np.zeros(len(properties.text_ends), dtype=np.int64)
    found = _last_values(properties.values(PropertyName.TAGS))
    hashes, plain = _java_hashes(properties.data, found)
    codes[found.rows] = hashes.astype(np.uint32).view(np.int32)
    for place in np.flatnonzero(~plain).tolist():
        codes[found.rows[place]] = tags_code(_text_of(properties, found, place))
    return codes


def key_hashes(properties: JoinedProperties, topics: list[bytes]) -> tuple[Array, Array]:
    """Returns (record, hash) of each index key, unsorted: the last UNIQ_KEY and tokens of the last KEYS."""
    tokens = _tokens(properties)
    heads = np.fromiter(map(_topic_hash, topics), dtype=np.uint32, count=len(topics))
    tails, plain = _java_hashes(properties.data, tokens)
    hashes = keys_of_topic(heads[tokens.rows], tails.astype(np.uint32), tokens.stops - tokens.starts)
    for place in np.flatnonzero(~plain).tolist():
        topic = str(topics[tokens.rows[place]], "utf-8", "replace")
        hashes[place] = index_key_hash(topic, _text_of(properties, tokens, place))
    return tokens.rows, hashes


def keys_of_topic(heads: Array, tails: Array, lengths: Any) -> Array:
    """Returns the hashes of index keys, made of those of "TOPIC#" and of keys of so many bytes (both 32 bits)."""
    hashes: Array = (heads * _POWERS[lengths] + tails).astype(np.int64)
    hashes = np.where(hashes > 1 << 31, (1 << 32) - hashes, hashes)
    hashes[hashes == 1 << 31] = 0
    return hashes


def topic_heads(data: Array, starts: Array, ends: Array) -> tuple[Array, Array]:
    """Returns the hash of "TOPIC#" for each topic data[start:end] (32 bits), and a mask where it holds: ASCII."""
    hashes, plain = _java_hashes(data, Values(starts, starts, ends))
    return hashes.astype(np.uint32) * np.uint32(31) + np.uint32(ord("#")), plain


def column_hashes(units: Array) -> Array:
    """Returns the `String.hashCode` (32 bits) of each row of ASCII bytes."""
    hashes: Array = np.einsum("ij,j->i", units.astype(np.uint32), _POWERS[: units.shape[1]][::-1])
    return hashes


def ordered_key_hashes(properties: JoinedProperties, topics: list[bytes]) -> tuple[Array, Array]:
    """Returns the pairs of `key_hashes` in the order of index items: by record, UNIQ_KEY before KEYS."""
    tokens, (rows, hashes) = _tokens(properties), key_hashes(properties, topics)
    uniques = len(_last_values(properties.values(PropertyName.UNIQ_KEY)).rows)
    order = np.lexsort((tokens.starts, np.arange(len(rows)) >= uniques, rows))
    return rows[order], hashes[order]


def _java_hashes(data: Array, values: Values) -> tuple[Array, Array]:
    """Returns each value's `String.hashCode` (unsigned, 64 bits), and a mask where it holds: ASCII."""
    hashes = np.zeros(len(values.rows), dtype=np.uint64)
    plain = np.ones(len(values.rows), dtype=bool)
    lengths = values.stops - values.starts
    for length in distinct(lengths):
        chosen = np.flatnonzero(lengths == length)
        units = bytes_at(data, values.starts[chosen], length)
        hashes[chosen] = column_hashes(units)
        if units.max() >= 128:
            plain[chosen] = units.max(axis=1) < 128
    return hashes, plain


def _text_of(properties: JoinedProperties, values: Values, place: int) -> str:
    return str(properties.text[values.starts[place] : values.stops[place]], "utf-8", "replace")


def _tokens(properties: JoinedProperties) -> Values:
    unique, keys = (
        _last_values(properties.values(name)) for name in (PropertyName.UNIQ_KEY, PropertyName.KEYS)
    )
    blanks = np.flatnonzero(properties.data == _BLANK)
    several = np.searchsorted(blanks, keys.starts) != np.searchsorted(blanks, keys.stops)
    split = [
        (row, start, stop)
        for row, first, last in zip(*(part[several].tolist() for part in keys), strict=True)
        for start, stop in _pieces(properties.text, first, last)
    ]
    apart = np.array(split, dtype=np.int64).reshape(-1, 3).T
    return Values(*(np.concatenate((a, b[~several], c)) for a, b, c in zip(unique, keys, apart, strict=True)))


def _pieces(text: bytes, start: int, stop: int) -> list[tuple[int, int]]:
    """Returns the non-empty ranges between blanks."""
    blanks = [start - 1]
    while (at := text.find(b" ", blanks[-1] + 1, stop)) >= 0:
        blanks.append(at)
    return [(a + 1, b) for a, b in pairwise([*blanks, stop]) if a + 1 < b]


def _is_last(rows: Array) -> Array:
    """Returns a mask of the last of equal, ascending record numbers."""
    return np.append(rows[1:] != rows[:-1], True)[: len(rows)]


def _last_values(values: Values) -> Values:
    chosen = _is_last(values.rows)
    return Values(*(part[chosen] for part in values))


@lru_cache(maxsize=4096)
def _topic_hash(topic: bytes) -> int:
    return java_string_hash(f"{str(topic, 'utf-8', 'replace')}#") & _MASK
