"""The records of a commit log that are asked for, one by one, the body decompressed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from codec.errors import CorruptionError
from codec.record import decode_record
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.store.commit_log import CommitLog
from rmqcli.store.files import DamagedFile
from rmqcli.store.log_filter import RecordFilter
from rmqcli.store.log_reader import Found

__all__ = ["log_records"]

Progress = Callable[[int], None]


def log_records(
    log: CommitLog, wanted: OffsetRange, chosen: RecordFilter, progress: Progress = lambda size: None
) -> Iterator[Found]:
    """Commit-log offsets or store times; -N is the last N of the chosen ones. DamagedFile at damage. `progress` is told bytes."""
    if chosen.asks_only("topics"):
        return _records(log, wanted, chosen.topics, progress)
    last = wanted.last
    everything = _records(log, OffsetRange() if last else wanted, chosen.topics, progress)
    found = ((place, message) for place, message in everything if chosen.accepts(message))
    return iter(deque(found, last)) if last else found


def _records(
    log: CommitLog, wanted: OffsetRange, topics: frozenset[str], progress: Progress
) -> Iterator[Found]:
    if wanted.only_new or wanted.last == 0:
        return
    begin = wanted.begin or 0
    if wanted.last is not None:
        begin = log.last(wanted.last, topics or None)
    start = log.first_file_at(wanted.begin_time) if wanted.begin_time is not None else 0
    for place, data in log.records(from_offset=begin, from_file=start):
        if wanted.end is not None and place.offset >= wanted.end:
            return
        progress(place.size)
        try:
            message = decode_record(data, place.position, decompress=True)
        except CorruptionError as error:
            raise DamagedFile(place.file.path, CorruptionError(str(error), place.position)) from None
        if wanted.holds_time(message.store_timestamp) and (not topics or message.topic in topics):
            yield place, message
