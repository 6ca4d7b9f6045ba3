"""Sums of fingerprints of the queue entries and index items that records should have, and of those they have.

Where both sums are equal, entries (or items) and records agree; elsewhere each entry is compared with its
record by `codec.scan.checks`. Queues share the sums of a commit log file by their fingerprints, index items
those of a piece of the log, so a difference leads to few of them. Needs NumPy.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from codec.names import SystemTopic
from codec.scan.arrays import Array
from codec.scan.columns import FixedColumns, placed_columns
from codec.scan.entries import EntryColumns
from codec.scan.fingerprints import Fingerprints
from codec.scan.index_chains import time_differences
from codec.scan.record_facts import record_facts
from codec.store.dispatch import has_index_items, has_queue_entry
from codec.store.index_file import ITEM

SUMS_OF_QUEUES = 1024
"""Sums that the queues of a commit log file share."""
_SHARE = np.uint64(64 - SUMS_OF_QUEUES.bit_length() + 1)
PIECE_BITS = 20
"""The items of so many bytes of the log have one sum."""
_SCHEDULE = SystemTopic.SCHEDULE.encode()


class IndexTimes(NamedTuple):
    """For each index file, the commit-log offset of its last item and the time (ms) that its times count from."""

    ends: Sequence[int]
    since: Sequence[int]


class DispatchKey(NamedTuple):
    """The key of all sums of one check, and the times of its index files."""

    fingerprints: Fingerprints
    times: IndexTimes

    def queues(self, topics: Array, queue_ids: Array) -> Array:
        """Returns the fingerprints of queues from those of their topics."""
        return self.fingerprints.of_columns(topics, queue_ids)

    def entries(self, topics: Array, queues: Array, numbers: Array, entries: EntryColumns) -> Array:
        """Returns the fingerprints of entries with these queue offsets. A tags code of SCHEDULE_TOPIC_XXXX is
        a time, and does not count.
        """
        schedule = self.topics([_SCHEDULE])[0]
        codes = np.where(topics == schedule, 0, entries.tags_codes)
        return self.fingerprints.of_columns(queues, numbers, entries.offsets, entries.sizes, codes)

    def items(self, offsets: Array, hashes: Array, seconds: Array) -> Array:
        """Returns the fingerprints of index items."""
        return self.fingerprints.of_columns(offsets, (seconds << 32) + hashes)

    def topics(self, names: list[bytes]) -> Array:
        """Returns the fingerprints of topics."""
        ends = np.cumsum([len(name) for name in names])
        starts = np.append(0, ends)[:-1]
        return self.fingerprints.of_texts(np.frombuffer(b"".join(names), np.uint8), starts, ends)

    def differences(self, offsets: Array, times: Array) -> Array:
        """Returns the seconds that the index items of records stored at these times (ms) have; the offsets
        ascend.
        """
        ends, first = self.times.ends, bisect_left(self.times.ends, int(offsets[0])) if len(offsets) else 0
        found = np.zeros(len(offsets), np.int64)
        begin = 0
        for end, since in zip(ends[first:], self.times.since[first:], strict=True):
            stop = int(np.searchsorted(offsets, end, side="right"))
            found[begin:stop] = time_differences(since, times[begin:stop])
            begin = stop
            if stop == len(offsets):
                break
        return found


def queue_places(queues: Array) -> Array:
    """Returns the place of each queue's sum among SUMS_OF_QUEUES."""
    return (queues >> _SHARE).astype(np.int64)


class RecordSums:
    """The sums of records [begin, end) of the commit log, which are sound."""

    def __init__(self, key: DispatchKey, begin: int, end: int) -> None:
        self._key = key
        self.first_piece = begin >> PIECE_BITS
        self.queues = np.zeros(SUMS_OF_QUEUES, np.uint64)
        self.items = np.zeros((max(end - 1, begin) >> PIECE_BITS) - self.first_piece + 1, np.uint64)

    def add(self, data: memoryview, rows: FixedColumns) -> bool:
        """Returns False, and adds nothing, if the properties of a record do not parse."""
        facts = record_facts(data, rows)
        if facts is None:
            return False
        key, offsets = self._key, rows["physical_offset"]
        topics = key.fingerprints.of_texts(data, rows["topic_start"], rows["topic_end"])
        queues = key.queues(topics, rows["queue_id"])
        entries = EntryColumns(rows["total_size"], offsets, facts.tags_codes)
        found = key.entries(topics, queues, rows["queue_offset"], entries)
        flags: Any = rows["sys_flag"]
        found *= has_queue_entry(flags)
        np.add.at(self.queues, queue_places(queues), found)
        numbers = facts.key_rows
        seconds = key.differences(offsets, rows["store_timestamp"])
        items = key.items(offsets[numbers], facts.key_hashes, seconds[numbers])
        items *= has_index_items(flags[numbers])
        np.add.at(self.items, (offsets[numbers] >> PIECE_BITS) - self.first_piece, items)
        return True

    def add_sound(self, data: memoryview, base: int | None, positions: list[int]) -> None:
        """Adds records that were checked one by one; none of them if they cannot be read together."""
        rows = placed_columns(data, base, np.array(positions, np.int64))
        if rows is not None:
            self.add(data, rows)


class ItemRuns(NamedTuple):
    """Adjacent index items of one piece of the log each: [begin, end), and the highest offset before them."""

    pieces: Array
    begins: Array
    ends: Array
    before: Array
    sums: Array


def item_runs(key: DispatchKey, raw: Any, last: int, most: int) -> ItemRuns | None:
    """Sums items by pieces of the log; None if their offsets do not ascend from `last`, or for more than `most`
    runs.
    """
    items = np.frombuffer(raw, dtype=ITEM.dtype())
    offsets = items["phy_offset"].astype(np.int64)
    if not len(offsets) or offsets[0] < last or (offsets[1:] < offsets[:-1]).any():
        return None
    pieces = offsets >> PIECE_BITS
    begins = np.append(0, np.flatnonzero(pieces[1:] != pieces[:-1]) + 1)
    if len(begins) > most:
        return None
    seconds, hashes = items["time_diff"].astype(np.int64), items["key_hash"].astype(np.int64)
    sums = np.add.reduceat(key.items(offsets, hashes, seconds), begins)
    before = np.append(last, offsets[begins[1:] - 1])
    return ItemRuns(pieces[begins], begins, np.append(begins[1:], len(offsets)), before, sums)
