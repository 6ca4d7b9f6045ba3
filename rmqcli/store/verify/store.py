"""The check of a store folder: log, queues, index, checkpoint and tables, each against the others.

A folder that was not stopped cleanly is checked as recovery will find it: missing entries and index items of
the newest records, and a preallocated file of zeros, are sound. After a clean stop, every record must have
its entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path

from rmqcli.codec.names import SystemTopic
from rmqcli.codec.store import consume_queue
from rmqcli.codec.store.consume_queue import ENTRY_SIZE
from rmqcli.codec.store.record_layout import FILLER_HEAD_SIZE
from rmqcli.counts import many
from rmqcli.store.read.consume_queue import ConsumeQueueFiles, Queue, QueueLook
from rmqcli.store.read.files import DamagedFile, NamedFile, mapped
from rmqcli.store.read.folder import StoreFolder, bytes_used
from rmqcli.store.read.tables import (
    TABLES,
    delay_offsets,
    deleted_topics,
    group_offsets,
    table_files,
    topics,
)
from rmqcli.store.stats.overview import kept_messages
from rmqcli.store.verify.agreement import Agreement
from rmqcli.store.verify.checkpoint import check_checkpoint, dispatched_again_from
from rmqcli.store.verify.commit_log import check_batches, misplaced, sequences_of, verify_commit_log
from rmqcli.store.verify.consume_queues import NOTHING, Repairs, find_missing_entries, span_of, verify_queues
from rmqcli.store.verify.findings import Finding, Report, Rule
from rmqcli.store.verify.index import unindexed, verify_index
from rmqcli.store.workers import ALONE, Progress, Workers

_LATE = "a broker in Java delivers the timers that it leads to late or never"


def lost_timers(store: Path) -> Path | None:
    """Return the path of timerlog or timerwheel, if only that one is missing.

    A 5.3.3 broker creates the wheel when it starts, and the log with the first message written to it.
    """
    log, wheel = store / "timerlog", store / "timerwheel"
    if log.exists():
        return None if wheel.exists() else wheel
    return log if wheel.exists() and _has_data(wheel) else None


def _has_data(path: Path) -> bool:
    with path.open("rb") as file:
        return any(piece.strip(b"\0") for piece in iter(lambda: file.read(1 << 20), b""))


@dataclass(slots=True)
class StoreReport:
    """A report of each part, and remarks: relevant facts that are not damage."""

    parts: dict[str, Report] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def judge(self, rule: Rule, report: Report, finding: Finding, *, crashed: bool, remedy: str = "") -> None:
        """Add damage to the report of a part, or a remark with the remedy if the rule does not count it as
        damage.
        """
        if rule.is_damage(crashed=crashed):
            report.add(finding)
        else:
            self.remarks.append(f"{finding.problem}{remedy}")

    @property
    def sound(self) -> bool:
        return all(report.sound for report in self.parts.values())

    @property
    def findings(self) -> list[Finding]:
        return [finding for report in self.parts.values() for finding in report.findings]

    @property
    def damaged(self) -> int:
        return sum(report.damaged for report in self.parts.values())


Steps = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Called with the name of a part and its bytes without holes.

Returns a context that yields a progress receiver.
"""


@contextmanager
def _silent(name: str, size: int) -> Iterator[Callable[[int], None]]:
    yield lambda count: None


def verify_store(folder: StoreFolder, steps: Steps = _silent, workers: Workers = ALONE) -> StoreReport:
    """Check a store folder.

    `steps` is called for each part, because checking a byte costs more in some parts than in others.
    """
    found = StoreReport()
    if folder.live:
        found.remarks.append("a broker runs on this folder: the check covers what was written when it began")
    elif folder.crashed:
        found.remarks.append(
            "abort is present: a broker runs, or was killed; its next start recovers the tail"
        )
    if not folder.live:
        found.remarks += _odd_lengths(folder.log.files)
    # The log comes first: whether it is sound decides how queues and index are checked.
    with steps("commitlog", bytes_used(folder.log.files)) as advance:
        agreement = _agreement(folder)
        found.parts["commitlog"] = verify_commit_log(folder.log, advance, workers, agreement=agreement)
    _judge_end(folder, found)
    with steps("consumequeue", sum(bytes_used(queue.files.files) for queue in folder.queues)) as advance:
        found.parts["consumequeue"] = _queues(folder, found, workers, advance, agreement)
    with steps("index", bytes_used(folder.index)) as advance:
        found.parts["index"] = _index(folder, found, workers, advance, agreement)
    if folder.batch_topics and found.parts["commitlog"].sound and not folder.live:
        found.parts[consume_queue.FOLDER] = _batches(folder)
    found.parts["tables"] = _tables(folder, found)
    return found


