"""The queue offsets of a commit log as runs, read from the log alone, regardless of the files derived from
it. A sound queue has one run.

A run ends where the next record of its queue does not have the next offset: after a lost record, in a topic
that was deleted and created again, or at a record whose queue offset, queue or topic is damaged.
"""

from __future__ import annotations

from typing import NamedTuple

from rmqcli.codec.codes import MessageSysFlag
from rmqcli.codec.core.dispatch import Dispatch
from rmqcli.codec.core.record_reader import RecordScan
from rmqcli.codec.core.walk import Walk
from rmqcli.codec.properties import decode_properties
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.records.dispatch import has_queue_entry

QueueKey = tuple[str, int]
_BLOCK_RECORDS = 4096


class Run(NamedTuple):
    """Queue offsets `first` to `last`, and the commit-log offsets of the first and the last record."""

    first: int
    last: int
    begin: int
    end: int

    @property
    def is_single(self) -> bool:
        return self.begin == self.end


class Sequences:
    """The runs of each queue, in log order."""

    def __init__(self) -> None:
        self.queues: dict[QueueKey, list[Run]] = {}

    def read(self, data: memoryview, begin: int, end: int) -> None:
        """Add the records in [begin, end) of a file, which must all be whole."""
        walk, dispatch = Walk(data, -1, begin, end), Dispatch()
        while not walk.is_over:
            is_general = not dispatch.add_all(walk, _BLOCK_RECORDS)
            for run in dispatch.take()[0]:
                self._add((run.topic, run.queue_id), Run(run.first, run.end - 1, run.begin, run.last))
            if is_general:
                self.put(walk.scan())

    def put(self, record: RecordScan) -> None:
        if has_queue_entry(record.sys_flag):
            key = str(record.topic, "utf-8", "replace"), record.queue_id
            last = record.queue_offset + messages_in(record) - 1
            self._add(key, Run(record.queue_offset, last, record.physical_offset, record.physical_offset))

    def _add(self, key: QueueKey, run: Run) -> None:
        runs = self.queues.setdefault(key, [])
        if runs and runs[-1].last + 1 == run.first:
            runs[-1] = Run(runs[-1].first, run.last, runs[-1].begin, run.end)
        else:
            runs.append(run)


def messages_in(record: RecordScan) -> int:
    """Return the number of queue offsets of a record, more than 1 only for an inner batch of 5.x."""
    if not record.sys_flag & MessageSysFlag.INNER_BATCH:
        return 1
    count = decode_properties(record.properties).get(PropertyName.INNER_NUM, "")
    return int(count) if count.isdecimal() and len(count) < 6 and int(count) else 1
