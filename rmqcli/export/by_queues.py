"""Records by their places in the consume queues: what no wanted queue has in the commit log is not read.

With a topic its queues say all. Without one (a queue number, tags, offsets) the entries of all queues must lie side by side in the
log: records between them, of a deleted topic say, are walked.

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
from codec.errors import CorruptionError
from codec.hashing import tags_code
from codec.names import LMQ_PREFIX, SystemTopic
from rmqcli.export.errors import ExportError
from rmqcli.export.parts import Part, scan_part
from rmqcli.export.rows import RowFilter
from rmqcli.store import Queue, queue_folders
from rmqcli.store.commit_log import next_record
from rmqcli.store.files import NamedFile, mapped
from rmqcli.store.lock import is_locked

__all__ = ["QueuePlaces", "UnsoundQueue", "queue_places", "scan_by_queues"]


class UnsoundQueue(Exception):
    """A consume queue that contradicts itself or the commit log; the text names it."""


_MOST_GAPS = 64
"""Where more stretches of a part are in no queue, all of it is walked."""
_LOOKS = 3
"""An entry that was written just before one that is read already looks like a hole, once."""


class QueuePlaces(NamedTuple):
    """The queues to look into; every record before commit-log offset `end` is in its queue, if it is in any."""

    queues: list[Queue]
    end: int


class _Entries(NamedTuple):
    """Commit-log offsets and sizes, in order, and which can be of wanted records."""

    places: Any
    sizes: Any
    wanted: Any

    def only(self, chosen: Any) -> _Entries:
        """Some of them: a slice, a mask or numbers."""
        return _Entries(*(column[chosen] for column in self))


def queue_places(store: Path, rows: RowFilter) -> QueuePlaces | None:
    """None when the commit log has to be walked."""
    topic = rows.topic or ""
    if not rows.asks_queues or topic.startswith(LMQ_PREFIX):
        return None
    if not (store / "consumequeue" / topic).is_dir() or ((store / "abort").exists() and not is_locked(store)):
        return None
    try:
        queues = queue_folders(store / "consumequeue")
    except FileNotFoundError:
        return None
    queues = [queue for queue in queues if not (queue.topic or "").startswith(LMQ_PREFIX)]
    # The newest entry itself does not count: a broker may be writing it.
    end = max((_last_place(queue) for queue in queues), default=0)
    if rows.topic is not None:
        queues = [queue for queue in queues if rows.takes_queue(queue.topic, queue.queue_id)]
    return QueuePlaces(queues, end)


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
    base = part.base or 0
    low, high = base + part.begin, min(base + part.end, places.end)
    entries = _entries_in(places, rows, low, high)
    gaps = [] if rows.topic is not None else _gaps(entries, low, high)
    if len(gaps) > _MOST_GAPS:
        gaps, entries = [(low, high)], entries.only(slice(0))
    yield from _read(part, rows, entries.only(entries.wanted & (entries.places >= rows.begin_commit_log)))
    for begin, end in gaps:
        gap = part._replace(begin=begin - base, end=end - base)
        try:
            yield from scan_part(gap, rows, encoded=True, known=True)
        except (CorruptionError, ExportError) as error:
            raise UnsoundQueue(f"consume queues: they leave out what is no record: {error}") from error


def _read(part: Part, rows: RowFilter, entries: _Entries) -> Iterator[Any]:
    from codec.scan.arrow import to_arrow

    base, name = part.base or 0, rows.topic or "all topics"
    with mapped(NamedFile(Path(part.path), part.base, part.size)) as data:
        for some in _batches(entries):
            try:
                batch = to_arrow(data, some.places - base, check_crc=rows.check_crc, encoded=True)
            except (CorruptionError, ValueError) as error:
                raise UnsoundQueue(f"consume queues of {name}: {part.path}: {error}") from error
            if not _are_same(batch, some, rows.topic):
                raise UnsoundQueue(f"consume queues of {name}: they point at other records of {part.path}")
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


def _entries_in(places: QueuePlaces, rows: RowFilter, low: int, high: int) -> _Entries:
    """Entries of all queues whose records lie in [low, high), in the order of the commit log."""
    import numpy as np

    found = [_Entries(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, bool))]
    for queue in places.queues:
        for file in queue.files.files:
            entries = _entries(queue, file, rows)
            found.append(entries.only(slice(*np.searchsorted(entries.places, (low, high)).tolist())))
    together = _Entries(*map(np.concatenate, zip(*found, strict=True)))
    return together.only(np.argsort(together.places, kind="stable"))


def _gaps(entries: _Entries, low: int, high: int) -> list[tuple[int, int]]:
    """What lies in [low, high) and in no entry."""
    import numpy as np

    begins = np.concatenate(([low], entries.places + entries.sizes))
    ends = np.concatenate((entries.places, [max(high, int(begins[-1]))]))
    if (ends < begins).any():
        raise UnsoundQueue("consume queues: two of their entries are of the same bytes of the commit log")
    open_ = np.flatnonzero(ends > begins)
    return list(zip(begins[open_].tolist(), ends[open_].tolist(), strict=True))


def _entries(queue: Queue, file: NamedFile, rows: RowFilter | None = None) -> _Entries:
    """The written entries of a queue file."""
    import numpy as np

    numbers, places, sizes, codes = _written(queue, file)
    offsets = numbers + (file.base or 0) // ENTRY.size
    wanted = np.ones(len(numbers), bool) if rows is None else _wanted(queue, offsets, codes, rows)
    return _Entries(places, sizes, wanted)


def _written(queue: Queue, file: NamedFile) -> tuple[Any, Any, Any, Any]:
    """Numbers in the file, commit-log offsets, sizes and tags codes of the written entries."""
    import numpy as np

    for _ in range(_LOOKS):
        with mapped(file) as data:
            raw = np.frombuffer(data, ENTRY.dtype(), file.size // ENTRY.size)
            # Sizes first: an entry that a broker writes meanwhile is then no entry, not one that leads to the log's begin.
            sizes = raw["size"].astype(np.int32)
            places, codes = (raw[name].astype(np.int64) for name in ("commit_log_offset", "tags_code"))
            del raw
        numbers = np.flatnonzero((sizes > 0) & ~((sizes == FILLER_SIZE) & (places == 0)))
        is_one_run = not len(numbers) or numbers[-1] - numbers[0] + 1 == len(numbers)
        if is_one_run and (np.diff(places[numbers]) > 0).all():
            return numbers, places[numbers], sizes[numbers], codes[numbers]
    raise UnsoundQueue(
        f"consume queue {queue.queue_id} of {queue.topic}: {file.path}: has a hole or does not ascend"
    )


def _wanted(queue: Queue, offsets: Any, codes: Any, rows: RowFilter) -> Any:
    """Which entries can be of wanted records."""
    import numpy as np

    begin = max(rows.begin or 0, rows.done_of(queue.topic or "", queue.queue_id or 0))
    wanted = (offsets >= begin) & rows.takes_queue(queue.topic, queue.queue_id)
    if rows.end is not None:
        wanted &= offsets < rows.end
    # In an extended queue a code is an address, which is negative, and in the schedule topic a time.
    if rows.tags and queue.topic != SystemTopic.SCHEDULE:
        hashes = [tags_code(tag) for tag in rows.tags]
        wanted &= np.isin(codes, hashes) | (codes < -(1 << 31))
    return wanted


def _batches(entries: _Entries) -> Iterator[_Entries]:
    import numpy as np

    from codec.scan.arrow import BATCH_BYTES, BATCH_ROWS

    ends = np.cumsum(entries.sizes, dtype=np.int64)
    begin = 0
    while begin < len(ends):
        limit = (int(ends[begin - 1]) if begin else 0) + BATCH_BYTES
        end = min(begin + BATCH_ROWS, max(int(np.searchsorted(ends, limit)), begin + 1))
        yield entries.only(slice(begin, end))
        begin = end


def _are_same(batch: Any, entries: _Entries, topic: str | None) -> bool:
    """Whether each entry points at a record that says of itself what the entry says."""
    import pyarrow.compute as pc

    places, sizes = batch["commit_log_offset"].to_numpy(), batch["store_size"].to_numpy()
    same = (places == entries.places).all() and (sizes == entries.sizes).all()
    return bool(same) and (topic is None or pc.all(pc.equal(batch["topic"], topic)).as_py())