def _agreement(folder: StoreFolder) -> Agreement | None:
    """Return the agreement to fill, or None for a log whose files do not follow one another."""
    bounds = [(file.base, (file.base or 0) + file.size) for file in folder.log.files]
    if not bounds or any(base is None for base, _ in bounds):
        return None
    if any((after or 0) < end for (_, end), (after, _) in pairwise(bounds)):
        return None
    return Agreement(folder.queues, folder.index_geometries, folder.log_begin)


def _judge_end(folder: StoreFolder, found: StoreReport) -> None:
    """Turn damage at the end of the log into a note if a killed broker left it: no entry points to it."""
    report = found.parts["commitlog"]
    last = report.findings[-1] if report.damaged == len(report.findings) > 0 else None
    if last is None or not last.is_last or not folder.crashed or folder.live:
        return
    number = [file.path for file in folder.log.files].index(last.path)
    end = (folder.log.files[number].base or 0) + last.position
    is_end = not any(map(_begins, folder.log.files[number + 1 :]))
    if is_end and not any(offset >= end for offset in _last_records(folder.queues)):
        problem = f"{last.path}: byte {last.position}: {last.problem}"
        finding = replace(report.take_last(), problem=problem)
        found.judge(Rule.TORN_END, report, finding, crashed=True, remedy=": the next start removes them")


def _begins(file: NamedFile) -> bool:
    with mapped(file) as data:
        return any(data[:FILLER_HEAD_SIZE])


def _last_records(queues: list[Queue]) -> Iterator[int]:
    """Yield the commit-log offset of the last entry of each queue."""
    for queue in queues:
        with QueueLook(queue.files.files) as look:
            entry = look.entry(look.bounds()[1] - 1)
        if entry is not None:
            yield entry.commit_log_offset


def _odd_lengths(files: list[NamedFile]) -> Iterator[str]:
    """Yield remarks about file lengths that Java's `MappedFileQueue.load` refuses ("length not matched
    message store config value").
    """
    usual = Counter(file.size for file in files).most_common(1)
    for file in files:
        if file.size != usual[0][0]:
            yield (
                f"{file.path}: {file.size} bytes long, not {usual[0][0]} as others: "
                "Java's broker does not start on it; `rmq inspect salvage` makes it whole"
            )


def _queues(
    folder: StoreFolder, found: StoreReport, workers: Workers, progress: Progress, agreement: Agreement | None
) -> Report:
    queues, log, crashed, live = folder.queues, folder.log, folder.crashed, folder.live
    if not log.files:
        return _without_log(folder, found)
    of_log = found.parts["commitlog"]
    if not queues:
        report = Report()
        if of_log.items:
            text = "no consume queues: the next start rebuilds them, or `rmq inspect rebuild`"
            finding = Finding(folder.path / "consumequeue", 0, text)
            found.judge(Rule.NO_QUEUES, report, finding, crashed=crashed or live)
        return report
    begin = folder.log_begin
    repairs = Repairs(dispatched_again_from(log, folder.checkpoint) if crashed else None, begin)
    report = verify_queues(
        [(queue, log) for queue in queues],
        workers,
        progress,
        check_crc=not of_log.sound,
        repairs=repairs,
        agreement=agreement,
    )
    for file, position in repairs.holes:
        found.remarks.append(f"{file.path}: byte {position}: a hole: the next start adds the entries")
    # If there are as many entries as records, and they agree, no entry is missing and no record has the queue
    # offset of another.
    entries = kept_messages(queues, begin) if begin else report.items
    if not live and entries != of_log.items:
        _check_missing(folder, report, found)
        if of_log.sound:
            firsts = _first_places(queues)
            for finding in misplaced(log, sequences_of(log), firsts):
                of_log.add(finding)
    return report


