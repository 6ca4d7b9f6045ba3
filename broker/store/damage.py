"""The bytes of a commit log after its last whole record: none, an interrupted write, or damage.

A torn end has no whole record after it and is removed. Whole records after a bad one mean that the bad record
was whole before: the store is not opened, because all later records would be lost. Two cases are not damage:
a power cut may lose any page that was not synced, and a process killed while it wrote a run of records leaves
the first one without its size. Bytes that contain whole records are copied before they are removed, to a
folder beside the log that can itself be read as a commit log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rmqcli.broker.disk import Disk
from rmqcli.broker.errors import StoreDamaged
from rmqcli.broker.store.commit_log import CommitLog
from rmqcli.broker.store.log_walk import scan_at
from rmqcli.broker.store.segment import Segment
from rmqcli.codec.core.record_reader import RecordScan
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.store.record_layout import MAGIC_V1, MAGIC_V2

MAGIC_AT = 4
CHUNK = 1 << 20
KEPT_FREE = 64 << 20
"""Bytes that a copy must leave free on the disk."""
_MAGICS = re.compile(b"|".join(re.escape(magic.to_bytes(4, "big")) for magic in (MAGIC_V1, MAGIC_V2)))


class Behind(NamedTuple):
    """The bytes after the last whole record, up to the last one that is not zero, and the first whole record
    in them."""

    length: int
    offset: int = -1
    record: RecordScan | None = None


def look_behind(log: CommitLog, end: int) -> Behind:
    """Search for whole records after `end`. Blocks."""
    last = end
    found: tuple[int, RecordScan] | None = None
    for segment in log.segments.segments:
        for start, stop in segment.data_ranges(max(end - segment.start, 0)) if segment.end > end else ():
            data_end = _data_end(segment.view, start, stop)
            last = segment.start + data_end if data_end else last
            found = found or _first_record(segment, end + 1 - segment.start, start, stop)
    return Behind(last - end, *(found or ()))


def _data_end(view: memoryview, start: int, stop: int) -> int:
    """Return the position after the last byte that is not zero; 0 if there is none."""
    while start < stop:
        begin = max(start, stop - CHUNK)
        data = bytes(view[begin:stop]).rstrip(b"\0")
        if data:
            return begin + len(data)
        stop = begin
    return 0


def _first_record(segment: Segment, least: int, start: int, stop: int) -> tuple[int, RecordScan] | None:
    """Return the first record from position `least` on whose magic is in a range of data; its size may begin
    in the hole before that.
    """
    limit = min(segment.size, segment.found_size)
    for match in _MAGICS.finditer(segment.view, max(start, least + MAGIC_AT), stop):
        position = match.start() - MAGIC_AT
        try:
            scan = scan_at(segment, position, limit)
            # A body may hold what looks like a record, but hardly one of this offset: a CRC pays only then.
            if scan.physical_offset == segment.start + position:
                return segment.start + position, scan_at(segment, position, limit, check_crc=True)
        except CorruptionError:
            continue
    return None


def refuse(log: CommitLog, end: int, behind: Behind) -> StoreDamaged:
    """Return the error for a damaged log; its text suggests remedies."""
    segment = log.segments.find(end) or log.segments.segments[-1]
    return StoreDamaged(
        f"{segment.path}: no whole record begins at byte {end - segment.start} (commit-log offset {end}), "
        f"but whole records follow from offset {behind.offset} on. Copy what can be read with 'rmq inspect "
        f"salvage', or set moveDamagedLogAside=true to start without what follows, which is kept in "
        f"{_folder(log)}"
    )


def _folder(log: CommitLog) -> Path:
    folder = log.segments.folder
    return folder.with_name(folder.name + ".removed")


def copy_aside(disk: Disk, log: CommitLog, end: int) -> Path:
    """Copy the files of the log from the one that holds `end` on; return the folder of the copies.

    Blocks. Raises StoreDamaged if there is no room.
    """
    segments = [segment for segment in log.segments.segments if segment.end > end]
    ranges = [(segment, [*segment.data_ranges(0)]) for segment in segments]
    needed = sum(stop - start for _, parts in ranges for start, stop in parts)
    free = disk.usage(log.segments.folder).free
    if free < needed + KEPT_FREE:
        raise StoreDamaged(
            f"{_folder(log)}: {needed} bytes behind offset {end} of the commit log are to be copied before "
            f"they are removed, and the disk has {free} left. Free some space, or move the commit log away"
        )
    parent = _folder(log)
    folder = next(path for n in range(1, 1 << 30) if disk.state(path := parent / str(n)) is None)
    disk.make_folder(folder)
    for segment, parts in ranges:
        _copy(disk, segment, parts, folder / segment.path.name)
    disk.sync_folder(folder)
    return folder


def _copy(disk: Disk, segment: Segment, parts: Iterable[tuple[int, int]], target: Path) -> None:
    copy = disk.open_mapped(target, segment.size)
    try:
        for start, stop in parts:
            copy.reserve(start, stop - start)  # a page without room on the disk would kill the process
            for position in range(start, stop, CHUNK):
                reach = min(position + CHUNK, stop)
                copy.view[position:reach] = segment.view[position:reach]
    finally:
        copy.close()
    disk.sync_file(target)
