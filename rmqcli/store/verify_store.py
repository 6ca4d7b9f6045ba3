"""Whether a whole store folder is sound: log, queues, index, checkpoint and tables, each against the others.

A folder that a broker left without a clean stop is checked as its recovery will find it: a queue or an index that lacks the
newest records, and a preallocated file of zeros, are no damage. After a clean stop every record must have its entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from codec.errors import CorruptionError
from codec.index_file import decode_item, item_position
from codec.properties import decode_properties
from codec.record import scan_record
from rmqcli.store.commit_log import CommitLog, walk_file
from rmqcli.store.consume_queue import queue_folders
from rmqcli.store.dispatch import index_hashes, units_of
from rmqcli.store.files import DamagedFile, NamedFile, mapped
from rmqcli.store.findings import Finding, Report
from rmqcli.store.index import IndexFile, geometry_of, index_files
from rmqcli.store.overview import queue_ranges
from rmqcli.store.tables import delay_offsets, group_offsets, read_checkpoint, store_folder, table_problems
from rmqcli.store.verify import verify_commit_log, verify_consume_queues

__all__ = ["StoreReport", "verify_store"]


@dataclass(slots=True)
class StoreReport:
    """A report of each part, and remarks: what is no damage but worth knowing."""

    parts: dict[str, Report] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return all(report.sound for report in self.parts.values())

    @property
    def findings(self) -> list[Finding]:
        return [finding for report in self.parts.values() for finding in report.findings]

    @property
    def damaged(self) -> int:
        return sum(report.damaged for report in self.parts.values())


def verify_store(store: Path, progress: Callable[[int], None] = lambda size: None) -> StoreReport:
    """FileNotFoundError when it is no store folder, or one without a commit log."""
    store_folder(store)
    found = StoreReport()
    log = CommitLog(store)
    crashed = (store / "abort").exists()
    if crashed:
        found.remarks.append(
            "abort is present: a broker runs, or was killed; its next start recovers the tail"
        )
    found.parts["commitlog"] = verify_commit_log(log, progress)
    found.parts["consumequeue"] = _queues(store, log, crashed, found)
    found.parts["index"] = _index(store, log, crashed, found)
    found.parts["tables"] = _tables(store, found)
    return found


def _queues(store: Path, log: CommitLog, crashed: bool, found: StoreReport) -> Report:
    try:
        queues = queue_folders(store / "consumequeue")
    except (FileNotFoundError, NotADirectoryError):
        found.remarks.append("no consume queues: a broker makes them anew, or `rmq inspect rebuild`")
        return Report()
    report = verify_consume_queues(queues)
    if sum(one.messages for one in queue_ranges(store)) == found.parts["commitlog"].items:
        return report  # as many entries as records: none is lacking
    ends: Counter[tuple[str, int]] = Counter()
    for queue in queues:
        if queue.topic is not None and queue.queue_id is not None:
            ends[queue.topic, queue.queue_id] = queue.files.bounds()[1]
    without: Counter[tuple[str, int]] = Counter()
    for file in log.files:
        with mapped(file) as data:
            try:
                for _, record in walk_file(file, data):
                    for unit in units_of(record, decode_properties(record.properties)):
                        key = unit.topic, unit.queue_id
                        without[key] += key in ends and unit.queue_offset >= ends[key]
            except CorruptionError:
                continue  # told of by the log's own report
    for (topic, queue_id), count in without.items():
        if not count:
            continue
        text = f"{topic} queue {queue_id} lacks the entries of {count} records"
        if crashed:
            found.remarks.append(f"{text}: the next start adds them")
        else:
            place = store / "consumequeue" / topic / str(queue_id)
            report.add(Finding(place, ends[topic, queue_id] * 20, text))
    return report


def _index(store: Path, log: CommitLog, crashed: bool, found: StoreReport) -> Report:
    report = Report()
    try:
        files = index_files(store / "index")
    except (FileNotFoundError, NotADirectoryError):
        return report
    hashes = _HashesOfRecords(log)
    checkpoint = _checkpoint_index_time(store)
    for file in files:
        report.files += 1
        report.size += file.size
        with mapped(file) as data:
            try:
                index = geometry_of(file, data)
            except CorruptionError as error:
                if crashed and not any(data[:40]):
                    found.remarks.append(
                        f"{file.path.name}: an index file without a header: dropped by the next start"
                    )
                else:
                    report.add(Finding(file.path, error.position or 0, str(error)))
                continue
            if crashed and index.header.end_timestamp > checkpoint:
                found.remarks.append(
                    f"{file.path.name}: younger than the checkpoint: made anew by the next start"
                )
            _items(index, data, hashes, report)
    hashes.close()
    return report


def _checkpoint_index_time(store: Path) -> int:
    try:
        checkpoint = read_checkpoint(store)
    except DamagedFile:
        return 0
    return checkpoint.index_msg_timestamp if checkpoint else 0


class _HashesOfRecords:
    """The index hashes of the record at an offset, the last one remembered: items of one record follow each other."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._offset = -1
        self._hashes: list[int] | None = None
        self._file: NamedFile | None = None
        self._data = memoryview(b"")
        self._stack = ExitStack()

    def close(self) -> None:
        self._data = memoryview(b"")
        self._stack.close()

    def __call__(self, offset: int) -> list[int] | None:
        """None when retention took the record; CorruptionError when no record is there."""
        if offset != self._offset:
            self._offset, self._hashes = offset, self._read(offset)
        return self._hashes

    def _read(self, offset: int) -> list[int] | None:
        if offset < (self._log.files[0].base or 0):
            return None
        if (
            self._file is None
            or not (self._file.base or 0) <= offset < (self._file.base or 0) + self._file.size
        ):
            self._open(offset)
        assert self._file is not None
        record = scan_record(self._data, offset - (self._file.base or 0))
        if record.physical_offset != offset:
            raise CorruptionError(f"no record is at commit-log offset {offset}")
        return index_hashes(record, decode_properties(record.properties))

    def _open(self, offset: int) -> None:
        for file in self._log.files:
            if (file.base or 0) <= offset < (file.base or 0) + file.size:
                self.close()
                self._file, self._data = file, self._stack.enter_context(mapped(file))
                return
        raise CorruptionError(f"no commit log file holds offset {offset}")