def _first_places(queues: list[Queue]) -> dict[tuple[str, int], int]:
    """Return the commit-log offset of the first entry of each queue."""
    firsts: dict[tuple[str, int], int] = {}
    for queue in queues:
        with QueueLook(queue.files.files) as look:
            entry = look.first()
        if entry is not None:
            firsts[queue.topic or "", queue.queue_id or 0] = entry.commit_log_offset
    return firsts


def _batches(folder: StoreFolder) -> Report:
    queues = folder.batch_queues
    report = Report(files=sum(len(queue.files) for queue in queues))
    report.items = sum(1 for queue in queues for _ in queue.units())
    found = sequences_of(folder.log)
    place = folder.path / consume_queue.FOLDER
    for finding in check_batches(queues, folder.batch_topics, folder.log, found, place):
        report.add(finding)
    return report


def _check_missing(folder: StoreFolder, report: Report, found: StoreReport) -> None:
    crashed = folder.crashed
    spans = {
        (queue.topic, queue.queue_id): span_of(queue.files)
        for queue in folder.queues
        if queue.topic is not None and queue.queue_id is not None
    }
    batches = folder.batch_topics
    known = {key: NOTHING for key in _known_queues(folder) if key not in spans and key[0] not in batches}
    deleted = deleted_topics(folder.path, folder.read)
    for missing, count in sorted(find_missing_entries(folder.log, {**known, **spans}, deleted).items()):
        name = f"{missing.topic} queue {missing.queue_id}"
        place = folder.path / "consumequeue" / missing.topic / str(missing.queue_id)
        if missing.queue in known:
            text = (
                f"{name} has no consume queue, but the log has {many(count, 'record')} of it: "
                "the topic was deleted and created again, or `rmq inspect rebuild` restores it"
            )
            found.judge(Rule.NO_QUEUE, report, Finding(place, 0, text), crashed=crashed)
            continue
        side = "before" if missing.is_before else "after"
        rule = Rule.ENTRIES_BEFORE if missing.is_before else Rule.ENTRIES_AFTER
        text = f"{name} is missing the entries of {many(count, 'record')} {side} its own"
        span = spans[missing.queue]
        finding = Finding(place, (span.first if missing.is_before else span.end) * ENTRY_SIZE, text)
        found.judge(rule, report, finding, crashed=crashed, remedy=": the next start adds them")


def _known_queues(folder: StoreFolder) -> Iterator[tuple[str, int]]:
    try:
        of_topics = topics(folder.path, folder.read)
    except DamagedFile:  # reported with the tables
        return
    for name, one in of_topics.items():
        yield from ((name, number) for number in range(max(one.read_queue_nums, one.write_queue_nums)))


def _without_log(folder: StoreFolder, found: StoreReport) -> Report:
    report = Report(files=sum(len(queue.files.files) for queue in folder.queues))
    bounds = [queue.files.bounds() for queue in folder.queues if queue.files.files]
    entries = sum(end - first for first, end in bounds)
    if entries:
        lost = f"there is no commit log, but consume queues have {many(entries, 'entry')}"
        report.add(Finding(folder.path / "commitlog", 0, lost))
    else:
        found.remarks.append("there is no commit log: no message was ever stored")
    return report


def _index(
    folder: StoreFolder, found: StoreReport, workers: Workers, progress: Progress, agreement: Agreement | None
) -> Report:
    crashed = folder.crashed
    of_log = found.parts["commitlog"]
    if not folder.log.files:
        return Report()
    if not folder.index:
        if of_log.items:
            found.remarks.append(
                "no index file: messages are not found by key, unless a broker keeps no index"
            )
        return Report()
    result = verify_index(
        folder.index,
        folder.log,
        workers,
        progress,
        crashed=crashed,
        live=folder.live,
        flushed=folder.checkpoint.index_msg_timestamp,
        agreement=agreement,
    )
    for file in result.growing:
        found.remarks.append(f"{file.path.name}: the broker is writing this index file: not checked")
    for file in result.without_header:
        found.remarks.append(f"{file.path.name}: an index file without a header: dropped by the next start")
    for file, damaged in result.younger.items():
        places = f" (items or slots that are wrong: {damaged})" if damaged else ""
        text = "younger than the checkpoint: rebuilt by the next start"
        found.remarks.append(f"{file.path.name}: {text}{places}")
    if result.report.sound and of_log.sound and not folder.live:
        for gap in unindexed(folder.log, folder.index_headers):
            rule = Rule.ITEMS_AFTER if gap.is_after else Rule.ITEMS_BEFORE
            text = f"records from commit-log offset {gap.offset} on are in no index file"
            finding = Finding(folder.path / "index", 0, text)
            remedy = ": the next start adds them"
            found.judge(rule, result.report, finding, crashed=crashed, remedy=remedy)
    return result.report


