"""Properties texts of one shape, split together: about 0.06 µs a text. Needs NumPy.

The messages of one producer mostly have the same names in the same order, and values of the same lengths.
Texts of one length are stacked; those that agree with a sample wherever it has a name or a separator, and
have no separator elsewhere, are cut where the sample is cut. Rare shapes and unusual texts (an empty value, a
repeated name, \\x01 in a value, a byte that is not ASCII) are left to the caller.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from codec.scan.arrays import Array, bytes_at, ends_of, windows

LEAST_ROWS = 512
"""The least number of texts of one shape that is worth it."""
_MOST_LENGTHS = 8
_SAMPLE = 64
_BLOCK_BYTES = 1 << 17
"""Bytes of texts compared together: they stay in the processor's cache."""
_MOST = 0.75
"""The least share of a sample of each length, and of all texts, that must have a common shape."""
_MOST_PLAIN, _LEAST_PLAIN = 0x7F, 3
"""Signed bytes below _LEAST_PLAIN may be separators, NUL, or not ASCII."""

_pairs = re.compile(rb"([\x03-\x7f]+)\x01([\x03-\x7f]+)(?:\x02|\Z)").finditer


class _Shape(NamedTuple):
    """A text, its names, and the places of its values."""

    text: bytes
    names: tuple[bytes, ...]
    values: tuple[tuple[int, int], ...]

    @property
    def widths(self) -> list[int]:
        return [end - begin for begin, end in self.values]


class ShapedTexts(NamedTuple):
    """Texts of one shape: their numbers, and their values without gaps, an item for each text."""

    shape: _Shape
    rows: Array
    values: Array

    def column(self, name: bytes) -> Array | None:
        """Return the value of one name in each text as a row of bytes; None if they do not have it."""
        if name not in self.shape.names:
            return None
        number = self.shape.names.index(name)
        begin, widths = sum(self.shape.widths[:number]), self.shape.widths
        return self.values.view(np.uint8).reshape(-1, sum(widths))[:, begin : begin + widths[number]]


class AlikePairs(NamedTuple):
    """The pairs of the texts `rows`, in order: `offsets[i]:offsets[i + 1]` are the pairs of text `rows[i]`.

    `codes` are indices into `names`; values lie in `data` without gaps, `widths` bytes each. `columns` holds
    the values of each name when all texts have one shape.
    """

    rows: Array
    offsets: Array
    names: list[bytes]
    codes: Array
    widths: Array
    data: Array
    columns: dict[bytes, Array]


def split_alike(data: Array, starts: Array, ends: Array) -> AlikePairs:
    """Split those of the texts data[start:end] that have a common shape."""
    groups = list(shaped_texts(data, starts, ends - starts))
    if len(groups) == 1 and len(groups[0].rows) == len(starts):
        return _of_one_shape(*groups[0])
    numbers = np.full(len(starts), -1, dtype=np.int64)
    for number, group in enumerate(groups):
        numbers[group.rows] = number
    rows = np.flatnonzero(numbers >= 0)
    return _joined(groups, rows, numbers[rows])


