"""The check of a commit log: structure, CRC, places, properties.

The check continues after damage at the next whole record with the right CRC and place. Large files are cut
into parts at such records; a part counts only when the one before it ends where it begins.
"""

from __future__ import annotations

from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

from codec.errors import CorruptionError
from codec.properties import properties_problem
from codec.store.record import peek_record, scan_record
from codec.store.record_layout import FILLER_HEAD_SIZE, MAGIC_FILLER
from rmqcli.store.read.commit_log import CommitLogFiles, next_record, walk_file
from rmqcli.store.read.files import NamedFile, data_size, mapped
from rmqcli.store.read.vectorised import is_vectorised
from rmqcli.store.verify.findings import Finding, Report
from rmqcli.store.verify.sums import LogSums
from rmqcli.store.workers import ALONE, WORTH_A_PROCESS, Progress, Workers, usable_cores

if TYPE_CHECKING:
    from codec.scan.dispatch_sums import DispatchKey, RecordSums

PART_BYTES = 32 * 1024 * 1024
"""Bytes of a file that one process checks at a time."""
_FILES_TOGETHER = 16
"""Files whose parts are checked before their sums are added up."""
_CUT_REACH = 32 * 1024
_CUT_SEARCH = 8 * 1024 * 1024
_BLOCK_RECORDS = 4096


class LogPart(NamedTuple):
    """The records of a file that start in [begin, end); `cost` is the bytes there that are not holes.

    With a `key` their fingerprints are summed.
    """

    file: NamedFile
    begin: int
    end: int
    cost: int
    key: DispatchKey | None = None


class Checked(NamedTuple):
    """Report of a part: `end` is the byte after its last whole record, None if its file ends in damage."""

    report: Report
    end: int | None
    sums: RecordSums | None = None


def workers_for(log: CommitLogFiles, jobs: int | None = None) -> Workers:
    """Returns workers for a log: `jobs` processes, by default one for each core, or this one for a small log.

    Enter them before any thread is started.
    """
    size = sum(file.size for file in log.files)
    return Workers(jobs or (usable_cores() if size >= WORTH_A_PROCESS else 1))


def verify_commit_log(
    log: CommitLogFiles,
    progress: Progress = lambda size: None,
    workers: Workers = ALONE,
    part_bytes: int = PART_BYTES,
    sums: LogSums | None = None,
) -> Report:
    """Checks magic, lengths, CRC, offset and properties of all records. `progress`: bytes without holes.

    `sums` receives the sums of the sound records.
    """
    report = Report(files=len(log.files), size=sum(file.size for file in log.files))
    key = None if sums is None else sums.key
    for first in range(0, len(log.files), _FILES_TOGETHER):
        some = range(first, min(first + _FILES_TOGETHER, len(log.files)))
        parts = [parts_of(log.files[number], part_bytes) for number in some]
        report.used += sum(part.cost for several in parts for part in several)
        tasks = [part._replace(key=key) for several in parts for part in several]
        found = iter(list(zip(tasks, workers.run(verify_part, tasks, progress), strict=True)))
        for number, several in zip(some, parts, strict=True):
            counted = _counted(list(islice(found, len(several))))
            _merge(counted, log, number, report, sums)
    return report


def _merge(
    counted: list[Checked], log: CommitLogFiles, number: int, report: Report, sums: LogSums | None
) -> None:
    """Merges what counts of the parts of a file, and checks how the file ends."""
    for checked in counted:
        report.merge(checked.report)
        if sums is not None and checked.sums is not None:
            sums.add(number, checked.sums)
    end = counted[-1].end if counted else 0
    if end is not None and number + 1 < len(log.files):
        with mapped(log.files[number]) as data:
            _check_end(log.files[number], data, end, log.files[number + 1], report)


def parts_of(file: NamedFile, part_bytes: int) -> list[LogPart]:
    cuts = [0]
    if file.base is not None and file.size > 2 * part_bytes:
        with mapped(file) as data:
            for at in range(part_bytes, file.size - part_bytes, part_bytes):
                place = _cut(file, data, max(at, cuts[-1] + 1))
                cuts += [] if place is None else [place]
    bounds = pairwise([*cuts, file.size])
    return [LogPart(file, begin, end, data_size(file, begin, end)) for begin, end in bounds]


def _cut(file: NamedFile, data: memoryview, start: int) -> int | None:
    """Finds the next record in growing reach: most are near, and a search costs what it covers."""
    reach = _CUT_REACH
    while reach <= _CUT_SEARCH:
        place = next_record(file, data, start, start + reach)
        if place is not None:
            return place
        reach *= 16
    return None


def _counted(found: list[tuple[LogPart, Checked]]) -> list[Checked]:
    """Returns the results of a file's parts that count: each begins where the one before it ends."""
    counted: list[Checked] = []
    end: int | None = 0
    for part, checked in found:
        if end is None or end >= part.end > part.begin:
            continue
        if end != part.begin:  # what seemed a record is inside one, or past the end
            checked = verify_part(part._replace(begin=end))
        counted.append(checked)
        end = checked.end
    return counted


def verify_part(part: LogPart) -> Checked:
    report, sums = Report(), _sums_of(part)
    with mapped(part.file) as data:
        end: int | None = part.begin
        while True:
            assert end is not None
            end = _skip_sound(part, data, end, report, sums)
            sound: list[int] = []
            before, end = end, _look(part, data, end, report, sound)
            if sums is not None and sound:
                sums.add_sound(data, part.file.base, sound)
            if end is None or end == before or end >= part.end:
                return Checked(report, end, sums)


def _sums_of(part: LogPart) -> RecordSums | None:
    if part.key is None:
        return None
    from codec.scan.dispatch_sums import RecordSums

    base = part.file.base or 0
    return RecordSums(part.key, base + part.begin, base + part.end)


def _skip_sound(
    part: LogPart, data: memoryview, position: int, report: Report, sums: RecordSums | None
) -> int:
    if not is_vectorised() or part.file.base is None:
        return position
    from codec.scan.checks import skip_sound_records

    end, count = skip_sound_records(data, part.file.base, position, part.end, sums=sums)
    report.items += count
    return end


def _look(part: LogPart, data: memoryview, position: int, report: Report, sound: list[int]) -> int | None:
    """Checks up to a block of records or the first damage; returns their end, None at a damaged one.

    `sound` receives the places of the sound ones.
    """
    file = part.file
    try:
        for number, (place, record) in enumerate(walk_file(file, data, position)):
            position = place.position
            if position >= part.end or number == _BLOCK_RECORDS:
                return position
            scan_record(data, position, check_crc=True)
            position += place.size
            problem = properties_problem(record.properties)
            if problem is None:
                report.items += 1
                sound.append(place.position)
            else:
                report.add(Finding(file.path, place.position, problem, only_properties=True))
    except CorruptionError as error:
        if position >= part.end:
            return position
        following = next_record(file, data, position + 1)
        lost = None if following is None else following - position
        report.add(Finding(file.path, position, str(error), lost, is_last=following is None))
        return following
    return position


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
