"""The check of consume queues: no gaps, increasing commit-log offsets, agreement with their records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from rmqcli.codec.core.agreement import EntryCheck, doubtful_entries, written_entries
from rmqcli.codec.core.dispatch import Dispatch, EntryRun
from rmqcli.codec.core.hashing import tags_code
from rmqcli.codec.core.walk import Walk
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.message import MessageExt
from rmqcli.codec.names import LMQ_PREFIX, SystemTopic
from rmqcli.codec.properties import decode_properties
from rmqcli.codec.records.dispatch import DispatchedEntry, further_queues, queue_entries
from rmqcli.codec.records.reading import decode_record
from rmqcli.codec.store.consume_queue import ENTRY, is_address
from rmqcli.codec.store.file_names import RECOVERED_FILES
from rmqcli.store.read.commit_log import CommitLogFiles, LogViews
from rmqcli.store.read.consume_queue import ConsumeQueueFiles, Queue, QueueEntry, QueueLook, is_filler
from rmqcli.store.read.files import NamedFile, Sliced, data_size, mapped, peeked, read_data
from rmqcli.store.read.lock import is_locked
from rmqcli.store.verify.agreement import Agreement
from rmqcli.store.verify.findings import Finding, Report
from rmqcli.store.workers import ALONE, Progress, Workers

PART_ENTRIES = 1 << 17
_TASK_BYTES = PART_ENTRIES * ENTRY.size
_TASK_PARTS = 512
"""The maximum number of parts, possibly of as many queues, checked with one mapping of the log."""


class QueuePart(NamedTuple):
    """Entries [begin, end) of a queue file; `last` is the commit-log offset before them."""

    queue: Queue
    file: NamedFile
    begin: int
    end: int
    last: int

    @property
    def size(self) -> int:
        return (self.end - self.begin) * ENTRY.size


class QueueParts(NamedTuple):
    """Parts of queues of one commit log, whose files are mapped once for all parts."""

    parts: list[QueuePart]
    log: CommitLogFiles | None
    check_crc: bool

    @property
    def cost(self) -> int:
        return sum(part.size for part in self.parts)


def shared_out(parts: list[QueuePart]) -> Iterator[list[QueuePart]]:
    """Yield lists of parts, each small enough for one task."""
    some: list[QueuePart] = []
    size = 0
    for part in parts:
        if size + part.size > _TASK_BYTES or len(some) == _TASK_PARTS:
            yield some
            some, size = [], 0
        some.append(part)
        size += part.size
    if some:
        yield some


class Repairs:
    """Holes that a broker repairs on its next start.

    The broker cuts a queue off at its first hole, then adds the entries of all records from commit-log offset
    `dispatched_from` on. With None, it repairs nothing.
    """

    def __init__(self, dispatched_from: int | None, log_begin: int = 0) -> None:
        self.holes: list[tuple[NamedFile, int]] = []
        self._from = dispatched_from
        self._log_begin = log_begin

    def take(self, queue: Queue, file: NamedFile, position: int, last: int) -> bool:
        """Record a hole and return True if the next start repairs it.

        `last` is the commit-log offset before it.
        """
        if self._from is None or file not in queue.files.files[-RECOVERED_FILES:]:
            return False
        if last < self._from > self._log_begin:
            return False
        self.holes.append((file, position))
        return True


NO_REPAIRS = Repairs(None)


def verify_consume_queues(
    queues: list[Queue],
    commit_log: Path | None = None,
    progress: Progress = lambda size: None,
    workers: Workers = ALONE,
) -> Report:
    """Check every entry of every queue: increasing commit-log offsets, no gaps, agreement with its record.

    The commit log is the given one, otherwise that of the store folder of the queue. Entries whose records
    are older than the first file of the log are sound, because retention removes records first. `progress`
    receives bytes, not counting holes. Raises FileNotFoundError if the given log is missing.
    """
    logs: dict[Path | None, CommitLogFiles | None] = {}
    # Queues are listed before the log, which then has the records of all their entries.
    queues = [queue.as_written() if queue.store and is_locked(queue.store) else queue for queue in queues]
    for queue in queues:
        source = commit_log or (queue.store and queue.store / "commitlog")
        if source not in logs:
            logs[source] = CommitLogFiles(source) if source and (commit_log or source.exists()) else None
    chosen = [logs[commit_log or (queue.store and queue.store / "commitlog")] for queue in queues]
    return verify_queues(list(zip(queues, chosen, strict=True)), workers, progress, check_crc=True)


def verify_queues(
    queues: list[tuple[Queue, CommitLogFiles | None]],
    workers: Workers,
    progress: Progress,
    *,
    check_crc: bool,
    repairs: Repairs = NO_REPAIRS,
    agreement: Agreement | None = None,
) -> Report:
    """Check each queue against its commit log. CRCs need no check if the log was found sound.

    `agreement` has the entries that agree with the sound records of the log, if all queues share one log.
    """
    report = Report()
    # Queues of one log are checked together, so that each task maps its files once.
    tasks: list[QueueParts] = []
    for log, group in groupby(queues, itemgetter(1)):
        parts: list[QueuePart] = []
        for queue, _ in group:
            files = queue.files.files
            report.files += len(files)
            report.size += sum(file.size for file in files)
            _check_gaps(files, report)
            before = len(parts)
            used = report.used
            for part, raw in _parts(queue, report, repairs):
                parts += [part] if agreement is None else _doubtful(part, raw, agreement, report)
            progress(report.used - used - sum(part.size for part in parts[before:]))
        tasks += [QueueParts(some, log, check_crc) for some in shared_out(parts)]
    for found in workers.run(verify_parts, tasks, progress):
        report.merge(found)
    return report


def _check_gaps(files: list[NamedFile], report: Report) -> None:
    for before, file in pairwise(files):
        if before.base is not None and file.base != before.base + before.size:
            report.add(
                Finding(file.path, 0, f"a gap: the file before it ends at byte {before.base + before.size}")
            )


def _parts(queue: Queue, report: Report, repairs: Repairs) -> Iterator[tuple[QueuePart, bytes]]:
    """Yield the written entries in parts, each with its bytes.

    Nonzero bytes after an entry of size 0 are damage. Bytes outside holes count as used.
    """
    last = -1
    ended: tuple[NamedFile, int] | None = None
    files = queue.files.files
    for number, file in enumerate(files, 1):
        data, used = read_data(file, ENTRY.size)
        report.used += used
        # Entries after the end of the queue are damage, reported once, where the entry is missing.
        count = 0 if ended else written_entries(data)
        for begin in range(0, count, PART_ENTRIES):
            end = min(begin + PART_ENTRIES, count)
            yield QueuePart(queue, file, begin, end, last), data[begin * ENTRY.size : end * ENTRY.size]
            last = _last_offset(data, begin, end, last)
        where, position = ended or (file, count * ENTRY.size)
        rest = data[count * ENTRY.size :]
        if rest != bytes(len(rest)):
            if not repairs.take(queue, where, position, last):
                report.add(Finding(where.path, position, "an entry is missing here, but others follow"))
            report.used += sum(map(data_size, files[number:]))
            return
        if count < file.size // ENTRY.size and ended is None:
            ended = where, position


def _doubtful(part: QueuePart, raw: bytes, agreement: Agreement, report: Report) -> Iterator[QueuePart]:
    """Yield those ranges of a part whose entries must be compared one by one."""
    first = (part.file.base or 0) // ENTRY.size + part.begin
    known = agreement.entries_of(part.queue[:2])
    found, sound, _ = doubtful_entries(raw, first, part.last, agreement.log_begin, known)
    report.items += sound
    for begin, end, last in found:
        yield part._replace(begin=part.begin + begin, end=part.begin + end, last=last)


def _last_offset(data: Sliced, begin: int, end: int, last: int) -> int:
    """Return the commit-log offset of the last entry that is not a filler, or `last` if there is none."""
    for number in range(end - 1, begin - 1, -1):
        if not is_filler(data, number):
            return int(ENTRY.unpack(data[number * ENTRY.size : (number + 1) * ENTRY.size])[0])
    return last


class _Check(NamedTuple):
    """The records that entries are compared with, and the report that receives the differences."""

    views: LogViews
    check_crc: bool
    report: Report


def verify_parts(task: QueueParts) -> Report:
    with LogViews(task.log.files if task.log else []) as views:
        check = _Check(views, task.check_crc, Report())
        for part in task.parts:
            _verify_part(part, check)
    return check.report


def _verify_part(part: QueuePart, check: _Check) -> None:
    last, topic = part.last, part.queue.topic or ""
    with_codes = topic != SystemTopic.SCHEDULE
    queue_id = -1 if part.queue.queue_id is None else part.queue.queue_id
    quick = EntryCheck(topic.encode("utf-8", "replace"), queue_id, with_codes, check.check_crc)
    with peeked(part.file) as data:
        # All entries with one read, after which the file is closed: the log's files need the descriptors.
        raw = data[part.begin * ENTRY.size : part.end * ENTRY.size]
    for number, (offset, size, code) in enumerate(ENTRY.iter_unpack(raw), part.begin):
        entry = QueueEntry(
            (part.file.base or 0) // ENTRY.size + number, offset, size, code, part.file, number * ENTRY.size
        )
        if entry.is_filler:
            continue
        problem = _problem(entry, check, part.queue, quick)
        if offset <= last:
            problem = f"its commit-log offset {offset} is not above that of the entry before it"
        last = offset
        if problem is None:
            check.report.items += 1
        else:
            check.report.add(
                Finding(part.file.path, entry.position, f"queue offset {entry.queue_offset}: {problem}")
            )


def _problem(entry: QueueEntry, check: _Check, queue: Queue, quick: EntryCheck) -> str | None:
    """Return the contradiction between an entry and its record, or None. Also return None if there is no
    record to compare.
    """
    if not check.views.bases:
        return None
    try:
        place = check.views.place(entry.commit_log_offset)
        if place is None:
            return None
    except CorruptionError as error:
        return str(error)
    # The quick check decodes nothing. Entries that fail it are decoded, to name the field that differs.
    if quick.agrees(*place, entry.queue_offset, entry.commit_log_offset, entry.size, entry.tags_code):
        return None
    try:
        message = decode_record(*place, check_crc=check.check_crc)
    except CorruptionError as error:
        return f"its record at commit-log offset {entry.commit_log_offset}: {error}"
    return _contradiction(entry, message, queue)


def _contradiction(entry: QueueEntry, message: MessageExt, queue: Queue) -> str | None:
    scheduled = message.topic == SystemTopic.SCHEDULE
    extended = is_address(entry.tags_code)  # the code is in the extension of the queue
    further = tuple(further_queues(message.properties))
    dispatched = (queue.topic or "").startswith(LMQ_PREFIX) or (queue.topic, entry.queue_offset) in further
    facts: tuple[tuple[str, object, object, bool], ...] = (
        ("size", entry.size, message.store_size, True),
        ("commit-log offset", entry.commit_log_offset, message.commit_log_offset, True),
        ("queue offset", entry.queue_offset, message.queue_offset, not dispatched),
        ("tags code", entry.tags_code, tags_code(message.tags), not (scheduled or extended)),
        ("topic", queue.topic, message.topic, queue.topic is not None and not dispatched),
        ("queue id", queue.queue_id, message.queue_id, queue.topic is not None and not dispatched),
    )
    wrong = (
        f"its {name} is {here}, the record has {there}"
        for name, here, there, counts in facts
        if counts and here != there
    )
    return next(wrong, None)


# The search for missing entries: records before the start or after the end of their consume queue.
#
# A topic that was deleted and created again begins at 0 once more, and its old records stay in the log: they
# precede the last record of the queue, and so are not after its end.

_BLOCK_RECORDS = 4096


class Span(NamedTuple):
    """Queue offsets [first, end), and the commit-log offset of the last entry."""

    first: int
    end: int
    last_place: int


NOTHING = Span(0, 0, -1)
"""The span of a queue without entries."""
_WITHOUT_END = Span(-(1 << 63), (1 << 63) - 1, -1)
"""The span of a queue that is not searched."""


class MissingEntries(NamedTuple):
    """A queue with missing entries, either before its first entry or after its last."""

    topic: str
    queue_id: int
    is_before: bool

    @property
    def queue(self) -> tuple[str, int]:
        return self[:2]


Spans = Mapping[tuple[str, int], Span]


def span_of(files: ConsumeQueueFiles) -> Span:
    with QueueLook(files.files) as look:
        first, end = look.bounds()
        last = look.entry(end - 1) if end > first else None
    return NOTHING if last is None else Span(first, end, last.commit_log_offset)


def find_missing_entries(
    log: CommitLogFiles, spans: Spans, deleted: Mapping[str, int]
) -> Counter[MissingEntries]:
    """Count the missing entries of the given queues.

    Skips damage, and records before the commit-log offset that `deleted` gives for their topic.
    """
    found: Counter[MissingEntries] = Counter()
    for file in log.files:
        with mapped(file) as data:
            walk, dispatch = Walk(data, -1 if file.base is None else file.base), Dispatch()
            while not walk.is_over:
                try:
                    is_general = not dispatch.add_all(walk, _BLOCK_RECORDS)
                except CorruptionError:  # reported with the commit log
                    break
                finally:
                    for run in dispatch.take()[0]:
                        span = spans.get((run.topic, run.queue_id), _WITHOUT_END)
                        # The whole run is within the entries of the queue: most runs end here, without
                        # examining each entry.
                        if span.first <= run.first and run.end <= span.end:
                            continue
                        _count(_entries_of(run), spans, deleted, found)
                if is_general:
                    record = walk.scan()
                    _count(queue_entries(record, decode_properties(record.properties)), spans, deleted, found)
    return found


def _entries_of(run: EntryRun) -> Iterator[DispatchedEntry]:
    for number, entry in enumerate(ENTRY.iter_unpack(run.entries), run.first):
        yield DispatchedEntry(run.topic, run.queue_id, number, *entry)


def _count(
    entries: Iterable[DispatchedEntry],
    spans: Spans,
    deleted: Mapping[str, int],
    found: Counter[MissingEntries],
) -> None:
    for entry in entries:
        if entry.commit_log_offset < deleted.get(entry.topic, 0):
            continue
        key = entry.topic, entry.queue_id
        span = spans.get(key, _WITHOUT_END)
        is_before = entry.queue_offset < span.first
        if is_before or (entry.queue_offset >= span.end and entry.commit_log_offset > span.last_place):
            found[MissingEntries(*key, is_before)] += 1
