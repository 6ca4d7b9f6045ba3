"""An overview of a store folder: folders, queues, lags, pending messages.

Reads only tables and the ends of files.
"""

from __future__ import annotations

import os
import shutil
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rmqcli.codec.records.reading import peek_record
from rmqcli.codec.store.checkpoint import Checkpoint
from rmqcli.codec.store.record_layout import FILLER_HEAD_SIZE
from rmqcli.store.read.commit_log import LogReader
from rmqcli.store.read.consume_queue import BatchQueue, Queue, QueueLook
from rmqcli.store.read.files import mapped
from rmqcli.store.read.folder import StoreFolder
from rmqcli.store.read.pending import delay_levels, half_messages
from rmqcli.store.read.tables import group_offsets, read_checkpoint

FOLDERS = (
    "commitlog",
    "consumequeue",
    "consumequeue_ext",
    "batchconsumequeue",
    "index",
    "timerlog",
    "compaction",
    "config",
)


class FolderSize(NamedTuple):
    """A folder; `size` is the total length of its files, `used` the disk space they take, both in bytes."""

    name: str
    files: int
    size: int
    used: int


class QueueRange(NamedTuple):
    """A queue: [min_offset, max_offset), and the store times (ms) of both ends, 0 if unreadable."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    first_stored: int
    last_stored: int

    @property
    def messages(self) -> int:
        return self.max_offset - self.min_offset


class GroupLag(NamedTuple):
    """The lag of a group in a topic: `queues` queues with committed offsets, `lag` messages in total."""

    group: str
    topic: str
    queues: int
    lag: int


class Overview(NamedTuple):
    """A store folder.

    `log_begin` and `log_end` are commit-log offsets: the first byte, and after the last record.
    """

    folders: list[FolderSize]
    log_begin: int
    log_end: int
    queues: list[QueueRange]
    groups: list[GroupLag]
    delayed: int
    half: int
    abort: bool
    locked: bool
    checkpoint: Checkpoint | None
    disk: tuple[int, int, int]


def overview(folder: StoreFolder) -> Overview:
    """Return the overview of a store folder."""
    store = folder.path
    with folder.reader() as log:
        ends = _queue_ends(folder, log)
        queues = sorted([*_ranges(ends), *_batch_ranges(folder.batch_queues)])
        begin, end = _log_range(log, max((one.last for one in ends), default=0))
    usage = shutil.disk_usage(store)
    return Overview(
        folders=[_folder(store / name) for name in FOLDERS if (store / name).is_dir()],
        log_begin=begin,
        log_end=end,
        queues=queues,
        groups=group_lags(store, queues),
        delayed=sum(level.pending for level in delay_levels(store)),
        half=sum(1 for _ in half_messages(store)) if (store / "commitlog").is_dir() else 0,
        abort=folder.crashed,
        locked=folder.live,
        checkpoint=read_checkpoint(store),
        disk=(usage.total, usage.used, usage.free),
    )


def _folder(folder: Path) -> FolderSize:
    states = list(_states(folder))
    size, used = sum(state.st_size for state in states), sum(state.st_blocks * 512 for state in states)
    return FolderSize(folder.name, len(states), size, used)


def _states(folder: Path | os.DirEntry[str]) -> Iterator[os.stat_result]:
    """Yield the stat results of the files in a folder. A folder that may not be read counts as empty."""
    try:
        with os.scandir(folder) as items:
            for item in items:
                if item.is_dir(follow_symlinks=False):
                    yield from _states(item)
                elif item.is_file():
                    yield item.stat()
    except PermissionError:
        return


def _log_range(log: LogReader, newest: int) -> tuple[int, int]:
    """Return the commit-log offsets of the first byte of the log and of the byte after its last record.

    `newest` is the commit-log offset of the newest entry, from which a walk finds the end.
    """
    files = log.files
    if not files:
        return 0, 0
    # The walk to the end of the log begins at the newest entry, not at the start of a file of a gigabyte.
    known = _known_record(log, newest)
    # The last files may be preallocated and without records yet.
    for file in reversed(files):
        base = file.base or 0
        with mapped(file) as data:
            end = _walk_end(data, known - base if base <= known < base + file.size else 0)
        if end:
            return files[0].base or 0, base + end
    return files[0].base or 0, files[0].base or 0


def _walk_end(data: memoryview, position: int) -> int:
    while len(data) - position >= FILLER_HEAD_SIZE:
        size = peek_record(data, position).total_size
        if not 0 < size <= len(data) - position:
            break
        position += size
    return position


def _known_record(log: LogReader, offset: int) -> int:
    """Return the offset if a record is there, otherwise 0."""
    message = log.message(offset)
    return offset if message is not None and message.commit_log_offset == offset else 0


class _Ends(NamedTuple):
    """The range of a queue, and the commit-log offset of its last entry.

    The range is None if the folder is not named like a queue.
    """

    range: QueueRange | None
    last: int


def queue_ranges(folder: StoreFolder) -> list[QueueRange]:
    """Return every queue by topic and number. The minimum is the first entry whose record still exists."""
    with folder.reader() as log:
        return _ranges(_queue_ends(folder, log))


def _ranges(ends: list[_Ends]) -> list[QueueRange]:
    return [one.range for one in ends if one.range is not None]


def _queue_ends(folder: StoreFolder, log: LogReader) -> list[_Ends]:
    """Return the ends of every queue; [] without a commit log."""
    return [_ends(queue, log) for queue in folder.queues] if log.files else []


def _batch_ranges(queues: list[BatchQueue]) -> list[QueueRange]:
    """Like `queue_ranges`, for batch consume queues, and from their units alone."""
    found = []
    for queue in queues:
        units = list(queue.units())
        if units:
            times = units[0].store_timestamp, units[-1].store_timestamp
            found.append(QueueRange(queue.topic, queue.queue_id, units[0].base_offset, units[-1].end, *times))
    return found


def _ends(queue: Queue, log: LogReader) -> _Ends:
    with QueueLook(queue.files.files) as look:
        first, end = look.bounds()
        newest = look.entry(end - 1)
        last = 0 if newest is None else newest.commit_log_offset
        if queue.topic is None:
            return _Ends(None, last)
        begin = _first_kept(look, first, end, log.bases[0])
        times = [log.time_of(look.entry(at)) for at in (begin, end - 1)] if end > begin else [0, 0]
    return _Ends(QueueRange(queue.topic, queue.queue_id or 0, begin, end, *times), last)


def kept_messages(queues: Sequence[Queue], log_begin: int) -> int:
    """Count the messages that retention has not removed, those from commit-log offset `log_begin` on."""
    kept = 0
    for queue in queues:
        with QueueLook(queue.files.files) as look:
            first, end = look.bounds()
            kept += end - _first_kept(look, first, end, log_begin)
    return kept


def _first_kept(look: QueueLook, first: int, end: int, log_begin: int) -> int:
    """Find the first entry whose record retention has not removed, by binary search."""

    def is_kept(offset: int) -> bool:
        entry = look.entry(offset)
        return entry is not None and entry.commit_log_offset >= log_begin

    return bisect_left(range(end), True, lo=first, key=is_kept)


def group_lags(store: Path, queues: list[QueueRange]) -> list[GroupLag]:
    """Return the lags by group and topic. A missing queue counts as one without messages."""
    ends = {(queue.topic, queue.queue_id): queue.max_offset for queue in queues}
    found: dict[tuple[str, str], list[int]] = {}
    for one in group_offsets(store):
        behind = max(ends.get((one.topic, one.queue_id), one.offset) - one.offset, 0)
        found.setdefault((one.group, one.topic), []).append(behind)
    return [GroupLag(*key, len(lags), sum(lags)) for key, lags in sorted(found.items())]
