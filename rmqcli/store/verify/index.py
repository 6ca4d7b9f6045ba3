"""The check of index files: every item against the record it points at, then the chains of all slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from codec.errors import CorruptionError
from codec.properties import decode_properties
from codec.store.dispatch import index_hashes
from codec.store.index_file import ITEM, IndexItem, decode_item, item_position, time_difference
from codec.store.record import scan_record
from rmqcli.store.read.commit_log import CommitLogFiles, LogViews
from rmqcli.store.read.files import NamedFile, data_size, mapped
from rmqcli.store.read.index import IndexGeometry, geometry_of, index_files
from rmqcli.store.read.vectorised import is_vectorised
from rmqcli.store.verify.findings import Finding, Report
from rmqcli.store.verify.index_chains import Chains, damaged_items, verify_chains
from rmqcli.store.workers import Workers

PART_ITEMS = 1 << 18
_BLOCK_ITEMS = 1 << 14
_HEADER_BYTES = 40

Progress = Callable[[int], None]


class IndexPart(NamedTuple):
    """Items [begin, end) of a file with this many slots; `last` is the highest commit-log offset before them.

    `since` is the time (ms) that their times count from, None when the header has a wrong one.
    """

    file: NamedFile
    slots: int
    begin: int
    end: int
    last: int
    log: CommitLogFiles
    since: int | None

    @property
    def cost(self) -> int:
        return (self.end - self.begin) * ITEM.size


class IndexFinding(NamedTuple):
    """The result for an index. After a kill, the next start drops files `without_header` and replaces
    `younger` ones (with the count of damaged places).

    `growing` files are written by a running broker and not checked.
    """

    report: Report
    without_header: list[NamedFile]
    younger: dict[NamedFile, int]
    growing: list[NamedFile]


def verify_index(
    folder: Path,
    log: CommitLogFiles,
    workers: Workers,
    progress: Progress,
    *,
    crashed: bool,
    live: bool = False,
    flushed: int,
) -> IndexFinding:
    """Checks every file of a folder. Raises FileNotFoundError without any.

    `flushed` is the index time of the checkpoint (ms). With `live` a broker runs on the folder.
    """
    found = IndexFinding(Report(), [], {}, [])
    parts: list[IndexPart] = []
    for file in index_files(folder):
        found.report.files += 1
        found.report.size += file.size
        mine = _parts(file, log, found, crashed=crashed, live=live, flushed=flushed)
        used = data_size(file)
        found.report.used += used
        progress(used - sum(part.cost for part in mine))
        parts += mine
    reports = dict(zip(parts, workers.run(verify_part, parts, progress), strict=True))
    chains = [
        _chains(mine, reports, found) for _, several in groupby(parts, _file) if (mine := list(several))
    ]
    of_chains = workers.run(verify_chains, chains, progress)
    for chain, links in zip(chains, of_chains, strict=True):
        for report in (*(reports[part] for part in parts if part.file == chain.file), links):
            _count(report, chain.file, found)
    return found


def _file(part: IndexPart) -> NamedFile:
    return part.file


def _chains(parts: list[IndexPart], reports: dict[IndexPart, Report], found: IndexFinding) -> Chains:
    """Returns the chains of the file that has these parts."""
    file, slots = parts[0].file, parts[0].slots
    damaged = frozenset[int]().union(*(damaged_items(reports[part], file, slots) for part in parts))
    return Chains(file, slots, parts[-1].end, damaged, file in found.younger)


def _count(report: Report, file: NamedFile, found: IndexFinding) -> None:
    """Merges a report; damage in a file that the next start replaces is only counted."""
    if file in found.younger:
        found.younger[file] += report.damaged
        report = Report(items=report.items)
    found.report.merge(report)


def _parts(
    file: NamedFile, log: CommitLogFiles, found: IndexFinding, *, crashed: bool, live: bool, flushed: int
) -> list[IndexPart]:
    with mapped(file) as data:
        try:
            index = geometry_of(file, data)
        except CorruptionError as error:
            if crashed and not any(data[:_HEADER_BYTES]):
                (found.growing if live else found.without_header).append(file)
            else:
                found.report.add(Finding(file.path, error.position or 0, str(error)))
            return []
        if crashed and index.header.end_timestamp > flushed:
            if live:
                found.growing.append(file)
                return []
            found.younger[file] = 0
        problems = _header_problems(data, index, log)
        _count(_report(file, problems), file, found)
        since = None if problems else index.header.begin_timestamp
        parts, last = [], 0
        for begin in range(1, index.header.index_count, PART_ITEMS):
            end = min(begin + PART_ITEMS, index.header.index_count)
            parts.append(IndexPart(file, index.slots, begin, end, last, log, since))
            last = max(last, _highest(data, index.slots, begin, end))
        return parts


def _header_problems(data: memoryview, index: IndexGeometry, log: CommitLogFiles) -> dict[int, str]:
    """Returns, by byte, header fields that differ from those of the first and the last item."""
    if not index.items:
        return {}
    header, found = index.header, {}
    ends = decode_item(data, index.slots, 1), decode_item(data, index.slots, index.items)
    with LogViews(log.files) as views:
        times = [_store_time(views, item.phy_offset) for item in ends]
    stated = (
        (0, "begins at time", header.begin_timestamp, times[0]),
        (8, "ends at time", header.end_timestamp, times[1]),
        (16, "begins at commit-log offset", header.begin_phy_offset, ends[0].phy_offset),
        (24, "ends at commit-log offset", header.end_phy_offset, ends[1].phy_offset),
    )
    for position, what, found_value, right in stated:
        if right is not None and found_value != right:
            found[position] = f"the header says that the file {what} {found_value}, its items {right}"
    return found


def _store_time(views: LogViews, offset: int) -> int | None:
    """Returns None for a missing record, which its item reports."""
    try:
        place = views.place(offset)
        return None if place is None else scan_record(*place).store_timestamp
    except CorruptionError:
        return None


def _report(file: NamedFile, problems: Mapping[int, str]) -> Report:
    report = Report()
    for position, problem in problems.items():
        report.add(Finding(file.path, position, problem))
    return report


def _highest(data: memoryview, slots: int, begin: int, end: int) -> int:
    raw = data[item_position(slots, begin) : item_position(slots, end)]
    if is_vectorised():
        from codec.scan.checks import highest_offset

        return highest_offset(raw)
    return max((item[1] for item in ITEM.iter_unpack(raw)), default=0)


def verify_part(part: IndexPart) -> Report:
    report = Report()
    last = part.last
    with mapped(part.file) as data, LogViews(part.log.files) as views:
        hashes = _HashesOfRecords(views)
        for begin in range(part.begin, part.end, _BLOCK_ITEMS):
            end = min(begin + _BLOCK_ITEMS, part.end)
            _verify_block(part, data, hashes, range(begin, end), last, report)
            last = max(last, _highest(data, part.slots, begin, end))
    return report


def _verify_block(
    part: IndexPart, data: memoryview, hashes: _HashesOfRecords, numbers: range, last: int, report: Report
) -> None:
    suspects: range | list[int] = range(len(numbers))
    if is_vectorised():
        from codec.scan.checks import suspect_items

        raw = bytes(data[item_position(part.slots, numbers.start) : item_position(part.slots, numbers.stop)])
        suspects, sound = suspect_items(hashes.views, raw, last, part.since)
        report.items += sound
    if not suspects:
        return
    suspected = set(suspects)
    for place, number in enumerate(numbers):
        item = decode_item(data, part.slots, number)
        if place in suspected:
            # While the first item is written, the header still has the end of the file before.
            problem = _problem(item, last, hashes, None if number == 1 else part.since)
            if problem is None:
                report.items += 1
            else:
                position = item_position(part.slots, number)
                report.add(Finding(part.file.path, position, f"item {number}: {problem}"))
        last = max(last, item.phy_offset)


def _problem(item: IndexItem, last: int, hashes: _HashesOfRecords, since: int | None) -> str | None:
    if item.phy_offset < last:
        return f"its commit-log offset {item.phy_offset} is before that of the item before it"
    return hashes.problem(item, since)


class _HashesOfRecords:
    """Store times and hashes of records; keeps the last, since a record's items follow each other."""

    def __init__(self, views: LogViews) -> None:
        self.views = views
        self._offset = -1
        self._known: tuple[int, list[int]] | None = None

    def problem(self, item: IndexItem, since: int | None) -> str | None:
        offset = item.phy_offset
        try:
            if offset != self._offset:
                self._known = self._read(offset)
                self._offset = offset
        except CorruptionError as error:
            return str(error)
        if self._known is None:
            return None
        stored, hashes = self._known
        if item.key_hash not in hashes:
            return f"the record at {offset} has no key of hash {item.key_hash}"
        if since is not None and item.time_diff != time_difference(since, stored):
            return f"its time is {item.time_diff} s behind the file's, the record's {time_difference(since, stored)} s"
        return None

    def _read(self, offset: int) -> tuple[int, list[int]] | None:
        """Returns None when retention removed the record."""
        place = self.views.place(offset)
        if place is None:
            return None
        record = scan_record(*place)
        if record.physical_offset != offset:
            raise CorruptionError(f"no record is at commit-log offset {offset}")
        return record.store_timestamp, index_hashes(record, decode_properties(record.properties))
