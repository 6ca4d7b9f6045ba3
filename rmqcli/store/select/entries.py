"""Selection of queue entries by offset, time, tag hash, condition and message key, and of their messages."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from rmqcli.codec.core.record_tests import RecordTest
from rmqcli.codec.records.filter import RecordFilter
from rmqcli.codec.records.possible import possible
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.store.read.commit_log import Found, LogReader
from rmqcli.store.read.consume_queue import Queue, QueueEntry

Entry = tuple[Queue, QueueEntry]


@dataclass(frozen=True, slots=True)
class EntryChoice:
    """A choice of entries: queue offsets or store times, tag hashes (empty: all), a test of the entry, and
    the key of its message.

    `log` is set for times and keys.
    """

    wanted: OffsetRange
    codes: frozenset[int] = frozenset()
    meets: Callable[[Queue, QueueEntry], bool] | None = None
    key: str | None = None
    log: LogReader | None = None

    def of(self, queue: Queue) -> Iterator[Entry]:
        """Yield the chosen entries of a queue; `last` counts chosen entries."""
        last = self.wanted.last
        begin, end = self._bounds(queue)
        if last and not (self.codes or self.meets or self.key):
            # Every entry counts, so the ones before the last are not read.
            begin = max(begin, end - last)
        test = RecordTest() if self.key is None else possible(RecordFilter(self.key))
        chosen = (one for one in queue.files.entries(begin, end) if self._accepts(queue, one, test))
        entries = ((queue, one) for one in chosen)
        return iter(deque(entries, last)) if last else entries

    def _accepts(self, queue: Queue, entry: QueueEntry, test: RecordTest) -> bool:
        if self.codes and entry.tags_code not in self.codes:
            return False
        if self.meets is not None and not self.meets(queue, entry):
            return False
        if self.key is None or self.log is None:
            return True
        found = self.log.read(entry.commit_log_offset, test)
        return found is not None and RecordFilter(self.key).accepts(found[1])

    def _bounds(self, queue: Queue) -> tuple[int, int]:
        first, end = queue.files.bounds()
        times = self.wanted.begin_time, self.wanted.end_time
        if self.log is not None and times != (None, None):
            begin, stop = (_stored_from(queue, self.log, first, end, time) for time in times)
            return (first if begin is None else begin), (end if stop is None else stop)
        return (OffsetRange() if self.wanted.last else self.wanted).offsets(first, end)


def _stored_from(queue: Queue, log: LogReader, first: int, end: int, time: int | None) -> int | None:
    """Return the first queue offset stored at `time` (ms) or later. Removed records count as older."""
    if time is None:
        return None
    return bisect_left(range(end), time, lo=first, key=lambda offset: log.time_of(queue.files.entry(offset)))


def messages_of(found: Iterable[Entry], log: LogReader) -> Iterator[Found]:
    """Yield the messages of the entries, except those that retention removed.

    Raises DamagedFile where there is no whole record.
    """
    records = (log.read(entry.commit_log_offset) for _, entry in found)
    return (record for record in records if record is not None)
