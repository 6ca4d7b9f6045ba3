"""Records found through the consume queues: records of other queues are not read from the commit log.

With a choice of topics, their queues suffice, and no others are opened. Without one (but with a queue id,
tags or offsets), the entries of all queues must be contiguous in the log; gaps between them, for example
records of a deleted topic, are walked.

Queues are trusted only where that is safe: up to the offset where they are known to be complete
(`last_indexed`, `newest_entry`), unless the machine lost power. A store that was not stopped cleanly (`abort`
exists and no broker runs) is walked. So is one whose queues have a hole, are out of order, or point to other
records. The log after that offset is always walked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow.compute as pc

from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.names import LMQ_PREFIX
from rmqcli.codec.scan.arrow import RecordsAt
from rmqcli.codec.scan.arrow_arrays import is_in
from rmqcli.export.errors import ExportError
from rmqcli.export.from_store.parts import Part, last_indexed, newest_entry, scan_part
from rmqcli.export.from_store.queue_check import (
    Entries,
    QueueFile,
    StoreQueues,
    UnsoundQueue,
    batches,
    bounded,
    entries_in,
)
from rmqcli.export.from_store.row_filter import RowFilter
from rmqcli.render.output import warn
from rmqcli.store.read.commit_log import next_record
from rmqcli.store.read.files import NamedFile, mapped
from rmqcli.store.read.lock import is_locked

Result = TypeVar("Result")


class QueuePlaces(NamedTuple):
    """Queue files to search. Every record before commit-log offset `end` is in its queue, if it is in any.

    A part with more than `most_gaps` gaps between entries is walked. Can be pickled.
    """

    files: list[QueueFile]
    end: int
    most_gaps: int = 64

    def within(self, part: Part) -> QueuePlaces:
        low, high = (part.base or 0) + part.begin, (part.base or 0) + part.end
        return self._replace(files=[file for file in self.files if file.touches(low, min(high, self.end))])


def divided(parts: Sequence[Part], places: QueuePlaces | None) -> Iterator[tuple[Part, QueuePlaces | None]]:
    """Yield parts of a log, each with its queue files, without parts that have none."""
    for part in parts:
        own = places and places.within(part)
        if own is None or own.files or (part.base or 0) + part.end > own.end:
            yield part, own


def queue_places(queues: StoreQueues) -> QueuePlaces | None:
    """Return None if the commit log has to be walked, after a warning if a queue is the cause."""
    try:
        return _places(queues)
    except UnsoundQueue as error:
        _warn(error)
        return None


def by_queues_or_walked(places: QueuePlaces | None, export: Callable[[QueuePlaces | None], Result]) -> Result:
    """Call `export` with `places`, or, if they turn out to be unsound, with None after a warning."""
    if places is not None:
        try:
            return export(places)
        except UnsoundQueue as error:
            _warn(error)
    return export(None)


def _warn(error: UnsoundQueue) -> None:
    warn(f"{error}; the whole commit log is read instead")


def _places(queues: StoreQueues) -> QueuePlaces | None:
    store, rows = queues.store, queues.rows
    folder = store / "consumequeue"
    if not rows.asks_queues or any(topic.startswith(LMQ_PREFIX) for topic in rows.topics):
        return None
    if not all((folder / topic).is_dir() for topic in rows.topics or [""]):
        return None
    if (store / "abort").exists() and not is_locked(store):
        return None
    # The newest entry itself is left out, because a broker may be writing it; entries added from now on
    # follow it.
    indexed = last_indexed(store) if rows.topics else 0
    if not (queues.every or indexed):
        return None
    end = max(indexed, newest_entry([seen[-1] for seen in queues.seen if seen], store))
    if queues.was_written or (store / "abort").exists():
        # A queue that was read before another one got the newest entry may lack entries before it.
        queues = StoreQueues(store, rows)
    found = zip(queues.every, queues.seen, strict=True)
    files = (
        file
        for queue, seen in found
        if not rows.topics or rows.takes_queue(queue.topic, queue.queue_id)
        for file in bounded(seen)
    )
    # Without topics, the entries of all records show whether there is anything between them.
    return QueuePlaces([one for one in files if not rows.topics or one.may_have(rows.begin, rows.end)], end)


def scan(part: Part, rows: RowFilter, places: QueuePlaces | None, *, encoded: bool = False) -> Iterator[Any]:
    """Yield record batches of the records of a part, found through queues where there are `places`.

    With a choice of topics, a part may begin and end anywhere; otherwise parts are whole files. Raises
    UnsoundQueue, which may also concern other parts, and CorruptionError at a damaged record.
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
    if len(gaps) > places.most_gaps:
        gaps, entries = [(low, high)], entries.only(slice(0))
    wanted = entries.only(entries.wanted & (entries.places >= rows.begin_commit_log))
    yield from _read(part, rows, wanted, encoded)
    for begin, end in gaps:
        gap = part._replace(begin=begin - base, end=end - base)
        try:
            yield from scan_part(gap, rows, encoded=encoded, known=True)
        except (CorruptionError, ExportError) as error:
            raise UnsoundQueue(
                f"consume queues: a gap between their entries is not records: {error}"
            ) from error


def _read(part: Part, rows: RowFilter, entries: Entries, encoded: bool) -> Iterator[Any]:
    base, name = part.base or 0, ", ".join(sorted(rows.topics)) or "all topics"
    with mapped(NamedFile(Path(part.path), part.base, part.size)) as data:
        records = RecordsAt(
            data, base=base, broker_name=rows.broker_name, check_crc=rows.check_crc, encoded=encoded
        )
        for some in batches(entries):
            try:
                batch = records.batch(some.places - base, some.sizes)
            except CorruptionError as error:
                said = f"they point at other records of {part.path}, or at damage: {error}"
                raise UnsoundQueue(f"consume queues of {name}: {said}") from error
            if not _are_same(batch, some, rows.topics):
                raise UnsoundQueue(f"consume queues of {name}: they point at other records of {part.path}")
            taken = rows.messages(batch)
            if taken.num_rows:
                yield taken


def _scan_rest(part: Part, rows: RowFilter, end: int, encoded: bool) -> Iterator[Any]:
    file = NamedFile(Path(part.path), part.base, part.size)
    if end > 0 and part.begin <= end:
        with mapped(file) as data:
            if next_record(file, data, end, end + 1) != end:
                raise UnsoundQueue(f"{part.path}: byte {end}: a consume queue points where no record is")
        part = part._replace(begin=end)
    yield from scan_part(part, rows, encoded=encoded)


def _gaps(entries: Entries, low: int, high: int) -> list[tuple[int, int]]:
    begins = np.concatenate(([low], entries.places + entries.sizes))
    ends = np.concatenate((entries.places, [max(high, int(begins[-1]))]))
    if (ends < begins).any():
        raise UnsoundQueue("consume queues: two of their entries overlap in the commit log")
    open_ = np.flatnonzero(ends > begins)
    return list(zip(begins[open_].tolist(), ends[open_].tolist(), strict=True))


def _are_same(batch: Any, entries: Entries, topics: frozenset[str]) -> bool:
    """Return True if each entry points to its record, so that no record of a queue is missing."""
    said = (entries.places, entries.sizes, entries.queue_ids, entries.offsets)
    names = ("commit_log_offset", "store_size", "queue_id", "queue_offset")
    if not all(np.array_equal(batch[name], column) for name, column in zip(names, said, strict=True)):
        return False
    return not topics or bool(pc.all(is_in(batch["topic"], topics)).as_py())
