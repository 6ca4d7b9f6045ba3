"""Records whose topic, queue or queue offset is damaged; no CRC covers these fields.

The log itself decides. A record whose queue offset continues or precedes that of a neighbour in its queue is
kept, regardless of its consume queue. An isolated record is lost if it breaks the sequence of its neighbours,
or if a queue entry contradicts it and none confirms it. In the second case it may be kept where records
around it are lost, unless the queue of that entry lacks just this record. A queue file that contradicts most
of the records it points to belongs to another queue, or is garbage, and is ignored.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from rmqcli.codec.core.agreement import doubtful_entries, entries_inside, written_entries
from rmqcli.codec.core.dispatch import Dispatch
from rmqcli.codec.core.walk import Walk
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.names import LMQ_PREFIX
from rmqcli.codec.records.reading import scan_record
from rmqcli.codec.store.consume_queue import ENTRY
from rmqcli.store.read.commit_log import LogViews
from rmqcli.store.read.consume_queue import Queue, QueueEntry, count_written, entry_at, queues_of
from rmqcli.store.read.files import mapped, peeked, without_last_hole
from rmqcli.store.read.sequences import QueueKey, Run, Sequences
from rmqcli.store.repair.salvage_scan import LogScan
from rmqcli.store.verify.agreement import Agreement


class Places:
    """Ranges [begin, end) of a commit log that do not overlap."""

    def __init__(self, parts: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(parts)
        self.begins = [begin for begin, _ in ordered]
        self.ends = [end for _, end in ordered]

    def __contains__(self, offset: int) -> bool:
        number = bisect_right(self.begins, offset) - 1
        return number >= 0 and offset < self.ends[number]


def entries_into(queue: Queue, places: Places) -> Iterator[QueueEntry]:
    """Yield the entries of a queue that point into `places`, without fillers.

    An entry of size 0 ends the queue.
    """
    for file in queue.files.files:
        data = without_last_hole(file, ENTRY.size)
        written = written_entries(data)
        for number in entries_inside(data, written, places.begins, places.ends):
            yield entry_at(file, data, number)
        if written < file.size // ENTRY.size:
            return


_BLOCK_RECORDS = 1 << 16
_begin_of = attrgetter("begin")


class Order(NamedTuple):
    """The runs of the kept records, and the queue files to distrust."""

    kept: Sequences
    distrusted: frozenset[Path]


def drop_misplaced(scan: LogScan, store: Path) -> Order:
    """Turn kept records whose topic, queue or queue offset cannot be correct into lost ones."""
    queues = [queue for queue in queues_of(store) if not (queue.topic or "").startswith(LMQ_PREFIX)]
    with LogViews([file.file for file in scan.files]) as views:
        found = _claims(scan, views, queues, partial(_suspect_entries, _agreement(scan, queues)))
        claims = [claim for claim in found if not claim.agrees]
        distrusted = _contradicting_files(claims)
        suspects = {claim.offset: claim for claim in claims if claim.path not in distrusted}
        # Another entry may confirm a suspect, so the entries that point to suspects are read in full.
        if suspects:
            places = Places((offset, offset + 1) for offset in suspects)
            confirmed = _claims(scan, views, queues, lambda queue: entries_into(queue, places))
            for offset in {claim.offset for claim in confirmed if claim.agrees} & suspects.keys():
                del suspects[offset]
    kept = sequences_of(scan)
    may_be_lost = _LostBetween(scan)
    misplaced = {
        offset for offset, claim in suspects.items() if _lacks(kept.queues.get(claim.key, []), claim)
    }
    unfit = [
        one for runs in kept.queues.values() for one in _unfit(runs, suspects.keys(), misplaced, may_be_lost)
    ]
    for offset, reason in unfit:
        scan.drop(offset, reason)
    return Order(sequences_of(scan) if unfit else kept, distrusted)


def sequences_of(scan: LogScan) -> Sequences:
    found = Sequences()
    for file in scan.files:
        if file.file.size:
            with mapped(file.file) as data:
                for begin, end in file.kept:
                    found.read(data, begin - file.base, end - file.base)
    return found


class _LostBetween:
    """Decides whether a record may be lost between two others; None is the beginning of the log."""

    def __init__(self, scan: LogScan) -> None:
        self._begins = [stretch.begin for stretch in scan.lost]
        self._is_whole = scan.begin == 0

    def __call__(self, after: int | None, before: int) -> bool:
        if after is None:
            return not self._is_whole or bisect_left(self._begins, before) > 0
        return bisect_left(self._begins, before) > bisect_right(self._begins, after)


def _lacks(runs: list[Run], claim: _Claim) -> bool:
    """Return True if a queue has records around the claimed one, but none with the claimed queue offset."""
    number = bisect_left(runs, claim.offset, key=_begin_of)
    # The record itself may be in this queue, under another queue offset: it is not its own neighbour.
    behind = number + any(run.begin == claim.offset for run in runs[number : number + 1])
    before, after = runs[max(number - 1, 0) : number], runs[behind : behind + 1]
    follows = all(run.last < claim.queue_offset and run.end < claim.offset for run in before)
    precedes = all(claim.queue_offset < run.first for run in after)
    return follows and precedes and bool(before or after)


def _unfit(
    runs: list[Run], suspects: Set[int], misplaced: Set[int], may_be_lost: _LostBetween
) -> Iterator[tuple[int, str]]:
    """Yield the commit-log offset of each record that cannot be correct, with the reason.

    Those in `misplaced` fit elsewhere.
    """
    before: Run | None = None
    for run, after in zip(runs, [*runs[1:], None], strict=True):
        fits = run.begin not in misplaced and _fits(before, run, after, may_be_lost)
        # Damage changes one record: several records in order are never considered damaged.
        if run.is_single and _breaks(before, run, after):
            yield run.begin, f"a queue offset of {run.first} cannot be"
        elif run.is_single and run.begin in suspects and not fits:
            yield run.begin, "its consume queue contradicts its topic, queue or offset"
        else:
            before = run


def _breaks(before: Run | None, run: Run, after: Run | None) -> bool:
    """Return True if the neighbours of a record are in order without it, but not with it.

    A queue that begins at 0 again is one whose topic was deleted and created again.
    """
    if after is None:
        return before is not None and 0 < run.first <= before.last
    if after.first == 0:
        return False
    if before is None:
        return run.first >= after.first
    return before.last < after.first and not before.last < run.first < after.first


def _fits(before: Run | None, run: Run, after: Run | None, may_be_lost: _LostBetween) -> bool:
    if before is None:
        follows = run.first == 0 or may_be_lost(None, run.begin)
    else:
        follows = run.first == 0 or (before.last < run.first and may_be_lost(before.end, run.begin))
    return follows or (after is not None and run.last < after.first and may_be_lost(run.begin, after.begin))


class _Claim(NamedTuple):
    """A queue entry that points to a kept record, and whether the two agree.

    `offset` is the commit-log offset of the record; `key` and `queue_offset` are those of the entry.
    `written` counts the entries written in its file.
    """

    offset: int
    key: QueueKey
    queue_offset: int
    path: Path
    agrees: bool
    written: int


def _contradicting_files(claims: list[_Claim]) -> frozenset[Path]:
    counts = Counter(claim.path for claim in claims)
    # A record that is wrong contradicts one entry; a file that is wrong contradicts most of its records.
    return frozenset(claim.path for claim in claims if counts[claim.path] * 2 > claim.written)


def _agreement(scan: LogScan, queues: list[Queue]) -> Agreement:
    """Return the queue entries that agree with the kept records."""
    found = Agreement(queues, (), 0)
    for file in scan.files:
        if file.file.size:
            with mapped(file.file) as data:
                for begin, end in file.kept:
                    walk, dispatch = Walk(data, file.base, begin - file.base, end - file.base), Dispatch()
                    while not walk.is_over:
                        dispatch.add_all(walk, _BLOCK_RECORDS)
                        found.add(*dispatch.take())
    found.finish()
    return found


def _suspect_entries(agreement: Agreement, queue: Queue) -> Iterator[QueueEntry]:
    """Yield the entries that are not known to agree with a kept record."""
    last = -1
    for file in queue.files.files:
        data = without_last_hole(file, ENTRY.size)
        written = written_entries(data)
        first, known = (file.base or 0) // ENTRY.size, agreement.entries_of(queue[:2])
        raw = data[: written * ENTRY.size]
        found, _, last = doubtful_entries(raw, first, last, 0, known)
        for begin, end, _ in found:
            entries = (entry_at(file, data, number) for number in range(begin, end))
            yield from (entry for entry in entries if not entry.is_filler)
        if written < file.size // ENTRY.size:
            return


def _claims(
    scan: LogScan, views: LogViews, queues: list[Queue], look: Callable[[Queue], Iterator[QueueEntry]]
) -> Iterator[_Claim]:
    for queue in queues:
        written: dict[Path, int] = {}
        for entry in look(queue):
            place = scan.file_of(entry.commit_log_offset)
            if place is None:
                continue
            try:
                record = scan_record(views.view(place), entry.commit_log_offset - scan.files[place].base)
            except CorruptionError:
                continue
            if record.physical_offset != entry.commit_log_offset or record.total_size != entry.size:
                continue
            key = queue.topic or "", -1 if queue.queue_id is None else queue.queue_id
            stated = str(record.topic, "utf-8", "replace"), record.queue_id, record.queue_offset
            agrees = stated == (*key, entry.queue_offset)
            path = entry.file.path
            if path not in written:
                written[path] = _written(entry)
            claimed = entry.commit_log_offset, key, entry.queue_offset
            yield _Claim(*claimed, path, agrees, written[path])


def _written(entry: QueueEntry) -> int:
    with peeked(entry.file) as data:
        return count_written(data, entry.file.size // ENTRY.size)
