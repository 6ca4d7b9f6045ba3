"""A walk over records by their sizes, which takes 0.05 µs per record if there are many, else 0.2 µs. Needs
NumPy.

Only size and magic are checked; `rmqcli.codec.scan.columns` checks the lengths inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.layout import Buffer
from rmqcli.codec.scan.columns import Array, FixedColumns, placed_columns, windows
from rmqcli.codec.store.record_layout import (
    FILLER_HEAD_SIZE,
    HEAD,
    MAGIC_FILLER,
    MAGIC_V1,
    MAGIC_V2,
    MAGICS,
    MIN_RECORD_SIZE,
)

# A walk in many lanes: a stretch of the log is entered at many places, and NumPy steps in all at once.
#
# The start of a lane is a guess, the next place with a magic. Guesses are never trusted: the lane before must
# walk right into each. Where one does not, the stretch ends there, so the positions are exactly those of a walk
# from record to record, whatever the bodies hold. About 0.05 µs a record.

LEAST_ROWS = 8192
"""Fewer records than this are walked one by one."""
_LANES = 512
_STRAGGLERS = 16
"""The number of remaining lanes that are walked one by one: a NumPy step costs the same for one as for a
hundred.
"""
_SEARCH_BYTES = 1 << 16
"""The number of bytes that are searched for the first record of a lane."""

_size_and_magic = HEAD.unpack_from
# The two magics differ only in their last byte; the literal prefix makes the search fast.
_MAGIC_PREFIX = re.escape(MAGIC_V1.to_bytes(4, "big")[:3])
_MAGIC_ENDS = re.escape(bytes(magic & 0xFF for magic in (MAGIC_V1, MAGIC_V2)))
_find_magic = re.compile(_MAGIC_PREFIX + b"[" + _MAGIC_ENDS + b"]").search


class LaneWalk(NamedTuple):
    """Positions of records, the byte after them, and True if the walk reached the end of its range."""

    positions: Array
    end: int
    is_whole: bool


def follow(buffer: Buffer, position: int, stop: int, rows: int) -> tuple[list[int], int]:
    """Walk at most `rows` records that start before `stop` (0.2 µs each); return their positions and the byte
    after the last.
    """
    limit = len(buffer)
    stop = min(stop, limit - MIN_RECORD_SIZE + 1)
    positions: list[int] = []
    append = positions.append
    while position < stop and rows:
        size, magic = _size_and_magic(buffer, position)
        if magic not in MAGICS or not MIN_RECORD_SIZE <= size <= limit - position:
            break
        append(position)
        position += size
        rows -= 1
    return positions, position


def walk_lanes(buffer: Buffer, start: int, stop: int) -> LaneWalk:
    """Walk over the records that start in start:stop, in many lanes at once. A record must start at `start`;
    `stop` must be at least MIN_RECORD_SIZE before the end of the buffer.
    """
    starts = np.array(_entrances(buffer, start, stop), dtype=np.int64)
    ends = np.append(starts[1:], stop)
    path, counts, places = _run(np.frombuffer(buffer, dtype=np.uint8), starts, ends)
    tails: list[int] = []
    # The remaining lanes are walked to their ends.
    for lane in np.flatnonzero(places < ends).tolist():
        more, places[lane] = follow(buffer, int(places[lane]), int(ends[lane]), len(buffer))
        tails += more
    # A lane may have begun in a body that looks like a record. It counts only if the lane before it ends
    # exactly where it begins, so the positions are those of a walk one by one.
    astray = np.flatnonzero(places[:-1] != starts[1:])
    good = int(astray[0]) + 1 if len(astray) else len(starts)
    end = int(places[good - 1])
    chosen = path.T[:good][np.arange(len(path)) < counts[:good, None]]
    if tails:
        more_places = np.array(tails, dtype=np.int64)
        chosen = np.sort(np.concatenate((chosen, more_places[more_places < end])))
    return LaneWalk(chosen, end, end >= stop)


def _entrances(buffer: Buffer, start: int, stop: int) -> list[int]:
    """Return positions where a record may start, one for each lane that has any."""
    found = [start]
    width = (stop - start) // _LANES
    reach = min(width, _SEARCH_BYTES)
    for edge in range(start + width, stop - width + 1, width):
        match = _find_magic(buffer, edge + 4, edge + reach)
        if match is not None:
            found.append(match.start() - 4)
    return found


def _run(data: Array, starts: Array, ends: Array) -> tuple[Array, Array, Array]:
    """Advance all lanes together; return a row of positions for each step, the number of steps of each lane,
    and its final position.
    """
    limit = len(data)
    heads = windows(data, 8)
    places = starts
    counts = np.zeros(len(starts), dtype=np.int64)
    path: list[Array] = []
    while True:
        # A lane may have reached the end of the buffer; it no longer moves, but its head is still read.
        head = heads[np.minimum(places, limit - 8)].view(">u4").reshape(-1, 2)
        sizes = head[:, 0].astype(np.int64)
        magics = head[:, 1].astype(np.int64)
        moving = (magics == MAGIC_V1) | (magics == MAGIC_V2)
        moving &= (places < ends) & (sizes >= MIN_RECORD_SIZE) & (sizes <= limit - places)
        if np.count_nonzero(moving) <= _STRAGGLERS:
            return np.array(path, dtype=np.int64).reshape(-1, len(starts)), counts, places
        path.append(places)
        counts += moving
        places = places + sizes * moving


_NO_LIMIT = 2**63
_SAMPLE = 64
"""The number of records that are walked one by one to estimate the size of the others."""
_MOST_ROWS = 1 << 16
"""The maximum number of records that lanes walk at a time."""


class StopReason(StrEnum):
    """The reason why a walk stopped."""

    END = "end"
    """The given end was reached."""
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
    """Walk over the records that start in start:end; the last one may extend past `end`, but not past the
    buffer.

    Stops after `max_rows` records, or after the record that reaches `max_bytes`.
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
    """Yield arrays of positions, each with the byte after its last record; the last array may exceed `rows`.

    A sample of sizes determines how many bytes are walked in lanes. If lanes did not meet, as many bytes are
    then walked one by one, so hostile bytes cost only a few times as much time.
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


BLOCK_RECORDS = 1 << 14
"""The default number of records in a block; it suffices for a walk in lanes."""


class RecordBlock(NamedTuple):
    """Records of a file: `positions` are the bytes where they start, `end` is the byte after the last one."""

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
    """Yield blocks from byte `start` up to commit-log offset `end_offset`, or up to the first block that
    needs the scalar readers.
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
    """Yield blocks of the records at these positions, the last block first. Raises CorruptionError at an
    unusual record.
    """
    for stop in range(len(positions), 0, -max_rows):
        places = positions[max(stop - max_rows, 0) : stop]
        rows = placed_columns(data, base, places)
        if rows is None:
            raise CorruptionError("a record is damaged or states another offset")
        base = int(rows["physical_offset"][0] - places[0])
        yield RecordBlock(data, rows, places, int(places[-1] + rows["total_size"][-1]))


Bounds = tuple[int | None, int | None]
"""A half-open range; None stands for no bound."""


def in_range(rows: FixedColumns, offsets: Bounds, times: Bounds) -> Array:
    """Return a mask of the records in a range of commit-log offsets and a range of store times (ms)."""
    mask = np.ones(len(rows), dtype=bool)
    for name, (begin, end) in (("physical_offset", offsets), ("store_timestamp", times)):
        if begin is not None:
            mask &= rows[name] >= begin
        if end is not None:
            mask &= rows[name] < end
    return mask
