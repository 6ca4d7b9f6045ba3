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
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

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
from rmqcli.store.read.consume_queue import (
    Queue,
    QueueLook,
    count_written,
    entry_at,
    leading_fillers,
    queues_of,
)
from rmqcli.store.read.files import NamedFile, peeked, without_last_hole
from rmqcli.store.read.log_records import LARGEST, is_stand_in
from rmqcli.store.read.tables import topics

Counts = Mapping[tuple[str, int], int]


def has_topic(store: Path, topic: str) -> bool:
    """Return False if a store is known not to have a topic. A topic without messages may have no queues."""
    queues = store / "consumequeue"
    return not queues.is_dir() or (queues / topic).is_dir() or topic in topics(store)


class StoreQueues:
    """The consume queues of a store that an export reads, listed once, with each file opened once for all
    queries.

    Queues of light message queues are left out, because their entries point to records of other topics.
    """

    def __init__(self, store: Path, rows: RowFilter) -> None:
        self.store, self.rows = store, rows
        self.was_written = False
        """True if a broker may have added entries while the files were read, once they are listed."""
        self._seen: list[list[SeenFile]] | None = None

    @cached_property
    def every(self) -> list[Queue]:
        """All queues of the topics."""
        self.was_written = (self.store / "abort").exists()
        queues = queues_of(self.store, self.rows.topics)
        return [queue for queue in queues if not (queue.topic or "").startswith(LMQ_PREFIX)]

    @property
    def chosen(self) -> Iterator[Queue]:
        return filter(self._is_chosen, self.every)

    def _is_chosen(self, queue: Queue) -> bool:
        return queue.topic is not None and self.rows.takes_queue(queue.topic, queue.queue_id)

    @property
    def seen(self) -> list[list[SeenFile]]:
        """For each queue, its files that have entries, in order. Without `counts`, most are not read whole."""
        if self._seen is None:
            self._seen = seen_files(self.every)
        return self._seen

    def counts(self) -> Counts:
        """Count the entries of each queue whose records are in the commit log and in the rows.

        Returns {} if entries cannot determine the number: for store times, for tags (entries contain only a
        hash), and without consume queues. For times, raises CorruptionError if a missing commit-log file may
        have contained some of the records.
        """
        rows = self.rows
        if not (self.store / "consumequeue").is_dir():
            return {}
        if rows.begin_time is not None or rows.end_time is not None:
            require_files(self.store, self.chosen, rows)
            return {}
        if rows.tags:
            return {}
        low = max(CommitLogFiles(self.store).files[0].base or 0, rows.begin_commit_log)
        begins = {
            number: max(rows.begin or 0, rows.done_of(*_key(queue)))
            for number, queue in enumerate(self.every)
            if self._is_chosen(queue)
        }
        seen = seen_files(self.every, Counting(begins, rows.end, low))
        self._seen = seen
        return {_key(self.every[number]): sum(file.kept for file in seen[number]) for number in begins}


def _key(queue: Queue) -> tuple[str, int]:
    return queue.topic or "", queue.queue_id or 0


def warn_of_gap(queues: StoreQueues, previous: Manifest | None) -> list[str]:
    """Warn if retention removed messages since the export that is resumed. Return the warning.

    There is no check for tags and times, because the earlier export may have left out its last messages by
    these.
    """
    store, rows = queues.store, queues.rows
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
        for queue in queues.chosen
        if (key := _key(queue)) in ends
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
    """Return the first queue offset whose record is at commit-log offset `low` or later, or the end."""
    for file in queue.files.files:
        entries = entry_columns(without_last_hole(file, ENTRY.size))
        kept = entries.used & (entries.offsets >= low)
        if kept.any():
            return (file.base or 0) // ENTRY.size + int(kept.argmax())
    return queue.files.bounds()[1]


def require_same_lives(queues: StoreQueues, previous: Manifest | None) -> None:
    """Raise ExportError if a topic was deleted and created again, and the export continues in its queues.

    An export that continues after a commit-log offset includes the new messages.
    """
    store, rows = queues.store, queues.rows
    lasts = {last.key: last for last in previous.last} if previous else {}
    for queue in queues.chosen if rows.done and lasts else ():
        last = lasts.get((queue.topic or "", rows.broker_name, queue.queue_id or 0))
        if last is None:
            continue
        with QueueLook(queue.files.files) as look:
            offset = min(last.queue_offset, look.bounds()[1] - 1)
            entry = look.entry(offset) if offset >= 0 else None
        if entry is not None and is_another(last, offset, entry.commit_log_offset):
            raise ExportError(f"{store}: {explained(f'queue {queue.queue_id} of topic {queue.topic}', last)}")


