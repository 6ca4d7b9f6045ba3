"""A walk over records by their sizes: 0.05 µs a record where there are many, else 0.2 µs. Needs NumPy.

Only size and magic are checked; `codec.scan.columns` checks the lengths inside.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from codec.layout import Buffer
from codec.scan.arrays import Array
from codec.scan.lanes import LEAST_ROWS, follow, walk_lanes
from codec.store.record_layout import FILLER_HEAD_SIZE, HEAD, MAGIC_FILLER, MAGICS, MIN_RECORD_SIZE

_size_and_magic = HEAD.unpack_from
_NO_LIMIT = 2**63
_SAMPLE = 64
_MOST_ROWS = 1 << 16
"""The most records of one stretch of lanes."""


class StopReason(StrEnum):
    """The reason why a walk stopped."""

    END = "end"
    """The end that was given."""
    FILLER = "filler"
    """A filler record: the rest of the file is unused."""
    ZERO = "zero"
    """Size 0: nothing was written from here on."""
    CUT = "cut"
    """A record that extends past the buffer."""
    GARBAGE = "garbage"
    """An unknown magic or an impossible size."""
    LIMIT = "limit"
    """As many rows or bytes as requested."""

    @property
    def is_damage(self) -> bool:
        return self in (StopReason.CUT, StopReason.GARBAGE)


class Walk(NamedTuple):
    """Positions of records, where the walk stopped, and why."""

    positions: Array
    end: int
    reason: StopReason


def scan_positions(
    buffer: Buffer,
    start: int = 0,
    end: int | None = None,
    *,
    max_rows: int = _NO_LIMIT,
    max_bytes: int = _NO_LIMIT,
) -> Walk:
    """Walk over the records that start in start:end; the last may extend past `end`, but not past the
    buffer.

    Stops after `max_rows` records, or with the one that reaches `max_bytes`.
    """
    limit = len(buffer)
    stop = limit if end is None else min(end, limit)
    bound = min(limit - MIN_RECORD_SIZE, stop - 1, start + max_bytes - 1) + 1
    pieces: list[Array] = []
    position, rows = start, min(max_rows, limit)
    for place, found in _pieces(buffer, start, bound, rows):
        pieces.append(found)
        position = place
    positions = np.concatenate(pieces)
    if len(positions) > rows:
        position = int(positions[rows])
    reason = StopReason.END if position >= stop else _reason(buffer, position, limit)
    return Walk(positions[:rows], position, reason)


def _pieces(buffer: Buffer, position: int, bound: int, rows: int) -> Iterator[tuple[int, Array]]:
    """Yield pieces of positions, each with the byte after its last record; the last piece may exceed
    `rows`.

    A sample of sizes tells how long a stretch to walk. After a stretch whose lanes did not meet, as many
    bytes are walked one by one, so hostile bytes cost a few times the time and no more.
    """
    while True:
        few, after = follow(buffer, position, bound, min(rows, _SAMPLE))
        yield after, np.array(few, dtype=np.int64)
        rows -= len(few)
        if len(few) < _SAMPLE or rows == 0:
            return
        mean = (after - position) / len(few)
        stretch = min(bound, after + int(min(rows, _MOST_ROWS) * mean))
        position = after
        if (stretch - after) / mean >= LEAST_ROWS:
            found, position, is_whole = walk_lanes(buffer, after, stretch)
            yield position, found
            rows -= len(found)
            if is_whole and rows > 0:
                continue
        places, position = follow(buffer, position, stretch, max(rows, 0))
        yield position, np.array(places, dtype=np.int64)
        rows -= len(places)
        if rows <= 0 or position < stretch:
            return


def _reason(buffer: Buffer, position: int, limit: int) -> StopReason:
    rest = limit - position
    if rest < FILLER_HEAD_SIZE:
        return StopReason.GARBAGE if any(buffer[position:limit]) else StopReason.ZERO
    size, magic = _size_and_magic(buffer, position)
    if magic == MAGIC_FILLER and size >= FILLER_HEAD_SIZE:
        return StopReason.FILLER
    if magic in MAGICS and size >= MIN_RECORD_SIZE:
        return StopReason.CUT if size > rest else StopReason.LIMIT
    return StopReason.ZERO if size == 0 and magic == 0 else StopReason.GARBAGE
