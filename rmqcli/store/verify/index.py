"""The check of index files: every item against the record it points to, then the chains of all slots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from operator import attrgetter
from typing import NamedTuple

from rmqcli.codec.core.agreement import doubtful_items, wrong_links
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.properties import decode_properties
from rmqcli.codec.records.dispatch import index_hashes
from rmqcli.codec.records.reading import scan_record
from rmqcli.codec.store.index_file import (
    ITEM,
    IndexHeader,
    IndexItem,
    WrongLink,
    decode_item,
    item_position,
    time_difference,
)
from rmqcli.store.read.commit_log import CommitLogFiles, LogViews, walk_file
from rmqcli.store.read.files import NamedFile, data_size, mapped
from rmqcli.store.read.index import IndexGeometry, geometry_of
from rmqcli.store.verify.agreement import Agreement
from rmqcli.store.verify.findings import Finding, Report
from rmqcli.store.workers import Progress, Workers

PART_ITEMS = 1 << 18
_HEADER_BYTES = 40


class IndexFinding(NamedTuple):
    """The result for an index.

    After a kill, the next start drops files `without_header` and replaces `younger` ones (each with its
    number of damaged places). `growing` files are being written by a running broker and are not checked.
    """

    report: Report
    without_header: list[NamedFile]
    younger: dict[NamedFile, int]
    growing: list[NamedFile]


class IndexPart(NamedTuple):
    """Items [begin, end) of a file with `slots` slots; `last` is the highest commit-log offset before them.

    `since` is the time (ms) that their times are relative to, or None if the header has a wrong one.
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


def verify_index(
    files: Sequence[NamedFile],
    log: CommitLogFiles,
    workers: Workers,
    progress: Progress,
    *,
    crashed: bool,
    live: bool = False,
    flushed: int,
    agreement: Agreement | None = None,
) -> IndexFinding:
    """Check every file.

    `flushed` is the index time of the checkpoint (ms). With `live`, a broker runs on the folder. `agreement`
    has the items that agree with the sound records of the log.
    """
    found = IndexFinding(Report(), [], {}, [])
    parts: list[IndexPart] = []
    for file in files:
        found.report.files += 1
        found.report.size += file.size
        mine = _parts(file, log, found, crashed=crashed, live=live, flushed=flushed)
        used = data_size(file)
        found.report.used += used
        progress(used - sum(part.cost for part in mine))
        parts += mine
    reports = _reports(parts, workers, progress, agreement)
    # Chains come after the items: a link from a damaged item would only repeat its damage.
    chains = [_chains(list(mine), reports, found) for _, mine in groupby(parts, attrgetter("file"))]
    of_chains = workers.run(_verify_chains, chains, progress)
    for chain, links in zip(chains, of_chains, strict=True):
        for report in (*(reports[part] for part in parts if part.file == chain.file), links):
            _count(report, chain.file, found)
    return found


def _reports(
    parts: list[IndexPart], workers: Workers, progress: Progress, agreement: Agreement | None
) -> dict[IndexPart, Report]:
    """Compare, one by one, the items of all parts that are not already known to agree with their records."""
    reports = {part: Report() for part in parts}
    rest = [(part, part) for part in parts]
    if agreement is not None:
        rest = [(part, one) for part in parts for one in _doubtful(part, agreement, reports[part])]
        progress(sum(part.cost for part in parts) - sum(one.cost for _, one in rest))
    found = workers.run(verify_part, [one for _, one in rest], progress)
    for (part, _), report in zip(rest, found, strict=True):
        reports[part].merge(report)
    return reports


def _doubtful(part: IndexPart, agreement: Agreement, report: Report) -> Iterator[IndexPart]:
    """Yield those ranges of a part whose items must be compared one by one."""
    if part.since is None:
        yield part
        return
    with mapped(part.file) as data:
        raw = _items(part, data, part.begin, part.end)
    known = agreement.items_of(part.file)
    found, sound, _ = doubtful_items(raw, part.begin, part.last, agreement.log_begin, known)
    report.items += sound
    for begin, end, last in found:
        yield part._replace(begin=part.begin + begin, end=part.begin + end, last=last)


def _items(part: IndexPart, data: memoryview, begin: int, end: int) -> bytes:
    return bytes(data[item_position(part.slots, begin) : item_position(part.slots, end)])


