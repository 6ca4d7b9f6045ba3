"""A file of the commit log, many records at a time, as far as nothing in it is unusual. Needs NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from codec.errors import CorruptionError
from codec.scan import FixedColumns, fixed_columns, scan_positions
from rmqcli.grammar.offset_range import OffsetRange

__all__ = ["BLOCK_RECORDS", "RecordBlock", "blocks_backwards", "in_range", "sound_blocks"]

Array = np.ndarray[Any, np.dtype[Any]]

BLOCK_RECORDS = 1 << 14


class RecordBlock(NamedTuple):
    """Records of a file: `positions` are where in it they begin, `end` is the byte behind the last."""

    data: memoryview
    rows: FixedColumns
    positions: Array
    end: int


def sound_blocks(data: memoryview, base: int | None, wanted: OffsetRange) -> Iterator[RecordBlock]:
    """Blocks up to the end of the range, or to where something is unusual: the rest is left to be looked at one by one."""
    end = 0
    while True:
        walk = scan_positions(data, end, max_rows=BLOCK_RECORDS)
        if not len(walk.positions):
            return
        try:
            rows = fixed_columns(data, walk.positions)
        except CorruptionError:
            return
        base = int(rows["physical_offset"][0] - walk.positions[0]) if base is None else base
        if (rows["physical_offset"] != walk.positions + base).any():
            return
        end = walk.end
        yield RecordBlock(data, rows, walk.positions, end)
        if wanted.end is not None and base + end >= wanted.end:
            return


def blocks_backwards(data: memoryview, base: int | None, positions: Array) -> Iterator[RecordBlock]:
    """Blocks of the records at these positions, the last block first. CorruptionError where something is unusual."""
    for stop in range(len(positions), 0, -BLOCK_RECORDS):
        places = positions[max(stop - BLOCK_RECORDS, 0) : stop]
        rows = fixed_columns(data, places)
        base = int(rows["physical_offset"][0] - places[0]) if base is None else base
        if (rows["physical_offset"] != places + base).any():
            raise CorruptionError("a record says that it is somewhere else")
        yield RecordBlock(data, rows, places, int(places[-1] + rows["total_size"][-1]))


def in_range(rows: FixedColumns, wanted: OffsetRange) -> Array:
    """By commit-log offset and store time."""
    mask = np.ones(len(rows), dtype=bool)
    bounds = (
        ("physical_offset", wanted.begin, wanted.end),
        ("store_timestamp", wanted.begin_time, wanted.end_time),
    )
    for name, begin, end in bounds:
        if begin is not None:
            mask &= rows[name] >= begin
        if end is not None:
            mask &= rows[name] < end
    return mask
