"""A walk in many lanes: a stretch of the log is entered at many places, and NumPy steps in all at once.

The start of a lane is a guess, the next place with a magic. Guesses are never trusted: the lane before must
walk right into each. Where one does not, the stretch ends there, so the positions are exactly those of a walk
from record to record, whatever the bodies hold. About 0.05 µs a record.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from codec.layout import Buffer
from codec.scan.arrays import Array, windows
from codec.store.record_layout import HEAD, MAGIC_V1, MAGIC_V2, MAGICS, MIN_RECORD_SIZE

LEAST_ROWS = 8192
"""Fewer records than this are walked one by one."""
_LANES = 512
_STRAGGLERS = 16
"""Lanes left over that are walked one by one: a NumPy step costs the same for one as for a hundred."""
_SEARCH_BYTES = 1 << 16

_size_and_magic = HEAD.unpack_from
# The two magics differ only in their last byte; the literal prefix makes the search fast.
_MAGIC_PREFIX = re.escape(MAGIC_V1.to_bytes(4, "big")[:3])
_MAGIC_ENDS = re.escape(bytes(magic & 0xFF for magic in (MAGIC_V1, MAGIC_V2)))
_find_magic = re.compile(_MAGIC_PREFIX + b"[" + _MAGIC_ENDS + b"]").search


class LaneWalk(NamedTuple):
    """Positions of records, the byte after them, and True when the walk reached the stretch's end."""

    positions: Array
    end: int
    is_whole: bool


def follow(buffer: Buffer, position: int, stop: int, rows: int) -> tuple[list[int], int]:
    """Walk at most `rows` records that start before `stop` (0.2 µs each); also returns the byte after."""
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
    """Walk over the records that start in start:stop. A record must start at `start`; `stop` must lie
    MIN_RECORD_SIZE or more before the end.
    """
    starts = np.array(_entrances(buffer, start, stop), dtype=np.int64)
    ends = np.append(starts[1:], stop)
    path, counts, places = _run(np.frombuffer(buffer, dtype=np.uint8), starts, ends)
    tails: list[int] = []
    for lane in np.flatnonzero(places < ends).tolist():
        more, places[lane] = follow(buffer, int(places[lane]), int(ends[lane]), len(buffer))
        tails += more
    astray = np.flatnonzero(places[:-1] != starts[1:])
    good = int(astray[0]) + 1 if len(astray) else len(starts)
    end = int(places[good - 1])
    chosen = path.T[:good][np.arange(len(path)) < counts[:good, None]]
    if tails:
        more_places = np.array(tails, dtype=np.int64)
        chosen = np.sort(np.concatenate((chosen, more_places[more_places < end])))
    return LaneWalk(chosen, end, end >= stop)


def _entrances(buffer: Buffer, start: int, stop: int) -> list[int]:
    """Return places where a record may start, one in each lane that has any."""
    found = [start]
    width = (stop - start) // _LANES
    reach = min(width, _SEARCH_BYTES)
    for edge in range(start + width, stop - width + 1, width):
        match = _find_magic(buffer, edge + 4, edge + reach)
        if match is not None:
            found.append(match.start() - 4)
    return found


def _run(data: Array, starts: Array, ends: Array) -> tuple[Array, Array, Array]:
    """Step all lanes; returns a row of positions for each step, the steps of each lane, and its place."""
    limit = len(data)
    heads = windows(data, 8)
    places = starts
    counts = np.zeros(len(starts), dtype=np.int64)
    path: list[Array] = []
    while True:
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
