"""The queue offsets of a commit log as runs, whatever the files derived from the log say. A sound queue has
one.

A run ends where the next record of its queue has another offset than the next one: behind a lost record, in a
topic that was deleted and created again, or at a record whose queue offset, queue or topic is damaged.
"""

from __future__ import annotations

from typing import NamedTuple

from codec.codes import MessageSysFlag
from codec.properties import PropertyName, decode_properties
from codec.store.dispatch import has_queue_entry
from codec.store.record import RecordScan, scan_record
from codec.store.record_layout import MAGIC_FILLER
from rmqcli.store.read.vectorised import block_records, is_vectorised

QueueKey = tuple[str, int]
_BLOCK_RECORDS = 4096


class Run(NamedTuple):
    """Queue offsets `first` to `last`; the commit-log offsets of the first and the last record."""

    first: int
    last: int
    begin: int
    end: int

    @property
    def is_single(self) -> bool:
        return self.begin == self.end


class Sequences:
    """The runs of each queue in the order of the log."""

    def __init__(self) -> None:
        self.queues: dict[QueueKey, list[Run]] = {}

    def read(self, data: memoryview, begin: int, end: int) -> None:
        """Adds the records in [begin, end) of a file, which must all be whole."""
        position = begin
        while position < end:
            after = self._read_block(data, position, end)
            position = self._read_one_by_one(data, position, end) if after is None else after

    def put(self, record: RecordScan) -> None:
        if has_queue_entry(record.sys_flag):
            key = str(record.topic, "utf-8", "replace"), record.queue_id
            last = record.queue_offset + messages_in(record) - 1
            self._add(key, Run(record.queue_offset, last, record.physical_offset, record.physical_offset))

    def _read_block(self, data: memoryview, position: int, end: int) -> int | None:
        if not is_vectorised():
            return None
        from codec.scan.dispatch_columns import queued_block

        block = queued_block(data, position, end, min(block_records(), _BLOCK_RECORDS))
        if block is None:
            return None
        queues, behind = block
        for topic, queue_id, offsets, places in queues:
            breaks = (offsets[1:] - offsets[:-1] != 1).nonzero()[0]
            firsts = [0, *(breaks + 1).tolist()]
            lasts = [*breaks.tolist(), len(offsets) - 1]
            for first, last in zip(firsts, lasts, strict=True):
                ends = offsets[first], offsets[last], places[first], places[last]
                self._add((topic, queue_id), Run(*map(int, ends)))
        return behind

    def _read_one_by_one(self, data: memoryview, position: int, end: int) -> int:
        for _ in range(_BLOCK_RECORDS):
            if position >= end:
                break
            record = scan_record(data, position)
            if record.magic != MAGIC_FILLER:
                self.put(record)
            position += record.total_size
        return position

    def _add(self, key: QueueKey, run: Run) -> None:
        runs = self.queues.setdefault(key, [])
        if runs and runs[-1].last + 1 == run.first:
            runs[-1] = Run(runs[-1].first, run.last, runs[-1].begin, run.end)
        else:
            runs.append(run)


def messages_in(record: RecordScan) -> int:
    """Returns the number of queue offsets of a record: an inner batch of 5.x has several."""
    if not record.sys_flag & MessageSysFlag.INNER_BATCH:
        return 1
    count = decode_properties(record.properties).get(PropertyName.INNER_NUM, "")
    return int(count) if count.isdecimal() and len(count) < 6 and int(count) else 1