def shaped_texts(data: Array, starts: Array, lengths: Array) -> Iterator[ShapedTexts]:
    """Yield the texts data[start : start + length] that have a common shape."""
    common = np.flatnonzero(np.bincount(lengths) >= LEAST_ROWS).tolist()
    if len(common) > _MOST_LENGTHS:
        return
    found: list[tuple[_Shape, Array]] = []
    for length in common:
        rows = np.flatnonzero(lengths == length)
        shape = _shape_of_most(bytes_at(data, starts[rows[:: -(-len(rows) // _SAMPLE)]], length))
        if shape is not None:
            found.append((shape, rows))
    if sum(len(rows) for _, rows in found) >= _MOST * len(starts):
        for shape, rows in found:
            yield _group(shape, rows, bytes_at(data, starts[rows], len(shape.text)))


def _shape_of_most(texts: Array) -> _Shape | None:
    shape = _shape_of(texts[len(texts) // 2].tobytes())
    return shape if shape is not None and _alike(shape, texts).mean() >= _MOST else None


def _group(shape: _Shape, rows: Array, texts: Array) -> ShapedTexts:
    alike = _alike(shape, texts)
    if not alike.all():
        rows, texts = rows[alike], texts[alike]
    return ShapedTexts(shape, rows, _values(shape, texts))


def _shape_of(text: bytes) -> _Shape | None:
    pairs = list(_pairs(text))
    names = tuple(pair[1] for pair in pairs)
    is_plain = sum(len(pair[0]) for pair in pairs) == len(text) and len(set(names)) == len(names)
    return _Shape(text, names, tuple(pair.span(2) for pair in pairs)) if is_plain else None


def _alike(shape: _Shape, texts: Array) -> Array:
    found = np.ones(len(texts), dtype=bool)
    if not shape.text:
        return found
    pattern = np.frombuffer(shape.text, dtype=np.uint8)
    fixed = np.full(len(pattern), 0xFF, dtype=np.uint8)
    for begin, end in shape.values:
        fixed[begin:end] = 0
    # NumPy is fast at long runs, so the pattern is repeated for each text of a block.
    rows = min(max(_BLOCK_BYTES // len(pattern), 1), len(texts))
    patterns, fixes, plain = (np.tile(row, (rows, 1)) for row in (pattern, fixed, fixed & _MOST_PLAIN))
    for begin in range(0, len(texts), rows):
        part = texts[begin : begin + rows]
        other = part ^ patterns[: len(part)]
        other &= fixes[: len(part)]
        values = (part | plain[: len(part)]).view(np.int8)
        if other.max() or values.min() < _LEAST_PLAIN:
            special = (values < _LEAST_PLAIN).any(axis=1)
            found[begin : begin + rows] = ~(other.any(axis=1) | special)
    return found


def _values(shape: _Shape, texts: Array) -> Array:
    if not shape.names:
        return np.empty(0, dtype=np.uint8)
    found = np.empty(len(texts), f"V{sum(shape.widths)}")
    for (begin, end), column in zip(shape.values, _columns(shape, found), strict=True):
        column[:] = np.ndarray(len(texts), f"V{end - begin}", texts, offset=begin, strides=texts.strides[:1])
    return found


def _columns(shape: _Shape, values: Array) -> Iterator[Array]:
    place = 0
    for width in shape.widths:
        yield np.ndarray(len(values), f"V{width}", values, offset=place, strides=values.strides)
        place += width


def _of_one_shape(shape: _Shape, rows: Array, values: Array) -> AlikePairs:
    count = len(shape.names)
    return AlikePairs(
        rows,
        np.arange(0, count * len(rows) + 1, count) if count else np.zeros(len(rows) + 1, dtype=np.int64),
        list(shape.names),
        np.tile(np.arange(count, dtype=np.int32), len(rows)),
        np.tile(np.array(shape.widths, dtype=np.int32), len(rows)),
        values.view(np.uint8),
        dict(zip(shape.names, _columns(shape, values), strict=True)),
    )


def _joined(groups: list[ShapedTexts], rows: Array, numbers: Array) -> AlikePairs:
    """Join groups; `numbers` holds the group of each row."""
    names = list(dict.fromkeys(name for group in groups for name in group.shape.names))
    counts = np.array([len(group.shape.names) for group in groups], dtype=np.int64)
    sizes = np.array([sum(group.shape.widths) for group in groups], dtype=np.int64)
    offsets, places = ends_of(counts[numbers], np.int64), ends_of(sizes[numbers], np.int64)
    codes, widths = np.empty(offsets[-1], dtype=np.int32), np.empty(offsets[-1], dtype=np.int32)
    data = np.empty(places[-1], dtype=np.uint8)
    for number, (shape, _, values) in enumerate(groups):
        if shape.names:
            chosen = np.flatnonzero(numbers == number)
            own = [names.index(name) for name in shape.names]
            for column, row in ((codes, own), (widths, shape.widths)):
                items = np.array(row, dtype=np.int32)
                windows(column, items.nbytes, 4)[offsets[chosen]] = items.view(f"V{items.nbytes}")
            windows(data, values.itemsize)[places[chosen]] = values
    return AlikePairs(rows, offsets, names, codes, widths, data, {})
