"""The check of a commit log: structure, CRC, offsets, properties.

After damage, the check continues at the next whole record with the correct CRC and offset. Large files are
cut into parts at such records; a part counts only if the part before it ends where this one begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from rmqcli.codec.core.dispatch import Dispatch, EntryRun
from rmqcli.codec.core.record_reader import RecordScan
from rmqcli.codec.core.walk import UNWRITTEN, Walk
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.properties import decode_properties, properties_problem
from rmqcli.codec.records.dispatch import has_place, index_hashes, queue_entries
from rmqcli.codec.records.reading import peek_record, scan_record
from rmqcli.codec.store.record_layout import FILLER_HEAD_SIZE, MAGIC_FILLER
from rmqcli.machine import processes
from rmqcli.store.read.commit_log import CommitLogFiles, LogViews, next_record, require_zeros, walk_file
from rmqcli.store.read.consume_queue import BatchQueue, BatchUnit
from rmqcli.store.read.files import Extent, NamedFile, data_extents, mapped
from rmqcli.store.read.sequences import QueueKey, Run, Sequences, messages_in
from rmqcli.store.verify.agreement import Agreement
from rmqcli.store.verify.findings import Finding, Report
from rmqcli.store.workers import ALONE, WORTH_A_PROCESS, Progress, Workers

PART_BYTES = 32 * 1024 * 1024
"""The bytes of a file that one process checks at a time."""
_PARTS_TOGETHER = 16
"""The number of parts checked before their results are merged.

