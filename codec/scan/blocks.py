"""Blocks of many records of a commit log file, as far as the records are sound. Needs NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from codec.errors import CorruptionError
from codec.scan.arrays import Array
from codec.scan.columns import FixedColumns, placed_columns
from codec.scan.walk import scan_positions

BLOCK_RECORDS = 1 << 14
"""Enough for a walk in lanes."""


class RecordBlock(NamedTuple):
    """Records of a file: `positions` are the bytes where they start, `end` is the byte after the last."""

    data: memoryview
    rows: FixedColumns
    positions: Array
    end: int


def sound_blocks(
    data: memoryview,
    base: int | None,
    end_offset: int | None = None,
    max_rows: int = BLOCK_RECORDS,
    start: int = 0,
) -> Iterator[RecordBlock]:
    """Yield blocks from byte `start` up to commit-log offset `end_offset`, or to the first one for scalar
    readers.
    """
    end = start
    while True:
        walk = scan_positions(data, end, max_rows=max_rows)
        rows = placed_columns(data, base, walk.positions)
        if rows is None or not len(rows):
            return
        base, end = int(rows["physical_offset"][0] - walk.positions[0]), walk.end
        yield RecordBlock(data, rows, walk.positions, end)
        if end_offset is not None and base + end >= end_offset:
            return


def blocks_backwards(
    data: memoryview, base: int | None, positions: Array, max_rows: int = BLOCK_RECORDS
) -> Iterator[RecordBlock]:
    """Yield blocks of these records, the last first. Raises CorruptionError at an unusual record."""
    for stop in range(len(positions), 0, -max_rows):
        places = positions[max(stop - max_rows, 0) : stop]
        rows = placed_columns(data, base, places)
        if rows is None:
            raise CorruptionError("a record is damaged or states another offset")
        base = int(rows["physical_offset"][0] - places[0])
        yield RecordBlock(data, rows, places, int(places[-1] + rows["total_size"][-1]))


Bounds = tuple[int | None, int | None]
"""A half-open range; None is open."""


def in_range(rows: FixedColumns, offsets: Bounds, times: Bounds) -> Array:
    """Return a mask of the records in a range of commit-log offsets and a range of store times (ms)."""
    mask = np.ones(len(rows), dtype=bool)
    for name, (begin, end) in (("physical_offset", offsets), ("store_timestamp", times)):
        if begin is not None:
            mask &= rows[name] >= begin
        if end is not None:
            mask &= rows[name] < end
    return mask