def _tables(folder: StoreFolder, found: StoreReport) -> Report:
    report, store, has_records = Report(), folder.path, bool(found.parts["commitlog"].items)
    _table_files(folder, report, found, has_records=has_records)
    if has_records and not (store / "checkpoint").exists() and not folder.live:
        found.remarks.append("no checkpoint: after a kill, a start reads the whole commit log")
    _checkpoint(folder, report, found)
    lost = lost_timers(store)
    if lost is not None:
        finding = Finding(lost, 0, f"{lost.name} is missing: {_LATE}")
        remedy = "; a start of rmq builds it again"
        found.judge(Rule.TIMERS, report, finding, crashed=folder.crashed, remedy=remedy)
    try:
        end_of = _ends(folder)
        for group, topic, queue_id, offset in group_offsets(folder.path, folder.read):
            report.items += 1
            end = end_of((topic, queue_id))
            if end is not None and offset > end:
                found.remarks.append(
                    f"group {group} stands at {offset} in {topic} queue {queue_id}, which ends at {end}"
                )
        for level, offset in delay_offsets(folder.path, folder.read).items():
            report.items += 1
            end = end_of((SystemTopic.SCHEDULE, level - 1))
            if end is not None and offset > end:
                found.remarks.append(f"delay level {level} stands at {offset}, its queue ends at {end}")
    except DamagedFile as damage:
        if not any(finding.path == damage.path for finding in report.findings):
            report.add(Finding(damage.path, damage.position or 0, "it cannot be read"))
    return report


def _ends(folder: StoreFolder) -> Callable[[tuple[str, int]], int | None]:
    """Return a function that returns the end of a queue, or None for a queue without files.

    It reads on demand.
    """
    queues = {(queue.topic, queue.queue_id): queue for queue in folder.queues if folder.log.files}

    @cache
    def end_of(key: tuple[str, int]) -> int | None:
        queue = queues.get(key)
        if queue is None:
            return None
        # A running broker may have stored more since the listing, and groups may have committed that.
        files = ConsumeQueueFiles(queue.path) if folder.live else queue.files
        return files.bounds()[1] if files.files else 0

    return end_of


def _checkpoint(folder: StoreFolder, report: Report, found: StoreReport) -> None:
    path = folder.path / "checkpoint"
    try:
        data = folder.read(path)
    except FileNotFoundError:
        return
    report.files += 1
    report.items += 1
    checked = check_checkpoint(path, data, folder.log, folder.index_headers, live=folder.live)
    for rule, finding in checked:
        found.judge(rule, report, finding, crashed=folder.crashed)


def _table_files(folder: StoreFolder, report: Report, found: StoreReport, *, has_records: bool) -> None:
    store = folder.path
    if not (store / "config").is_dir():
        if has_records and not folder.live:
            found.remarks.append("no folder config: a broker starts without topics and groups")
        return
    for name in TABLES:
        file, backup = files = table_files(store, name, folder.read)
        report.files += sum(one.is_sound or one.is_damaged for one in files)
        for one in files:
            if one.is_damaged:
                report.add(Finding(one.path, 0, str(one.problem)))
        if file.is_sound or file.is_damaged:
            continue
        if backup.is_sound:
            found.remarks.append(f"config/{name} is {file.problem}: a broker reads its .bak")
        elif (file.is_empty or backup.is_empty) and (not has_records or name == "consumerFilter.json"):
            found.remarks.append(f"config/{name} is empty, and so is the table that a broker begins with")
        elif not (file.is_missing and backup.is_missing) or (
            has_records and name == "topics.json" and not folder.live
        ):
            report.add(Finding(file.path, 0, f"{file.problem}, without a sound .bak"))