def require_rows(queues: StoreQueues, expected: Counts, exported: Iterable[QueueSpan]) -> int:
    """Raise CorruptionError, naming the first queue, if there are fewer rows than entries.

    Returns the number of entries of messages that replace lost ones and have no row.
    """
    found = {(span.topic, span.queue_id): span.rows for span in exported}
    left_out = _stand_ins(queues, {key for key, count in expected.items() if found.get(key, 0) < count})
    short = [
        (key, count - left_out[key])
        for key, count in expected.items()
        if found.get(key, 0) < count - left_out[key]
    ]
    if short:
        (topic, queue), count = short[0]
        others = f" (and {many(len(short) - 1, 'more queue')})" if len(short) > 1 else ""
        raise CorruptionError(
            f"{queues.store}: queue {queue} of topic {topic} has {many(count, 'entry')} in its consume queue, but the "
            f"commit log has {found.get((topic, queue), 0)} of its records{others}; "
            "--no-verify exports what is there"
        )
    return left_out.total()


def _stand_ins(queues: StoreQueues, keys: Set[tuple[str, int]]) -> Counter[tuple[str, int]]:
    """Count the messages in these queues that replace lost ones."""
    found: Counter[tuple[str, int]] = Counter()
    if not keys:
        return found
    rows = queues.rows
    with LogReader(queues.store) as log:
        low = max(log.bases[0], rows.begin_commit_log)
        for queue in queues.chosen:
            key = _key(queue)
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

    def look_at(self, queues: Sequence[Queue], found: Written, wanted: Any) -> None:
        """Examine the entries that the mask selects; `queues` has the queue of each file."""
        places = found.places
        inside = np.flatnonzero(wanted & (places >= self.begin) & (places < min(self.end, _NO_END - 1)))
        if len(inside):
            self.lost += len(inside)
            self.queue = self.queue or queues[found.owners[inside[0]]]
        before, after = (places[wanted & mask] for mask in (places < self.begin, places >= self.end))
        if len(before):
            self.before = max(self.before or 0, int(before.max()))
        if len(after):
            self.after = min(self.after or _NO_END, int(after.min()))


def require_files(store: Path, queues: Iterable[Queue], rows: RowFilter) -> None:
    """Raise CorruptionError if a missing file may contain records that `rows` accepts by time."""
    holes = _holes(CommitLogFiles(store).files)
    after: list[Any] = []
    for owners, found in in_runs((file, queue) for queue in queues for file in queue.files.files):
        wanted = found.places >= rows.begin_commit_log
        for hole in holes:
            hole.look_at(owners, found, wanted)
        after.append(found.places[wanted & (found.places >= holes[-1].begin)])
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


def _may_be_in(log: LogReader, hole: _Hole, rows: RowFilter) -> bool:
    before, after = (_time(log, place) for place in (hole.before, hole.after))
    starts_after = before is not None and rows.end_time is not None and before >= rows.end_time
    ends_before = after is not None and rows.begin_time is not None and after < rows.begin_time
    return not starts_after and not ends_before


def _time(log: LogReader, place: int | None) -> int | None:
    message = None if place is None else log.message(place)
    return None if message is None else message.store_timestamp


# Consume queue entries as columns, of many files at once: reading and checking 80,000 files one by one takes
# longer than exporting their records.
#
# The first and last entries of a file decide whether it is read, so that a range of a long log costs only its
# own entries.

_LOOKS = 3
"""The number of reads of a queue: while a broker writes, a sound queue may seem to have a hole, once."""
_RUN_BYTES = 4 * 1024 * 1024


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


class Written(NamedTuple):
    """The written entries of a run of files, one file after another.

    `owners` are the numbers of their files in the run, `numbers` those of the entries in their file.
    """

    owners: Any
    numbers: Any
    places: Any
    sizes: Any
    codes: Any

    def unsound(self) -> Any:
        """Return the numbers of files that have a hole, or whose commit-log offsets do not ascend."""
        same = self.owners[1:] == self.owners[:-1]
        wrong = (np.diff(self.numbers) != 1) | (np.diff(self.places) <= 0)
        return self.owners[1:][same & wrong]


