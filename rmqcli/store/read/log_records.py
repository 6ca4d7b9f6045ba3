"""The records of a commit log that are asked for, their bodies as stored.

Where that can be, many records at once are looked at, and only those decoded that may be meant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from codec.message import MessageExt
from codec.store.record_filter import RecordFilter
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.store.read.commit_log import CommitLog, Place, walk_file
from rmqcli.store.read.files import NamedFile, mapped, naming_damage
from rmqcli.store.read.log_reader import Found, stored_message
from rmqcli.store.read.log_tail import last_records
from rmqcli.store.read.vectorised import is_bulk_possible

__all__ = ["log_records"]

Progress = Callable[[int], None]


def log_records(
    log: CommitLog, wanted: OffsetRange, chosen: RecordFilter, progress: Progress = lambda size: None
) -> Iterator[Found]:
    """Commit-log offsets or store times; -N is the last N of the chosen ones. DamagedFile at damage. `progress` is told bytes."""
    if wanted.only_new or wanted.last == 0:
        return iter(())
    if wanted.last is not None:
        return last_records(log, wanted.last, chosen, progress)
    return _records(log, wanted, chosen, progress)


def _records(
    log: CommitLog, wanted: OffsetRange, chosen: RecordFilter, progress: Progress
) -> Iterator[Found]:
    for file in log.files_in(wanted):
        with naming_damage(file), mapped(file) as data:
            yield from _of_file(file, data, wanted, chosen, progress)


def _of_file(
    file: NamedFile, data: memoryview, wanted: OffsetRange, chosen: RecordFilter, progress: Progress
) -> Iterator[Found]:
    done, begin, end = 0, wanted.begin or 0, wanted.end
    for behind, positions in _blocks(file, data, wanted, chosen):
        for position in positions:
            message = _message(data, position, wanted, chosen)
            if message is not None:
                yield Place(file, position, message.store_size, message.commit_log_offset), message
        progress(behind - done)
        done = behind
    for place, _ in walk_file(file, data, done):
        if end is not None and place.offset >= end:
            return
        progress(place.size)
        message = None if place.offset < begin else _message(data, place.position, wanted, chosen)
        if message is not None:
            yield place, message


def _blocks(
    file: NamedFile, data: memoryview, wanted: OffsetRange, chosen: RecordFilter
) -> Iterable[tuple[int, list[int]]]:
    if not is_bulk_possible() or (chosen.is_open and wanted == OffsetRange()):
        return ()
    from codec.scan.predicate import records_to_look_at

    return records_to_look_at(data, file.base, *wanted.bounds, chosen)


def _message(data: memoryview, position: int, wanted: OffsetRange, chosen: RecordFilter) -> MessageExt | None:
    """None when it is not asked for."""
    message = stored_message(data, position)
    is_meant = wanted.holds_time(message.store_timestamp) and chosen.accepts(message)
    return message if is_meant else None
