"""Comparison of many texts with one, and the check that many properties texts parse, without splitting them.
Needs NumPy.

Properties texts of similar length are copied, right-aligned, into the rows of a table. The bytes before a
text are replaced by a sound pair and a pair end, so that each text begins after one; then the bytes of all
rows are checked as one text.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from codec.scan.arrays import NAME_END, PAIR_END, Array, bytes_at, distinct, windows

_STEP = 32
"""Table widths are multiples of this."""
_HEAD = b"\x02n\x01"
_LEAST_PAD = len(_HEAD) + 1
_MOST_PAD = _STEP + _LEAST_PAD
_TABLE_BYTES = 1 << 18
"""The size of a table: it stays in the processor's cache."""
_NOT_ASCII = 0x80
_PLAIN = PAIR_END + 1


def equal_to(data: memoryview, starts: Array, ends: Array, text: bytes) -> Array:
    """Returns a mask of the texts data[start:end] that equal `text`."""
    equal: Array = ends - starts == len(text)
    here = np.flatnonzero(equal)
    if len(here):
        found = bytes_at(data, starts[here], len(text))
        equal[here] = (found == np.frombuffer(text, dtype=np.uint8)).all(axis=1)
    return equal


def texts_parse(data: memoryview, starts: Array, ends: Array) -> bool:
    """Returns True when every text is UTF-8 and every pair has a name: the rule of
    `codec.properties.properties_problem`.

    A record's fixed fields, longer than the greatest pad, must precede each text.
    """
    return all(_table_parses(table) for table in _tables(data, starts, ends))


def _tables(data: memoryview, starts: Array, ends: Array) -> Iterator[Array]:
    widths = (ends - starts + _LEAST_PAD + _STEP - 1) // _STEP * _STEP
    for width in distinct(widths):
        chosen = np.flatnonzero(widths == width)
        chosen = chosen[np.argsort(ends[chosen] - starts[chosen], kind="stable")]
        rows = max(_TABLE_BYTES // width, 1)
        rows_of = windows(data, width)
        keep, fill = _pads(width)
        for at in range(0, len(chosen), rows):
            part = chosen[at : at + rows]
            pads = starts[part] - ends[part] + width
            table = rows_of[ends[part] - width].view(np.uint64).reshape(len(part), -1)
            table[:, : _MOST_PAD // 8 + 1] &= keep[pads]
            table[:, : _MOST_PAD // 8 + 1] |= fill[pads]
            yield table


@lru_cache(maxsize=256)
def _pads(width: int) -> tuple[Array, Array]:
    """Returns, for each pad length, the bits of a row's start to keep and those to set."""
    size = min((_MOST_PAD // 8 + 1) * 8, width)
    keep = np.zeros((_MOST_PAD, size), dtype=np.uint8)
    fill = np.full((_MOST_PAD, size), ord("n"), dtype=np.uint8)
    for pad in range(_LEAST_PAD, min(_MOST_PAD, width + 1)):
        keep[pad, pad:] = 0xFF
        fill[pad, : len(_HEAD)] = tuple(_HEAD)
        fill[pad, pad - 1] = PAIR_END
        fill[pad, pad:] = 0
    return keep.view(np.uint64), fill.view(np.uint64)


def _table_parses(table: Array) -> bool:
    data = table.ravel().view(np.uint8)
    if data.max(initial=0) >= _NOT_ASCII and not _is_utf8(data):
        return False
    size = table.shape[1]
    kinds = np.minimum(data, _PLAIN).view(np.uint64)
    # When the separators of all rows stand where those of the first do, the first row decides for all.
    if np.array_equal(kinds[size:], kinds[:-size]):
        data = data[: table[:1].nbytes]
    marks = np.flatnonzero(data - np.uint8(NAME_END) < PAIR_END)  # 0 becomes 255
    is_pair_end = data[marks] == PAIR_END
    touching = marks[1:] - marks[:-1] == 1
    # A pair that ends without a name end, or a name end where the name should begin.
    wrong = is_pair_end[:-1] & (is_pair_end[1:] != touching)
    # The last text may omit its pair end; then what follows its last pair end must be a pair, too.
    unended = bool(is_pair_end[-1]) and int(marks[-1]) + 1 < len(data)
    return not unended and not wrong.any()


def _is_utf8(data: Array) -> bool:
    try:
        str(data.data, "utf-8")
    except UnicodeDecodeError:
        return False
    return True