Entries and index items of all of them are in memory.
"""
_CUT_REACH = 32 * 1024
_CUT_SEARCH = 8 * 1024 * 1024


class LogPart(NamedTuple):
    """The records of file `number` that start in [begin, end); `cost` is the number of bytes outside holes.

    With `dispatches`, their entries and index items are derived as well.
    """

    file: NamedFile
    number: int
    begin: int
    end: int
    cost: int
    dispatches: bool = False


class Checked(NamedTuple):
    """The report of a part.

    `end` is the byte after its last whole record, or None if its file ends in damage.

    `runs` and `keyed` are the queue entries and the index items that its sound records must have.
    """

    report: Report
    end: int | None
    runs: list[EntryRun]
    keyed: bytes


def workers_for(log: CommitLogFiles, jobs: int | None = None) -> Workers:
    """Return the workers for a log: `jobs` processes, by default one per core, or this one for a small log.

    Enter them before any thread is started.
    """
    size = sum(file.size for file in log.files)
    return Workers(jobs or (processes() if size >= WORTH_A_PROCESS else 1))


def verify_commit_log(
    log: CommitLogFiles,
    progress: Progress = lambda size: None,
    workers: Workers = ALONE,
    part_bytes: int = PART_BYTES,
    agreement: Agreement | None = None,
) -> Report:
    """Check magic, lengths, CRC, offset and properties of all records.

    `progress` receives bytes without holes.

    `agreement` receives the entries and index items that the sound records must have.
    """
    report = Report(files=len(log.files), size=sum(file.size for file in log.files))
    tasks = [
        part for number in range(len(log.files)) for part in parts_of(log.files[number], part_bytes, number)
    ]
    tasks = [part._replace(dispatches=agreement is not None) for part in tasks]
    end: int | None = 0
    # In rounds, because all results of a round are in memory until they are merged in log order.
    for first in range(0, len(tasks), _PARTS_TOGETHER):
        some = tasks[first : first + _PARTS_TOGETHER]
        for part, found in zip(some, workers.run(verify_part, some, progress), strict=True):
            report.used += part.cost
            if part.begin == 0:
                end = 0
            # Each part that counts begins where the previous one ends.
            if end is not None and not end >= part.end > part.begin:
                # Otherwise the record at its start was inside another one, or past the end.
                checked = found if end == part.begin else verify_part(part._replace(begin=end))
                report.merge(checked.report)
                if agreement is not None:
                    agreement.add(checked.runs, checked.keyed)
                end = checked.end
            if part.end == part.file.size and end is not None and part.number + 1 < len(log.files):
                with mapped(part.file) as data:
                    _check_end(part.file, data, end, log.files[part.number + 1], report)
    if agreement is not None:
        agreement.finish()
    return report


def parts_of(file: NamedFile, part_bytes: int, number: int = 0) -> list[LogPart]:
    extents, cuts = list(data_extents(file, 0, file.size)), [0]
    if file.base is not None and file.size > 2 * part_bytes:
        with mapped(file) as data:
            for at in range(part_bytes, file.size - part_bytes, part_bytes):
                place = _cut(file, data, extents, max(at, cuts[-1] + 1))
                cuts += [] if place is None else [place]
    bounds = pairwise([*cuts, file.size])
    return [LogPart(file, number, begin, end, _used(extents, begin, end)) for begin, end in bounds]


def _used(extents: list[Extent], begin: int, end: int) -> int:
    """Return the number of bytes of [begin, end) that are in extents."""
    return sum(max(min(high, end) - max(low, begin), 0) for low, high in extents)


def _cut(file: NamedFile, data: memoryview, extents: list[Extent], start: int) -> int | None:
    """Find the next record, in windows of growing size: most are near, and a search costs what it covers."""
    # A preallocated file may end in a hole of a gigabyte, where each search would find nothing.
    if not _used(extents, start, start + _CUT_SEARCH + FILLER_HEAD_SIZE):
        return None
    reach = _CUT_REACH
    while reach <= _CUT_SEARCH:
        place = next_record(file, data, start, start + reach)
        if place is not None:
            return place
        reach *= 16
    return None


def verify_part(part: LogPart) -> Checked:
    report, dispatch = Report(), Dispatch(derives=part.dispatches)
    base = -1 if part.file.base is None else part.file.base
    with mapped(part.file) as data:
        end: int | None = part.begin
        while end is not None:
            walk = Walk(data, base, end, part.end, check_crc=True)
            try:
                _check_records(part, walk, dispatch, report)
                if walk.ending == UNWRITTEN:
                    require_zeros(part.file, data, walk.position)
                end = walk.position
                break
            except CorruptionError as error:
                end = next_record(part.file, data, walk.position + 1)
                lost = None if end is None else end - walk.position
                report.add(Finding(part.file.path, walk.position, str(error), lost, is_last=end is None))
            finally:
                report.items += walk.count
    return Checked(report, end, *dispatch.take())


def _check_records(part: LogPart, walk: Walk, dispatch: Dispatch, report: Report) -> None:
    while not dispatch.add_all(walk):
        record = walk.scan()
        problem = properties_problem(record.properties)
        if problem is not None:
            report.items -= 1
            report.add(Finding(part.file.path, walk.position, problem, only_properties=True))
        elif part.dispatches:
            _dispatch(record, dispatch)


def _dispatch(record: RecordScan, dispatch: Dispatch) -> None:
    properties = decode_properties(record.properties)
    for entry in queue_entries(record, properties):
        dispatch.put(*entry)
    for key_hash in index_hashes(record, properties):
        dispatch.put_item(key_hash, record.physical_offset, record.store_timestamp)


def _check_end(file: NamedFile, data: memoryview, end: int, following: NamedFile, report: Report) -> None:
    with mapped(following) as next_data:
        if len(next_data) < FILLER_HEAD_SIZE or not any(next_data[:FILLER_HEAD_SIZE]):
            return
    if end < len(data) and (
        len(data) - end < FILLER_HEAD_SIZE or peek_record(data, end).magic != MAGIC_FILLER
    ):
        report.add(Finding(file.path, end, "no filler record ends this file, but the next one has records"))
    if file.base is not None and following.base != file.base + file.size:
        report.add(Finding(following.path, 0, f"a gap: the file before it ends at {file.base + file.size}"))


def sequences_of(log: CommitLogFiles) -> Sequences:
    """Return the sequences of a sound log."""
    found = Sequences()
    for file in log.files:
        with mapped(file) as data:
            end = max((place.position + place.size for place, _ in walk_file(file, data)), default=0)
            found.read(data, 0, end)
    return found


def misplaced(
    log: CommitLogFiles, found: Sequences, first_places: Mapping[QueueKey, int]
) -> Iterator[Finding]:
    """Yield the records with an impossible queue offset: no queue can have it, or another record has it."""
    yield from _without_place(log, found)
    yield from _repeats(log, found, first_places)


def _repeats(
    log: CommitLogFiles, found: Sequences, first_places: Mapping[QueueKey, int]
) -> Iterator[Finding]:
    """Yield the records whose queue offset is also that of an earlier record of the queue.

    If a queue begins again, at 0 or at the first entry of its consume queue (`first_places`), its topic was
    deleted and created again.
    """
    for key, runs in sorted(found.queues.items()):
        for before, run in pairwise(runs):
            if run.first <= before.last and run.first != 0 and first_places.get(key) != run.begin:
                yield _finding(log, run, f"{key[0]} queue {key[1]} has queue offset {run.first} twice")


def _without_place(log: CommitLogFiles, found: Sequences) -> Iterator[Finding]:
    """Yield the records that no queue can have, one for each run."""
    for key, runs in sorted(found.queues.items()):
        for run in runs:
            if not (has_place(*key, run.first) and has_place(*key, run.last)):
                text = f"there is no topic {key[0]!r} with a queue {key[1]} and queue offset {run.first}"
                yield _finding(log, run, text)


def _finding(log: CommitLogFiles, run: Run, text: str) -> Finding:
    file = next(file for file in reversed(log.files) if (file.base or 0) <= run.begin)
    return Finding(file.path, run.begin - (file.base or 0), text)


def check_batches(
    queues: list[BatchQueue], topics: frozenset[str], log: CommitLogFiles, found: Sequences, folder: Path
) -> Iterator[Finding]:
    """Yield the problems of the units of batch queues, and the queues whose last records have no unit."""
    ends: dict[QueueKey, int] = {}
    with LogViews(log.files) as views:
        for queue in queues:
            for unit in queue.units():
                problem = _problem(queue, unit, views)
                if unit.base_offset < ends.get((queue.topic, queue.queue_id), 0):
                    problem = problem or f"its queue offset {unit.base_offset} is in the unit before it, too"
                ends[queue.topic, queue.queue_id] = unit.end
                if problem:
                    yield Finding(unit.file.path, unit.position, problem)
    for key, runs in sorted(found.queues.items()):
        if key[0] in topics and runs[-1].last >= ends.get(key, 0):
            text = f"{key[0]} queue {key[1]} is missing the units of its last records"
            yield Finding(folder / key[0] / str(key[1]), 0, text)


def _problem(queue: BatchQueue, unit: BatchUnit, views: LogViews) -> str | None:
    try:
        place = views.place(unit.commit_log_offset)
        if place is None:  # retention removed the record
            return None
        record = scan_record(*place)
    except CorruptionError as error:
        return f"its record at commit-log offset {unit.commit_log_offset}: {error}"
    stated = str(record.topic, "utf-8", "replace"), record.queue_id, record.queue_offset, messages_in(record)
    expected = queue.topic, queue.queue_id, unit.base_offset, unit.batch_size
    if stated != expected or record.total_size != unit.size:
        return f"its record at commit-log offset {unit.commit_log_offset} is another"
    return None
