"""The records of one topic by their places in its consume queues: what other topics have in the commit log is not read.

Queues are taken at their word only where that is safe. A broker dispatches records in the order of the commit log, so all records
before the newest entry of any queue have theirs, unless the machine lost power: a store that was left without a clean stop
(`abort` is there and no broker runs) is walked. So is one whose queues have a hole, do not ascend, or point at anything but
their own records. What lies behind the newest entry is walked in any case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from codec.consume_queue import ENTRY, FILLER_SIZE
from codec.hashing import tags_code
from codec.names import LMQ_PREFIX, SystemTopic
from rmqcli.export.parts import Part, scan_part
from rmqcli.export.rows import RowFilter
from rmqcli.store import Queue, queue_folders
from rmqcli.store.commit_log import next_record
from rmqcli.store.files import NamedFile, mapped
from rmqcli.store.lock import is_locked

__all__ = ["QueuePlaces", "UnsoundQueue", "queue_places", "scan_by_queues"]


class UnsoundQueue(Exception):
    """A consume queue that contradicts itself or the commit log; the text names it."""


class QueuePlaces(NamedTuple):
    """The queues of the topic that are wanted; every record before commit-log offset `end` is in its queue."""

    queues: list[Queue]
    end: int


class _Entries(NamedTuple):
    """Of one queue file: commit-log offsets and sizes, in order."""

    places: Any
    sizes: Any


def queue_places(store: Path, rows: RowFilter) -> QueuePlaces | None:
    """None when the commit log has to be walked."""
    if rows.topic is None or rows.topic.startswith(LMQ_PREFIX):
        return None
    if not (store / "consumequeue" / rows.topic).is_dir() or (
        (store / "abort").exists() and not is_locked(store)
    ):
        return None
    try:
        queues = queue_folders(store / "consumequeue")
    except FileNotFoundError:
        return None
    queues = [queue for queue in queues if not (queue.topic or "").startswith(LMQ_PREFIX)]
    # The newest entry itself does not count: a broker may be writing it.
    end = max((_last_place(queue) for queue in queues), default=0)
    return QueuePlaces([queue for queue in queues if rows.takes_queue(queue.topic, queue.queue_id)], end)


def _last_place(queue: Queue) -> int:
    for file in reversed(queue.files.files):
        entries = _entries(queue, file)
        if len(entries.places):
            return int(entries.places[-1])
    return 0


def scan_by_queues(parts: Sequence[Part], rows: RowFilter, places: QueuePlaces) -> Iterator[tuple[Part, Any]]:
    """Encoded record batches, each with the part (of one commit log file) that it is from; None for the batch ends a part.

    UnsoundQueue; CorruptionError where a record is damaged.
    """
    for part in parts:
        base = part.base or 0
        if base + part.begin < places.end:
            for batch in _scan_file(part, rows, places):
                yield part, batch
        if base + part.end > places.end:
            for batch in _scan_rest(part, rows, max(places.end - base, part.begin)):
                yield part, batch
        yield part, None


def _scan_file(part: Part, rows: RowFilter, places: QueuePlaces) -> Iterator[Any]:
    from codec.errors import CorruptionError
    from codec.scan.arrow import to_arrow

    base = part.base or 0
    low = max(base + part.begin, rows.begin_commit_log)
    entries = _wanted(places, rows, low, min(base + part.end, places.end))
    with mapped(NamedFile(Path(part.path), part.base, part.size)) as data:
        for some in _batches(entries):
            try:
                batch = to_arrow(data, some.places - base, check_crc=rows.check_crc, encoded=True)
            except (CorruptionError, ValueError) as error:
                raise UnsoundQueue(f"consume queues of {rows.topic}: {part.path}: {error}") from error
            _require_same(batch, some, part, rows)
            taken = rows.apply(batch)
            if taken.num_rows:
                yield taken


def _scan_rest(part: Part, rows: RowFilter, begin: int) -> Iterator[Any]:
    file = NamedFile(Path(part.path), part.base, part.size)
    if begin:
        with mapped(file) as data:
            if next_record(file, data, begin, begin + 1) != begin:
                raise UnsoundQueue(f"{part.path}: byte {begin}: a consume queue points where no record is")
        rows = replace(rows, begin_commit_log=max(rows.begin_commit_log, (part.base or 0) + begin))
    yield from scan_part(part._replace(begin=begin), rows, encoded=True)


def _wanted(places: QueuePlaces, rows: RowFilter, low: int, high: int) -> _Entries:
    """Entries of all queues whose records lie in [low, high), in the order of the commit log."""
    import numpy as np

    found = [_Entries(np.zeros(0, np.int64), np.zeros(0, np.int32))]
    for queue in places.queues:
        begin = max(rows.begin or 0, rows.done_of(queue.topic or "", queue.queue_id or 0))
        for file in queue.files.files:
            entries = _entries(queue, file, begin, rows)
            chosen = slice(*np.searchsorted(entries.places, (low, high)).tolist())
            found.append(_Entries(entries.places[chosen], entries.sizes[chosen]))
    together = np.concatenate([one.places for one in found])
    order = np.argsort(together, kind="stable")
    return _Entries(together[order], np.concatenate([one.sizes for one in found])[order])


def _entries(queue: Queue, file: NamedFile, begin: int = 0, rows: RowFilter | None = None) -> _Entries:
    """The written entries of a queue file, from queue offset `begin` on, that can be of wanted records."""
    import numpy as np

    with mapped(file) as data:
        raw = np.frombuffer(data, ENTRY.dtype(), file.size // ENTRY.size)
        places, sizes = raw["commit_log_offset"].astype(np.int64), raw["size"].astype(np.int32)
        codes = raw["tags_code"].astype(np.int64)
        del raw
    used = (sizes > 0) & ~((sizes == FILLER_SIZE) & (places == 0))
    numbers = np.flatnonzero(used)
    if len(numbers) and (
        numbers[-1] - numbers[0] + 1 != len(numbers) or (np.diff(places[numbers]) <= 0).any()
    ):
        raise UnsoundQueue(
            f"consume queue {queue.queue_id} of {queue.topic}: {file.path}: has a hole or does not ascend"
        )
    offsets = numbers + (file.base or 0) // ENTRY.size
    wanted = offsets >= begin
    if rows is not None and rows.end is not None:
        wanted &= offsets < rows.end
    # In an extended queue a code is an address, which is negative, and in the schedule topic a time.
    if rows is not None and rows.tags and queue.topic != SystemTopic.SCHEDULE:
        hashes = [tags_code(tag) for tag in rows.tags]
        wanted &= np.isin(codes[numbers], hashes) | (codes[numbers] < -(1 << 31))
    return _Entries(places[numbers[wanted]], sizes[numbers[wanted]])


def _batches(entries: _Entries) -> Iterator[_Entries]:
    import numpy as np

    from codec.scan.arrow import BATCH_BYTES, BATCH_ROWS

    ends = np.cumsum(entries.sizes, dtype=np.int64)
    begin = 0
    while begin < len(ends):
        limit = (int(ends[begin - 1]) if begin else 0) + BATCH_BYTES
        end = min(begin + BATCH_ROWS, max(int(np.searchsorted(ends, limit)), begin + 1))
        yield _Entries(entries.places[begin:end], entries.sizes[begin:end])
        begin = end


def _require_same(batch: Any, entries: _Entries, part: Part, rows: RowFilter) -> None:
    """That each entry points at a record that says of itself what the entry says."""
    import pyarrow.compute as pc

    same = (batch["commit_log_offset"].to_numpy() == entries.places) & (
        batch["store_size"].to_numpy() == entries.sizes
    )
    if not same.all() or not pc.all(pc.equal(batch["topic"], rows.topic)).as_py():
        raise UnsoundQueue(f"consume queues of {rows.topic}: they point at other records of {part.path}")