def _chains(parts: list[IndexPart], reports: dict[IndexPart, Report], found: IndexFinding) -> _Chains:
    """Return the chains of the file to which the parts belong."""
    file, slots = parts[0].file, parts[0].slots
    places = (one.position for part in parts for one in reports[part].findings)
    damaged = frozenset((place - item_position(slots, 0)) // ITEM.size for place in places)
    return _Chains(file, slots, parts[-1].end, damaged, file in found.younger)


def _count(report: Report, file: NamedFile, found: IndexFinding) -> None:
    """Merge a report. Damage in a file that the next start replaces is only counted."""
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
            # A killed broker leaves the file that it was creating: its next start drops it.
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
        of_header = _check_header(file, data, index, log)
        _count(of_header, file, found)
        since = index.header.begin_timestamp if of_header.sound else None
        parts, last = [], 0
        for begin in range(1, index.header.index_count, PART_ITEMS):
            end = min(begin + PART_ITEMS, index.header.index_count)
            parts.append(IndexPart(file, index.slots, begin, end, last, log, since))
            last = _highest(data, index.slots, begin, end, last)
        return parts


def _check_header(file: NamedFile, data: memoryview, index: IndexGeometry, log: CommitLogFiles) -> Report:
    """Compare the header with the first and the last item."""
    report = Report()
    if not index.items:
        return report
    header = index.header
    ends = decode_item(data, index.slots, 1), decode_item(data, index.slots, index.items)
    with LogViews(log.files) as views:
        times = [_store_time(views, item.phy_offset) for item in ends]
    stated = (
        (0, "begins at time", header.begin_timestamp, times[0]),
        (8, "ends at time", header.end_timestamp, times[1]),
        (16, "begins at commit-log offset", header.begin_phy_offset, ends[0].phy_offset),
        (24, "ends at commit-log offset", header.end_phy_offset, ends[1].phy_offset),
    )
    for position, what, found, right in stated:
        if right is not None and found != right:
            text = f"the header says that the file {what} {found}, its items {right}"
            report.add(Finding(file.path, position, text))
    return report


def _store_time(views: LogViews, offset: int) -> int | None:
    """Return the store time (ms) of a record, or None if it is missing, as the check of its item reports."""
    try:
        place = views.place(offset)
        return None if place is None else scan_record(*place).store_timestamp
    except CorruptionError:
        return None


def _highest(data: memoryview, slots: int, begin: int, end: int, last: int) -> int:
    """Return the highest commit-log offset of items [begin, end), or `last` if that is higher."""
    raw = bytes(data[item_position(slots, begin) : item_position(slots, end)])
    return doubtful_items(raw, begin, last, 0, ())[2]


def verify_part(part: IndexPart) -> Report:
    report = Report()
    last = part.last
    with mapped(part.file) as data, LogViews(part.log.files) as views:
        hashes = _HashesOfRecords(views)
        for number in range(part.begin, part.end):
            item = decode_item(data, part.slots, number)
            # While the first item is written, the header still has the end of the previous file.
            problem = hashes.problem(item, last, None if number == 1 else part.since)
            if problem is None:
                report.items += 1
            else:
                position = item_position(part.slots, number)
                report.add(Finding(part.file.path, position, f"item {number}: {problem}"))
            last = max(last, item.phy_offset)
    return report


class _HashesOfRecords:
    """Store times and hashes of records.

    Keeps those of the last one, because the items of a record are consecutive.
    """

    def __init__(self, views: LogViews) -> None:
        self.views = views
        self._offset = -1
        self._known: tuple[int, list[int]] | None = None

    def problem(self, item: IndexItem, last: int, since: int | None) -> str | None:
        offset = item.phy_offset
        if offset < last:
            return f"its commit-log offset {offset} is before that of the item before it"
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
        if since is not None and item.time_diff != (right := time_difference(since, stored)):
            return f"its time is {item.time_diff} s after the file's, the record's {right} s"
        return None

    def _read(self, offset: int) -> tuple[int, list[int]] | None:
        """Return the store time and the hashes of a record, or None if retention removed it."""
        place = self.views.place(offset)
        if place is None:
            return None
        record = scan_record(*place)
        if record.physical_offset != offset:
            raise CorruptionError(f"no record is at commit-log offset {offset}")
        return record.store_timestamp, index_hashes(record, decode_properties(record.properties))


class _Chains(NamedTuple):
    """Items [1, end) of a file with `slots` slots.

    Links of `damaged` items are not reported, because their hashes may be wrong.

    With `growing`, a broker may add items meanwhile, so slots may contain numbers from `end` on.
    """

    file: NamedFile
    slots: int
    end: int
    damaged: frozenset[int]
    growing: bool
    cost: int = 0


def _verify_chains(chains: _Chains) -> Report:
    report = Report()
    with mapped(chains.file) as data:
        for link in map(WrongLink._make, wrong_links(data, chains.slots, chains.end)):
            from_damage = {link.item, link.found, link.expected} & chains.damaged
            added = chains.growing and link.slot >= 0 and link.found >= chains.end
            if not from_damage and not added:
                report.add(Finding(chains.file.path, link.position(chains.slots), str(link)))
    return report


_END = 1 << 63


class Unindexed(NamedTuple):
    """The first record with keys, at commit-log offset `offset`, that is in no index file."""

    offset: int
    is_after: bool


def unindexed(log: CommitLogFiles, headers: list[IndexHeader]) -> Iterator[Unindexed]:
    """Yield the beginning of each gap.

    `headers` are those of the files with items, in order; the log is sound.
    """
    bounds = [(header.begin_phy_offset, header.end_phy_offset) for header in headers]
    if not bounds:
        return
    begin = log.files[0].base or 0
    gaps = [(begin - 1, bounds[0][0]), *((one[1], other[0]) for one, other in pairwise(bounds))]
    for after, before in (*gaps, (bounds[-1][1], _END)):
        first = _first_with_keys(log, after, before)
        if first is not None:
            yield Unindexed(first, before == _END)


def _first_with_keys(log: CommitLogFiles, after: int, before: int) -> int | None:
    """Return the first record with keys between two commit-log offsets; a record starts at `after`."""
    for file in log.files:
        base = file.base or 0
        if base + file.size <= after:
            continue
        with mapped(file) as data:
            try:
                for place, record in walk_file(file, data, max(after - base, 0)):
                    if place.offset >= before:
                        return None
                    if place.offset > after and index_hashes(record, decode_properties(record.properties)):
                        return place.offset
            except CorruptionError:
                return None
    return None
