"""Check that an export of a store has a row for every entry of the consume queues.

The queues are counted before the commit log is read, so that a broker that keeps writing does no harm. More
rows than entries are sound: the consume queues of a killed broker lag behind its commit log, and a deleted
topic has none.

Entries do not contain store times. For a range of times, entries that point into a missing commit-log file
matter only if its records may be in the range: they were stored between the records before and after the
file, since store times increase along a log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rmqcli.codec.core.hashing import tags_code
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.names import LMQ_PREFIX, SystemTopic
from rmqcli.codec.scan.arrow import BATCH_BYTES, BATCH_ROWS
from rmqcli.codec.scan.entries import entry_columns
from rmqcli.codec.store.consume_queue import ENTRY
from rmqcli.counts import many, messages_at
from rmqcli.export.errors import ExportError
from rmqcli.export.from_store.row_filter import RowFilter
from rmqcli.export.output.manifest import Manifest, QueueSpan
from rmqcli.export.recreated_topics import explained, is_another
from rmqcli.render.output import warn
from rmqcli.store.read.commit_log import CommitLogFiles, LogReader
from rmqcli.store.read.consume_queue import Queue, count_written, entry_at, leading_fillers, queues_of
from rmqcli.store.read.files import NamedFile, peeked, without_last_hole
from rmqcli.store.read.log_records import LARGEST, is_stand_in
from rmqcli.store.read.tables import topics

Counts = Mapping[tuple[str, int], int]


def has_topic(store: Path, topic: str) -> bool:
    """Return False if a store is known not to have a topic. A topic without messages may have no queues."""
    queues = store / "consumequeue"
    return not queues.is_dir() or (queues / topic).is_dir() or topic in topics(store)


def count_entries(store: Path, rows: RowFilter) -> Counts:
    """Count the entries of each queue whose records are in the commit log and in `rows`.

    Returns {} where entries cannot say: for store times, for tags (entries contain only a hash), and without
    consume queues. For times, raises CorruptionError if a missing commit-log file may have contained some of
    the records.
    """
    if not (store / "consumequeue").is_dir():
        return {}
    if rows.begin_time is not None or rows.end_time is not None:
        require_files(store, _queues(store, rows), rows)
        return {}
    if rows.tags:
        return {}
    low = max(CommitLogFiles(store).files[0].base or 0, rows.begin_commit_log)
    found: dict[tuple[str, int], int] = {}
    for queue in _queues(store, rows):
        key = queue.topic or "", queue.queue_id or 0
        begin = max(rows.begin or 0, rows.done_of(*key))
        found[key] = sum(_count(file, begin, rows.end, low) for file in queue.files.files)
    return found


def _queues(store: Path, rows: RowFilter) -> Iterable[Queue]:
    return [
        queue
        for queue in queues_of(store, rows.topics)
        if queue.topic is not None
        and not queue.topic.startswith(LMQ_PREFIX)  # its entries point to records of another topic
        and rows.takes_queue(queue.topic, queue.queue_id)
    ]


def _count(file: NamedFile, begin: int, end: int | None, low: int) -> int:
    first, count = (file.base or 0) // ENTRY.size, file.size // ENTRY.size
    begin, end = max(0, begin - first), count if end is None else max(0, min(count, end - first))
    if begin >= end:
        return 0
    data = without_last_hole(file, ENTRY.size)[begin * ENTRY.size : end * ENTRY.size]
    entries = entry_columns(data)
    return int((entries.used & (entries.offsets >= low)).sum())


def warn_of_gap(store: Path, previous: Manifest | None, rows: RowFilter) -> list[str]:
    """Warn if retention removed messages since the export that is resumed. Return the warning.

    There is no check for tags and times, because the earlier export may have left out its last messages by
    these.
    """
    low = CommitLogFiles(store).files[0].base or 0
    if previous is None or not (store / "consumequeue").is_dir():
        return []
    # The log still contains the end of the earlier export, so nothing in between was removed.
    if (previous.commit_log_offset(str(store.resolve())) or 0) >= low:
        return []
    if rows.tags or rows.begin_time is not None or rows.end_time is not None:
        return []
    ends = {
        (span.topic, span.queue_id): span.end
        for span in previous.queues
        if span.broker_name == rows.broker_name
    }
    gaps = [
        (queue, ends[key], first)
        for queue in _queues(store, rows)
        if (key := (queue.topic or "", queue.queue_id or 0)) in ends
        and (first := max(_first_kept(queue, low), rows.begin or 0)) > ends[key]
    ]
    if not gaps:
        return []
    queue, begin, end = gaps[0]
    others = f" (and of {many(len(gaps) - 1, 'more queue')})" if len(gaps) > 1 else ""
    which = f"{messages_at(begin, end)} of queue {queue.queue_id} of topic {queue.topic}{others}"
    exist = "exists" if end - begin == len(gaps) == 1 else "exist"
    text = f"{store}: {which} arrived after the last export and no longer {exist}"
    warn(text)
    return [text]


def _first_kept(queue: Queue, low: int) -> int:
    """Return the first queue offset whose record is at commit-log offset `low` or later, or else the end."""
    for file in queue.files.files:
        entries = entry_columns(without_last_hole(file, ENTRY.size))
        kept = entries.used & (entries.offsets >= low)
        if kept.any():
            return (file.base or 0) // ENTRY.size + int(kept.argmax())
    return queue.files.bounds()[1]


def require_same_lives(store: Path, rows: RowFilter, previous: Manifest | None) -> None:
    """Raise ExportError if a topic was deleted and created again, and the export continues in its queues.

    An export that continues after a commit-log offset includes the new messages.
    """
    lasts = {last.key: last for last in previous.last} if previous else {}
    for queue in _queues(store, rows) if rows.done and lasts else ():
        last = lasts.get((queue.topic or "", rows.broker_name, queue.queue_id or 0))
        if last is None:
            continue
        offset = min(last.queue_offset, queue.files.bounds()[1] - 1)
        entry = queue.files.entry(offset) if offset >= 0 else None
        if entry is not None and is_another(last, offset, entry.commit_log_offset):
            raise ExportError(f"{store}: {explained(f'queue {queue.queue_id} of topic {queue.topic}', last)}")


def require_rows(store: Path, rows: RowFilter, expected: Counts, exported: Iterable[QueueSpan]) -> int:
    """Raise CorruptionError, naming the first queue, if there are fewer rows than entries.

    Returns the number of entries of messages that replace lost ones and have no row.
    """
    found = {(span.topic, span.queue_id): span.rows for span in exported}
    left_out = _stand_ins(store, rows, {key for key, count in expected.items() if found.get(key, 0) < count})
    short = [
        (key, count - left_out[key])
        for key, count in expected.items()
        if found.get(key, 0) < count - left_out[key]
    ]
    if short:
        (topic, queue), count = short[0]
        others = f" (and {many(len(short) - 1, 'more queue')})" if len(short) > 1 else ""
        raise CorruptionError(
            f"{store}: queue {queue} of topic {topic} has {many(count, 'entry')} in its consume queue, but the "
            f"commit log has {found.get((topic, queue), 0)} of its records{others}; "
            "--no-verify exports what is there"
        )
    return left_out.total()


def _stand_ins(store: Path, rows: RowFilter, keys: Set[tuple[str, int]]) -> Counter[tuple[str, int]]:
    """Count the messages in these queues that replace lost ones."""
    found: Counter[tuple[str, int]] = Counter()
    if not keys:
        return found
    with LogReader(store) as log:
        low = max(log.bases[0], rows.begin_commit_log)
        for queue in _queues(store, rows):
            key = queue.topic or "", queue.queue_id or 0
            entries = queue.files.entries(max(rows.begin or 0, rows.done_of(*key)), rows.end)
            for entry in entries if key in keys else ():
                # Larger records are not read, because no message that replaces a lost one is so large.
                if entry.size <= LARGEST and entry.commit_log_offset >= low:
                    message = log.message(entry.commit_log_offset)
                    found[key] += message is not None and is_stand_in(message)
    return found


_NO_END = 1 << 63


@dataclass(slots=True)
class _Hole:
    """Commit-log offsets [begin, end) without a file; `before` and `after` are the nearest entries."""

    begin: int
    end: int
    lost: int = 0
    queue: Queue | None = None
    before: int | None = None
    after: int | None = None

    def look_at(self, queue: Queue, places: Any) -> None:
        first, end = (int(number) for number in places.searchsorted((self.begin, min(self.end, _NO_END - 1))))
        if end > first:
            self.lost += end - first
            self.queue = self.queue or queue
        if first:
            self.before = max(self.before or 0, int(places[first - 1]))
        if end < len(places):
            self.after = min(self.after or _NO_END, int(places[end]))


def require_files(store: Path, queues: Iterable[Queue], rows: RowFilter) -> None:
    """Raise CorruptionError if a missing file may contain records that `rows` accepts by time."""
    holes = _holes(CommitLogFiles(store).files)
    after: list[Any] = []
    for queue in queues:
        for file in queue.files.files:
            places = _places(file)
            places = places[places >= rows.begin_commit_log]
            for hole in holes:
                hole.look_at(queue, places)
            after.append(places[places >= holes[-1].begin])
    # Listed again, because a running broker creates a file before the entries that point into it.
    end = _holes(CommitLogFiles(store).files)[-1].begin
    holes[-1].lost = sum(int((places >= end).sum()) for places in after)
    with LogReader(store) as log:
        for hole in holes:
            if hole.lost and hole.queue is not None and _may_be_in(log, hole, rows):
                others = f", and {many(hole.lost - 1, 'other')}," if hole.lost > 1 else ""
                raise CorruptionError(
                    f"{store}: an entry of queue {hole.queue.queue_id} of topic {hole.queue.topic}{others} "
                    f"leads to commit-log offsets from {hole.begin} on, where there is no file; "
                    "--no-verify exports what is there"
                )


def _holes(files: list[NamedFile]) -> list[_Hole]:
    """Return the holes between files and after the last one.

    Files before the first were removed by retention.
    """
    ends = [(file.base or 0) + file.size for file in files]
    begins = [file.base or 0 for file in files[1:]]
    between = [_Hole(end, begin) for end, begin in zip(ends[:-1], begins, strict=True) if begin > end]
    return [*between, _Hole(ends[-1], _NO_END)]


def _places(file: NamedFile) -> Any:
    entries = entry_columns(without_last_hole(file, ENTRY.size))
    return np.sort(entries.offsets[entries.used])


def _may_be_in(log: LogReader, hole: _Hole, rows: RowFilter) -> bool:
    before, after = (_time(log, place) for place in (hole.before, hole.after))
    starts_after = before is not None and rows.end_time is not None and before >= rows.end_time
    ends_before = after is not None and rows.begin_time is not None and after < rows.begin_time
    return not starts_after and not ends_before


def _time(log: LogReader, place: int | None) -> int | None:
    message = None if place is None else log.message(place)
    return None if message is None else message.store_timestamp


# Consume queue entries as columns, file by file: the places of a queue's records.
#
# The first and last entries of a file decide whether it is read, so that a stretch of a long log costs only its
# own entries.

_LOOKS = 3
"""The number of reads of a queue: while a broker writes, a sound queue may seem to have a hole, once."""


class UnsoundQueue(Exception):
    """A consume queue contradicts itself or the commit log. The message names it."""


class QueueFile(NamedTuple):
    """A file of a queue with the commit-log offsets of its first and last entries.

    `record_bytes` is the size of all its records, estimated from these two entries.
    """

    topic: str
    queue_id: int
    file: NamedFile
    first: int
    last: int
    record_bytes: int

    def touches(self, low: int, high: int) -> bool:
        """Return True if records of its entries may start in [low, high)."""
        return self.first < high and self.last >= low

    def may_have(self, begin: int | None, end: int | None) -> bool:
        """Return True if the file covers queue offsets of [begin, end); None is unbounded."""
        first = (self.file.base or 0) // ENTRY.size
        after = first + self.file.size // ENTRY.size
        return (begin is None or after > begin) and (end is None or first < end)


class Entries(NamedTuple):
    """Commit-log offsets (ascending) and sizes of records, queue ids, queue offsets; which may be wanted."""

    places: Any
    sizes: Any
    queue_ids: Any
    offsets: Any
    wanted: Any

    def only(self, chosen: Any) -> Entries:
        return Entries(*(column[chosen] for column in self))


def bounded(queue: Queue) -> list[QueueFile]:
    """Return the files of a queue that have entries, in order. Raises UnsoundQueue if they do not ascend."""
    topic, number = queue.topic or "", queue.queue_id or 0
    found: list[QueueFile] = []
    # The last file comes first: if it has entries, those before it are full, whatever a broker writes.
    for file in reversed(queue.files.files):
        count = file.size // ENTRY.size
        with peeked(file) as data:
            first, end = leading_fillers(data, count), count_written(data, count)
            if first >= end:
                continue
            oldest, newest = (entry_at(file, data, at) for at in (first, end - 1))
        total = (end - first) * (oldest.size + newest.size) // 2
        known = QueueFile(topic, number, file, oldest.commit_log_offset, newest.commit_log_offset, total)
        if found and (known.last >= found[-1].first or end < file.size // ENTRY.size):
            raise _unsound(topic, number, file)
        found.append(known)
    return found[::-1]


def last_place(queue: Queue) -> int:
    """Return the commit-log offset of the newest entry; 0 for a queue without entries."""
    for file in reversed(queue.files.files):
        places = _written(queue.topic or "", queue.queue_id or 0, file)[1]
        if len(places):
            return int(places[-1])
    return 0


def entries_in(files: Sequence[QueueFile], rows: RowFilter, low: int, high: int) -> Entries:
    """Return the entries whose records start in [low, high), in log order."""
    found = [Entries(*(np.zeros(0, kind) for kind in ("i8", "i4", "i4", "i8", "?")))]
    for file in files:
        if file.touches(low, high):
            entries = _entries(file, rows)
            found.append(entries.only(slice(*np.searchsorted(entries.places, (low, high)).tolist())))
    together = Entries(*map(np.concatenate, zip(*found, strict=True)))
    return together.only(np.argsort(together.places, kind="stable"))


def _entries(queue: QueueFile, rows: RowFilter) -> Entries:
    numbers, places, sizes, codes = _written(queue.topic, queue.queue_id, queue.file)
    offsets = numbers + (queue.file.base or 0) // ENTRY.size
    queue_ids = np.full(len(places), queue.queue_id, np.int32)
    return Entries(places, sizes, queue_ids, offsets, _wanted(queue, offsets, codes, rows))


def _written(topic: str, queue_id: int, file: NamedFile) -> tuple[Any, Any, Any, Any]:
    """Return numbers within the file, commit-log offsets, sizes and tags codes of the written entries."""
    for _ in range(_LOOKS):
        entries = entry_columns(without_last_hole(file, ENTRY.size))
        numbers = np.flatnonzero(entries.used)
        sizes, places, codes = (column[numbers] for column in entries)
        is_one_run = not len(numbers) or numbers[-1] - numbers[0] + 1 == len(numbers)
        if is_one_run and (np.diff(places) > 0).all():
            return numbers, places, sizes, codes
    raise _unsound(topic, queue_id, file)


def _unsound(topic: str, queue_id: int, file: NamedFile) -> UnsoundQueue:
    return UnsoundQueue(f"consume queue {queue_id} of {topic}: {file.path}: has a hole or does not ascend")


def _wanted(queue: QueueFile, offsets: Any, codes: Any, rows: RowFilter) -> Any:
    begin = max(rows.begin or 0, rows.done_of(queue.topic, queue.queue_id))
    wanted = (offsets >= begin) & rows.takes_queue(queue.topic, queue.queue_id)
    if rows.end is not None:
        wanted &= offsets < rows.end
    # In an extended queue, a code is an address, which is negative; in the schedule topic, it is a time.
    if rows.tags and queue.topic != SystemTopic.SCHEDULE:
        hashes = [tags_code(tag) for tag in rows.tags]
        wanted &= np.isin(codes, hashes) | (codes < -(1 << 31))
    return wanted


def batches(entries: Entries) -> Iterator[Entries]:
    """Yield runs of entries whose records fit in a record batch."""
    ends = np.cumsum(entries.sizes, dtype=np.int64)
    begin = 0
    while begin < len(ends):
        limit = (int(ends[begin - 1]) if begin else 0) + BATCH_BYTES
        end = min(begin + BATCH_ROWS, max(int(np.searchsorted(ends, limit)), begin + 1))
        yield entries.only(slice(begin, end))
        begin = end
