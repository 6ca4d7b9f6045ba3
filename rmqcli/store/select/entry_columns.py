"""Which of many entries of a queue may lead to messages with a key, by the properties texts of their records. Needs NumPy.

No entry of such a message is kept out, nor one that leads to no whole record: what is let through is still to be looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from codec.errors import CorruptionError
from codec.scan import fixed_columns
from codec.scan.blocks import BLOCK_RECORDS, RecordBlock
from codec.scan.checks import written_entries
from codec.scan.predicate import tests_of
from codec.store.consume_queue import ENTRY, FILLER_SIZE
from codec.store.record_filter import RecordFilter
from rmqcli.store.read.consume_queue import ConsumeQueueFiles, QueueEntry
from rmqcli.store.read.files import NamedFile, mapped
from rmqcli.store.read.log_reader import LogReader

__all__ = ["entries_to_look_at"]

Array = np.ndarray[Any, np.dtype[Any]]


def entries_to_look_at(
    files: ConsumeQueueFiles, begin: int, end: int, log: LogReader, chosen: RecordFilter
) -> Iterator[QueueEntry]:
    """Of those with queue offsets in [begin, end), in their order."""
    for file in files.files:
        first = (file.base or 0) // ENTRY.size
        with mapped(file) as data:
            written = written_entries(data)
            for at in range(max(begin - first, 0), min(end - first, written), BLOCK_RECORDS):
                stop = min(at + BLOCK_RECORDS, end - first, written)
                numbers = at + _passing(data[at * ENTRY.size : stop * ENTRY.size], log, chosen)
                yield from (_entry(file, data, number) for number in numbers.tolist())
            if written < file.size // ENTRY.size:
                return


def _entry(file: NamedFile, data: memoryview, number: int) -> QueueEntry:
    offset, size, tags_code = ENTRY.unpack_from(data, number * ENTRY.size)
    queue_offset = (file.base or 0) // ENTRY.size + number
    return QueueEntry(queue_offset, offset, size, tags_code, file, number * ENTRY.size)


def _passing(raw: memoryview, log: LogReader, chosen: RecordFilter) -> Array:
    """Numbers of the entries that may be meant; fillers, and what retention took, are not among them."""
    entries = np.frombuffer(raw, dtype=ENTRY.dtype())
    offsets = entries["commit_log_offset"].astype(np.int64)
    bases = np.array([file.base or 0 for file in log.files], dtype=np.int64)
    files = np.searchsorted(bases, offsets, side="right") - 1
    meant = np.zeros(len(offsets), dtype=bool)
    for number in np.unique(files[files >= 0]).tolist():
        mine = np.flatnonzero(files == number)
        meant[mine] = _may_be_meant(log.view(log.files[number]), offsets[mine] - bases[number], chosen)
    return np.flatnonzero(meant & ((offsets != 0) | (entries["size"] != FILLER_SIZE)))


def _may_be_meant(data: memoryview, positions: Array, chosen: RecordFilter) -> Array:
    meant = np.ones(len(positions), dtype=bool)
    try:
        rows = fixed_columns(data, positions)
    except CorruptionError:
        return meant
    block = RecordBlock(data, rows, positions, len(data))
    for test in tests_of(chosen) if (np.diff(positions) > 0).all() else ():
        meant &= test(block, np.arange(len(positions)))
    return meant
