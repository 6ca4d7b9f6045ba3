"""Whether store files are sound: structure, CRC, places, and queue entries against their records.

A damaged stretch does not end the check: it goes on at the next whole record whose CRC and place are right.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

from codec.consume_queue_ext import is_address
from codec.errors import CorruptionError
from codec.hashing import tags_code
from codec.names import LMQ_PREFIX, SystemTopic
from codec.record import BLANK_SIZE, MAGIC_BLANK, decode_record, peek_record, scan_record
from rmqcli.store.commit_log import CommitLog, next_record, walk_file
from rmqcli.store.consume_queue import Queue, QueueEntry
from rmqcli.store.files import NamedFile, mapped
from rmqcli.store.findings import Finding, Report

__all__ = ["verify_commit_log", "verify_consume_queues"]

_PROGRESS_BYTES = 1 << 22
_BLOCK_RECORDS = 4096


def verify_commit_log(log: CommitLog, progress: Callable[[int], None] = lambda size: None) -> Report:
    """Every record: magic, lengths, CRC, commit-log offset. `progress` is told bytes as they are done."""
    report = Report(files=len(log.files))
    for index, file in enumerate(log.files):
        with mapped(file) as data:
            end = _verify_file(file, data, report, progress)
            if end is not None and index + 1 < len(log.files):
                _check_end(file, data, end, log.files[index + 1], report)
        report.size += file.size
    return report


def _verify_file(
    file: NamedFile, data: memoryview, report: Report, progress: Callable[[int], None]
) -> int | None:
    """The byte behind the last whole record; None when the file ends in damage."""
    position = told = _skip_sound(file, data, report, progress)
    while True:
        try:
            for place, _ in walk_file(file, data, position):
                position = place.position
                scan_record(data, position, check_crc=True)
                report.items += 1
                position += place.size
                if position - told >= _PROGRESS_BYTES:
                    progress(position - told)
                    told = position
        except CorruptionError as error:
            following = next_record(file, data, position + 1)
            lost = None if following is None else following - position
            report.add(Finding(file.path, position, str(error), lost))
            if following is None:
                progress(len(data) - told)
                return None
            position = following
        else:
            progress(len(data) - told)
            return position


def _skip_sound(file: NamedFile, data: memoryview, report: Report, progress: Callable[[int], None]) -> int:
    """Checks many records at once, with NumPy if it is there; the byte behind the last block that is sound as a whole.

    What is said about damage is not this function's business: the walk from there on looks at every record by itself.
    """
    try:
        from codec.scan import find_bad_crc, fixed_columns, scan_positions
    except ImportError:
        return 0
    position = 0
    while file.base is not None:
        walk = scan_positions(data, position, max_rows=_BLOCK_RECORDS)
        try:
            rows = fixed_columns(data, walk.positions)
        except CorruptionError:
            break
        places = walk.positions + file.base
        if not len(rows) or (rows["physical_offset"] != places).any() or find_bad_crc(data, rows):
            break
        progress(walk.end - position)
        report.items += len(rows)
        position = walk.end
    return position


def _check_end(file: NamedFile, data: memoryview, end: int, following: NamedFile, report: Report) -> None:
    with mapped(following) as next_data:
        if len(next_data) < BLANK_SIZE or not any(next_data[:BLANK_SIZE]):
            return
    if end < len(data) and (len(data) - end < BLANK_SIZE or peek_record(data, end).magic != MAGIC_BLANK):
        report.add(Finding(file.path, end, "no blank record ends this file, though the next one has records"))
    if file.base is not None and following.base != file.base + file.size:
        report.add(Finding(following.path, 0, f"a gap: the file before it ends at {file.base + file.size}"))


def verify_consume_queues(queues: list[Queue], commit_log: Path | None = None) -> Report:
    """Every entry of every queue: increasing places, no gaps; against its record when there is a commit log.

    The commit log is the one given, else that of the queue's store folder. Entries whose records are older than its first
    file are not damage: retention took the records first.
    """
    report = Report()
    with ExitStack() as stack:
        logs: dict[Path | None, Records] = {}
        for queue in queues:
            source = commit_log or (queue.store and queue.store / "commitlog")
            if source not in logs:
                logs[source] = Records(source if source and source.exists() else None, stack)
            _verify_queue(queue, logs[source], report)
    return report


def _verify_queue(queue: Queue, records: Records, report: Report) -> None:
    files = queue.files.files
    report.files += len(files)
    report.size += sum(file.size for file in files)
    for before, file in pairwise(files):
        if before.base is not None and file.base != before.base + before.size:
            report.add(
                Finding(file.path, 0, f"a gap: the file before it ends at byte {before.base + before.size}")
            )
    last = -1
    for entry in queue.files.entries():
        problem = records.problem(entry, queue)
        if entry.commit_log_offset <= last:
            problem = f"its commit-log offset {entry.commit_log_offset} is not behind the one before it"
        if problem:
            report.add(
                Finding(entry.file.path, entry.position, f"queue offset {entry.queue_offset}: {problem}")
            )
        else:
            report.items += 1
        last = entry.commit_log_offset


class Records:
    """Finds the record of a queue entry; without a commit log there is nothing to find."""

    def __init__(self, commit_log: Path | None, stack: ExitStack) -> None:
        files = [] if commit_log is None else CommitLog(commit_log).files
        self._views = [stack.enter_context(mapped(file)) for file in files]
        self._bases = [file.base or 0 for file in files]

    def problem(self, entry: QueueEntry, queue: Queue) -> str | None:
        if not self._bases or entry.commit_log_offset < self._bases[0]:
            return None
        index = bisect_right(self._bases, entry.commit_log_offset) - 1
        return _problem(entry, self._views[index], entry.commit_log_offset - self._bases[index], queue)


def _problem(entry: QueueEntry, data: memoryview, position: int, queue: Queue) -> str | None:
    if position >= len(data):
        return f"no commit log file holds offset {entry.commit_log_offset}"
    try:
        message = decode_record(data, position, check_crc=True)
    except CorruptionError as error:
        return f"its record at commit-log offset {entry.commit_log_offset}: {error}"
    scheduled = message.topic == SystemTopic.SCHEDULE
    extended = is_address(entry.tags_code)  # the code is in the extension of the queue
    dispatched = (queue.topic or "").startswith(LMQ_PREFIX)
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