def _items(index: IndexFile, data: memoryview, hashes: _HashesOfRecords, report: Report) -> None:
    """Every item against its record, and the numbers of the header."""
    last = 0
    for number in range(1, index.header.index_count):
        item = decode_item(data, index.slots, number)
        problem = None
        try:
            known = hashes(item.phy_offset)
        except CorruptionError as error:
            problem = str(error)
        else:
            if known is not None and item.key_hash not in known:
                problem = f"the record at {item.phy_offset} has no key of hash {item.key_hash}"
        if item.phy_offset < last:
            problem = f"its commit-log offset {item.phy_offset} is before that of the item before it"
        if not 0 <= item.previous < number:
            problem = f"the item before it in its chain is {item.previous}"
        last = max(last, item.phy_offset)
        if problem is None:
            report.items += 1
        else:
            report.add(
                Finding(index.file.path, item_position(index.slots, number), f"item {number}: {problem}")
            )


def _tables(store: Path, found: StoreReport) -> Report:
    report = Report()
    report.files = table_problems(store, lambda path, text: report.add(Finding(path, 0, text)))
    try:
        checkpoint = read_checkpoint(store)
        report.files += checkpoint is not None
        report.items += checkpoint is not None
        ranges = {(one.topic, one.queue_id): one for one in queue_ranges(store)}
        last = max((one.last_stored for one in ranges.values()), default=0)
        if checkpoint is not None and last and checkpoint.physic_msg_timestamp > last:
            found.remarks.append("the checkpoint is younger than the last record of every queue")
        for group, topic, queue_id, offset in group_offsets(store):
            report.items += 1
            one = ranges.get((topic, queue_id))
            if one is not None and offset > one.max_offset:
                found.remarks.append(
                    f"group {group} stands at {offset} in {topic} queue {queue_id}, which ends at {one.max_offset}"
                )
        for level, offset in delay_offsets(store).items():
            report.items += 1
            one = ranges.get(("SCHEDULE_TOPIC_XXXX", level - 1))
            if one is not None and offset > one.max_offset:
                found.remarks.append(
                    f"delay level {level} stands at {offset}, its queue ends at {one.max_offset}"
                )
    except DamagedFile as damage:
        if not any(finding.path == damage.path for finding in report.findings):
            report.add(Finding(damage.path, damage.position or 0, "it cannot be read"))
    return report
