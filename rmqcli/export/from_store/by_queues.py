"""Records by their places in the consume queues: what no wanted queue has in the commit log is not read.

With topics their queues say all. Without any (a queue number, tags, offsets) the entries of all queues must lie side by side in the
log: records between them, of a deleted topic say, are walked.

Queues are taken at their word only where that is safe. A broker dispatches records in the order of the commit log, so all records
before the newest entry of any queue have theirs, unless the machine lost power: a store that was left without a clean stop
(`abort` is there and no broker runs) is walked. So is one whose queues have a hole, do not ascend, or point at anything but
their own records. What lies behind the newest entry is walked in any case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from codec.errors import CorruptionError
from codec.names import LMQ_PREFIX
from rmqcli.export.errors import ExportError
from rmqcli.export.from_store.parts import Part, scan_part
from rmqcli.export.from_store.queue_entries import (
    Entries,
    QueueFile,
    UnsoundQueue,
    batches,
    bounded,
    entries_in,
    last_place,
)
from rmqcli.export.from_store.row_filter import RowFilter
from rmqcli.render.output import warn
from rmqcli.store import Queue, queue_folders
from rmqcli.store.read.commit_log import commit_log_folder, next_record
from rmqcli.store.read.files import NamedFile, mapped, offset_files
from rmqcli.store.read.lock import is_locked

_MOST_GAPS = 64
"""Where more stretches of a part are in no queue, all of it is walked."""


class QueuePlaces(NamedTuple):
    """The files of queues to look into; every record before commit-log offset `end` is in its queue, if it is in any. Plain data: it
    travels to other processes."""

    files: list[QueueFile]
    end: int

    def within(self, part: Part) -> QueuePlaces:
        """What the scan of a part needs."""
        low, high = (part.base or 0) + part.begin, (part.base or 0) + part.end
        return self._replace(files=[file for file in self.files if file.touches(low, min(high, self.end))])


def divided(parts: Sequence[Part], places: QueuePlaces | None) -> Iterator[tuple[Part, QueuePlaces | None]]:
    """Parts of a log of which topics are wanted, each with its own places; those that have nothing are left out."""
    for part in parts:
        own = places and places.within(part)
        if own is None or own.files or (part.base or 0) + part.end > own.end:
            yield part, own


def queue_places(store: Path, rows: RowFilter) -> QueuePlaces | None:
    """None when the commit log has to be walked, with a warning if that is the fault of a queue."""
    try:
        return _places(store, rows)
    except UnsoundQueue as error:
        walked_instead(error)
        return None


def walked_instead(error: UnsoundQueue) -> None:
    """Says that, and why."""
    warn(f"{error}; the whole commit log is read instead")


def _places(store: Path, rows: RowFilter) -> QueuePlaces | None:
    folder = store / "consumequeue"
    if not rows.asks_queues or any(topic.startswith(LMQ_PREFIX) for topic in rows.topics):
        return None
    if not all((folder / topic).is_dir() for topic in rows.topics or [""]):
        return None
    if (store / "abort").exists() and not is_locked(store):
        return None
    try:
        queues = queue_folders(folder)
    except FileNotFoundError:
        return None
    queues = [queue for queue in queues if not (queue.topic or "").startswith(LMQ_PREFIX)]
    # The newest entry itself does not count: a broker may be writing it. What it adds to the files from now on lies behind this.
    end = _newest(queues, store)
    if rows.topics:
        queues = [queue for queue in queues if rows.takes_queue(queue.topic, queue.queue_id)]
    return QueuePlaces([file for queue in queues for file in bounded(queue)], end)


def _newest(queues: Sequence[Queue], store: Path) -> int:
    ends = [(last_place(queue), queue) for queue in queues]
    file = offset_files(commit_log_folder(store))[-1]
    for end, queue in ends:
        if end >= (file.base or 0) + file.size:
            raise UnsoundQueue(
                f"consume queue {queue.queue_id} of {queue.topic}: leads behind the commit log"
            )
    return max((end for end, _ in ends), default=0)


def scan(part: Part, rows: RowFilter, places: QueuePlaces | None, *, encoded: bool = False) -> Iterator[Any]:
    """Record batches of the part's records, as by `scan_part`; by queues where there are `places`. With topics a part may begin
    and end anywhere, without any it is of whole files.

    UnsoundQueue, which may concern other parts too; CorruptionError where a record is damaged.
    """
    if places is None:
        yield from scan_part(part, rows, encoded=encoded)
        return
    base = part.base or 0
    if base + part.begin < places.end:
        yield from _scan_file(part, rows, places, encoded)
    if base + part.end > places.end:
        yield from _scan_rest(part, rows, places.end - base, encoded)


def _scan_file(part: Part, rows: RowFilter, places: QueuePlaces, encoded: bool) -> Iterator[Any]:
    base = part.base or 0
    low, high = base + part.begin, min(base + part.end, places.end)
    entries = entries_in(places.files, rows, low, high)
    gaps = [] if rows.topics else _gaps(entries, low, high)
    if len(gaps) > _MOST_GAPS:
        gaps, entries = [(low, high)], entries.only(slice(0))
    wanted = entries.only(entries.wanted & (entries.places >= rows.begin_commit_log))
    yield from _read(part, rows, wanted, encoded)
    for begin, end in gaps:
        gap = part._replace(begin=begin - base, end=end - base)
        try:
            yield from scan_part(gap, rows, encoded=encoded, known=True)
        except (CorruptionError, ExportError) as error:
            raise UnsoundQueue(f"consume queues: they leave out what is no record: {error}") from error


def _read(part: Part, rows: RowFilter, entries: Entries, encoded: bool) -> Iterator[Any]:
    from codec.scan.arrow import to_arrow

    base, name = part.base or 0, ", ".join(sorted(rows.topics)) or "all topics"
    with mapped(NamedFile(Path(part.path), part.base, part.size)) as data:
        for some in batches(entries):
            try:
                batch = to_arrow(data, some.places - base, check_crc=rows.check_crc, encoded=encoded)
            except (CorruptionError, ValueError) as error:
                raise UnsoundQueue(f"consume queues of {name}: {part.path}: {error}") from error
            if not _are_same(batch, some, rows.topics):
                raise UnsoundQueue(f"consume queues of {name}: they point at other records of {part.path}")
            taken = rows.apply(batch)
            if taken.num_rows:
                yield taken


def _scan_rest(part: Part, rows: RowFilter, end: int, encoded: bool) -> Iterator[Any]:
    """The records of the part from byte `end` of the file on, where there is one."""
    file = NamedFile(Path(part.path), part.base, part.size)
    if end > 0 and part.begin <= end:
        with mapped(file) as data:
            if next_record(file, data, end, end + 1) != end:
                raise UnsoundQueue(f"{part.path}: byte {end}: a consume queue points where no record is")
        part = part._replace(begin=end)
    yield from scan_part(part, rows, encoded=encoded)


def _gaps(entries: Entries, low: int, high: int) -> list[tuple[int, int]]:
    """What lies in [low, high) and in no entry."""
    import numpy as np

    begins = np.concatenate(([low], entries.places + entries.sizes))
    ends = np.concatenate((entries.places, [max(high, int(begins[-1]))]))
    if (ends < begins).any():
        raise UnsoundQueue("consume queues: two of their entries are of the same bytes of the commit log")
    open_ = np.flatnonzero(ends > begins)
    return list(zip(begins[open_].tolist(), ends[open_].tolist(), strict=True))


def _are_same(batch: Any, entries: Entries, topics: frozenset[str]) -> bool:
    """Whether each entry points at the record of its queue that has its number. So none of a queue is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    said = (entries.places, entries.sizes, entries.queue_ids, entries.offsets)
    names = ("commit_log_offset", "store_size", "queue_id", "queue_offset")
    if not all((batch[name].to_numpy() == column).all() for name, column in zip(names, said, strict=True)):
        return False
    return not topics or bool(pc.all(pc.is_in(batch["topic"], pa.array(sorted(topics)))).as_py())