Owner = TypeVar("Owner")


def in_runs(files: Iterable[tuple[NamedFile, Owner]]) -> Iterator[tuple[list[Owner], Written]]:
    """Yield the written entries of files, in order, in runs of several files, with the owners of these."""
    owners: list[Owner] = []
    read: list[bytes] = []
    size = 0
    for file, owner in files:
        data = _data_of(file)
        owners.append(owner)
        read.append(data)
        size += len(data)
        if size >= _RUN_BYTES:
            yield owners, _written(read)
            owners, read, size = [], [], 0
    if owners:
        yield owners, _written(read)


def _data_of(file: NamedFile) -> bytes:
    data = without_last_hole(file, ENTRY.size)
    return data[: len(data) // ENTRY.size * ENTRY.size]


def _written(read: Sequence[bytes]) -> Written:
    entries = entry_columns(b"".join(read))
    counts = np.array([len(data) // ENTRY.size for data in read])
    used = np.flatnonzero(entries.used)
    owners = np.repeat(np.arange(len(read)), counts)[used]
    sizes, places, codes = (column[used] for column in entries)
    return Written(owners, used - (np.cumsum(counts) - counts)[owners], places, sizes, codes)


def sound_runs(files: Iterable[QueueFile]) -> Iterator[tuple[list[QueueFile], Written]]:
    """Like `in_runs`. Raises UnsoundQueue for a file that has a hole or does not ascend."""
    for run, found in in_runs((one.file, one) for one in files):
        for _ in range(1, _LOOKS):
            if not len(found.unsound()):
                break
            found = _written([_data_of(one.file) for one in run])
        for number in found.unsound():
            raise _unsound(run[number])
        yield run, found


def _unsound(file: QueueFile) -> UnsoundQueue:
    text = f"consume queue {file.queue_id} of {file.topic}: {file.file.path}: has a hole or does not ascend"
    return UnsoundQueue(text)


class Counting(NamedTuple):
    """The queues to count, by number, each with its first queue offset; entries before queue offset `end`
    (None is unbounded) whose commit-log offset is at least `low` count.
    """

    begins: Mapping[int, int]
    end: int | None
    low: int


class SeenFile(NamedTuple):
    """A queue file with entries; `kept` of them are wanted, if they were counted."""

    file: QueueFile
    is_full: bool
    is_sound: bool = True
    kept: int = 0


def seen_files(queues: Sequence[Queue], counting: Counting | None = None) -> list[list[SeenFile]]:
    """Return the files of each queue that have entries, in order.

    Those of counted queues are read whole. Of another queue, the last one that has entries is read whole, and
    before it, the first and the last entry of each file.
    """
    counted = counting.begins if counting else {}
    seen: list[list[SeenFile]] = [[] for _ in queues]
    rest = [[] if number in counted else list(queue.files.files) for number, queue in enumerate(queues)]
    others = [number for number in range(len(queues)) if rest[number]]
    wanted = [(number, file) for number in counted for file in queues[number].files.files]
    wanted += [(number, rest[number].pop()) for number in others]
    while wanted:
        for run, found in in_runs((one[1], one) for one in wanted):
            for number, one in _seen_in(run, found, queues, counting):
                seen[number].append(one)
        wanted = [(number, rest[number].pop()) for number in others if rest[number] and not seen[number]]
    # The last file comes first: if it has entries, those before it are full, even while a broker writes.
    for number in others:
        seen[number][:0] = _peeked_at(queues[number], rest[number])
    return seen


def _seen_in(
    run: Sequence[tuple[int, NamedFile]],
    found: Written,
    queues: Sequence[Queue],
    counting: Counting | None,
) -> Iterator[tuple[int, SeenFile]]:
    if not len(found.owners):
        return
    kept = _kept(run, found, counting) if counting else np.zeros(len(run), np.int64)
    unsound = set(found.unsound().tolist())
    owners, begins = np.unique(found.owners, return_index=True)
    lasts = np.append(begins[1:], len(found.owners)) - 1
    total = np.add.reduceat(found.sizes, begins, dtype=np.int64)
    columns = (found.places[begins], found.places[lasts], total, found.numbers[lasts], kept[owners])
    rows = zip(owners.tolist(), *(column.tolist() for column in columns), strict=True)
    for owner, first, last, record_bytes, newest, count in rows:
        number, file = run[owner]
        one = QueueFile(*_key(queues[number]), file, first, last, record_bytes)
        is_full = newest + 1 >= file.size // ENTRY.size
        yield number, SeenFile(one, is_full, owner not in unsound, count)


def _kept(run: Sequence[tuple[int, NamedFile]], found: Written, counting: Counting) -> Any:
    """Return the number of wanted entries of each file of a run."""
    begins = np.array([counting.begins.get(number, 0) for number, _ in run], np.int64)
    offsets = found.numbers + _first_offsets(file for _, file in run)[found.owners]
    kept = (offsets >= begins[found.owners]) & (found.places >= counting.low)
    if counting.end is not None:
        kept &= offsets < counting.end
    return np.bincount(found.owners[kept], minlength=len(run))


def _first_offsets(files: Iterable[NamedFile]) -> Any:
    return np.array([(file.base or 0) // ENTRY.size for file in files], np.int64)


def _peeked_at(queue: Queue, files: Sequence[NamedFile]) -> list[SeenFile]:
    seen = []
    for file in files:
        count = file.size // ENTRY.size
        with peeked(file) as data:
            first, end = leading_fillers(data, count), count_written(data, count)
            if first < end:
                oldest, newest = (entry_at(file, data, at) for at in (first, end - 1))
                total = (end - first) * (oldest.size + newest.size) // 2
                places = oldest.commit_log_offset, newest.commit_log_offset
                seen.append(SeenFile(QueueFile(*_key(queue), file, *places, total), end == count))
    return seen


def bounded(seen: Sequence[SeenFile]) -> list[QueueFile]:
    """Return the files of a queue that have entries. Raises UnsoundQueue if they do not ascend."""
    for one, following in pairwise(seen):
        if one.file.last >= following.file.first or not one.is_full:
            raise _unsound(one.file)
    return [one.file for one in seen]


class Entries(NamedTuple):
    """Commit-log offsets (ascending) and sizes of records, queue ids, queue offsets; which may be wanted."""

    places: Any
    sizes: Any
    queue_ids: Any
    offsets: Any
    wanted: Any

    def only(self, chosen: Any) -> Entries:
        return Entries(*(column[chosen] for column in self))


def entries_in(files: Sequence[QueueFile], rows: RowFilter, low: int, high: int) -> Entries:
    """Return the entries whose records start in [low, high), in log order."""
    found = [Entries(*(np.zeros(0, kind) for kind in ("i8", "i4", "i4", "i8", "?")))]
    for run, written in sound_runs(file for file in files if file.touches(low, high)):
        inside = (written.places >= low) & (written.places < high)
        found.append(_entries(run, Written(*(column[inside] for column in written)), rows))
    together = Entries(*map(np.concatenate, zip(*found, strict=True)))
    return together.only(np.argsort(together.places, kind="stable"))


def _entries(run: Sequence[QueueFile], found: Written, rows: RowFilter) -> Entries:
    offsets = found.numbers + _first_offsets(one.file for one in run)[found.owners]
    queue_ids = np.array([one.queue_id for one in run], np.int32)[found.owners]
    return Entries(found.places, found.sizes, queue_ids, offsets, _wanted(run, found, offsets, rows))


def _wanted(run: Sequence[QueueFile], found: Written, offsets: Any, rows: RowFilter) -> Any:
    begins = [max(rows.begin or 0, rows.done_of(one.topic, one.queue_id)) for one in run]
    taken = np.array([rows.takes_queue(one.topic, one.queue_id) for one in run], bool)
    wanted = (offsets >= np.array(begins, np.int64)[found.owners]) & taken[found.owners]
    if rows.end is not None:
        wanted &= offsets < rows.end
    # In an extended queue, a code is an address, which is negative; in the schedule topic, it is a time.
    if rows.tags:
        hashes = [tags_code(tag) for tag in rows.tags]
        timed = np.array([one.topic == SystemTopic.SCHEDULE for one in run], bool)
        wanted &= np.isin(found.codes, hashes) | (found.codes < -(1 << 31)) | timed[found.owners]
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
