"""Sums of the fingerprints of queue entries, for the parts of many queues at once. Needs NumPy.

See `codec.scan.dispatch_sums`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from codec.scan.arrays import Array
from codec.scan.dispatch_sums import SUMS_OF_QUEUES, DispatchKey, queue_places
from codec.scan.entries import entry_columns
from codec.store.consume_queue import ENTRY


class EntryPart(NamedTuple):
    """Adjacent entries of a queue: `number` is the queue offset of the first, `last` the commit-log offset before
    it.
    """

    topic: bytes
    queue_id: int
    number: int
    last: int
    raw: bytes


class EntryRuns(NamedTuple):
    """Entries [begin, end) of parts that lead into one commit log file each (-1: older), and the place of their
    sum; `before` are the commit-log offsets before them.
    """

    parts: Array
    begins: Array
    ends: Array
    before: Array
    files: Array
    places: Array


class EntrySums:
    """The sums of entries by commit log file and queues; `bases` are the offsets where the files begin."""

    def __init__(self, key: DispatchKey, bases: Sequence[int]) -> None:
        self._key = key
        self._bases = np.array(bases, np.int64)
        self.queues = np.zeros((len(bases), SUMS_OF_QUEUES), np.uint64)

    def add(self, parts: Sequence[EntryPart]) -> EntryRuns:
        """Adds the entries of parts, without those that have a filler or whose offsets do not ascend."""
        counts = np.array([len(part.raw) // ENTRY.size for part in parts], np.int64)
        begins = np.append(0, np.cumsum(counts))
        part_of = np.repeat(np.arange(len(parts)), counts)
        numbers = np.arange(begins[-1]) - begins[part_of]
        entries = entry_columns(b"".join(part.raw for part in parts))
        before = np.append(np.int64(0), entries.offsets[:-1])
        some = counts > 0
        before[begins[:-1][some]] = np.array([part.last for part in parts], np.int64)[some]
        odd = np.unique(part_of[(entries.offsets <= before) | ~entries.used])
        files = np.searchsorted(self._bases, entries.offsets, side="right") - 1

        topics = self._key.topics([part.topic for part in parts])
        queues = self._key.queues(topics, np.array([part.queue_id for part in parts], np.int64))
        firsts = np.array([part.number for part in parts], np.int64)
        sums = self._key.entries(topics[part_of], queues[part_of], firsts[part_of] + numbers, entries)
        is_counted = files >= 0
        if len(odd):
            is_counted &= ~np.isin(part_of, odd)
        places = queue_places(queues)
        np.add.at(self.queues, (files[is_counted], places[part_of[is_counted]]), sums[is_counted])

        starts_run = (part_of[1:] != part_of[:-1]) | (files[1:] != files[:-1])
        starts = np.flatnonzero(np.append(len(part_of) > 0, starts_run))
        stops = np.append(starts[1:], len(part_of))
        if len(odd):
            kept = ~np.isin(part_of[starts], odd)
            starts, stops = starts[kept], stops[kept]
        mine = part_of[starts]
        return EntryRuns(
            mine, numbers[starts], numbers[stops - 1] + 1, before[starts], files[starts], places[mine]
        )
