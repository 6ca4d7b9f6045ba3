"""Entries of a consume queue that follow one another, unpacked in one call: that costs a fifth."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import compress
from operator import add, le, lt

from codec.store.consume_queue import ENTRY

MOST_AT_ONCE = 64
"""Entries that are unpacked in one call."""


@lru_cache(maxsize=MOST_AT_ONCE)
def layout_of(count: int) -> struct.Struct:
    """The layout of so many entries."""
    return struct.Struct(">" + ENTRY.struct.format.lstrip(">") * count)


class EntryRun:
    """The entries at a place, by columns, and the log offset of the entry behind them, -1 if there is none."""

    __slots__ = ("codes", "following", "offsets", "sizes")

    def __init__(self, view: memoryview, position: int, present: int, most: int) -> None:
        """Reads at most `most` of the entries that are present, at least one; MOST_AT_ONCE at most."""
        fields = layout_of(min(present, most + 1)).unpack_from(view, position)
        end = 3 * most
        self.offsets: tuple[int, ...] = fields[:end:3]
        self.sizes: tuple[int, ...] = fields[1:end:3]
        self.codes: tuple[int, ...] = fields[2:end:3]
        self.following: int = fields[end] if present > most else -1

    def stretches(self) -> tuple[Sequence[int], Sequence[int]] | None:
        """Starts and ends of the stretches of the log that the records make up; None if one of them begins
        before the end of the one before it, or has no bytes."""
        offsets = self.offsets
        following, ends = offsets[1:], tuple(map(add, offsets, self.sizes))
        if min(self.sizes) <= 0:
            return None
        if ends[:-1] == following:  # those of a log with one busy queue
            return offsets[:1], ends[-1:]
        if all(map(lt, ends, following)):  # those of one with many
            return offsets, ends
        if not all(map(le, ends, following)):
            return None
        has_gap = tuple(map(lt, ends, following))
        return [offsets[0], *compress(following, has_gap)], [*compress(ends, has_gap), ends[-1]]
