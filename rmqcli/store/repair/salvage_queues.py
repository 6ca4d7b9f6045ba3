"""The queue offsets lost with ranges of a commit log, found by consume queues and remaining records."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple

from rmqcli.codec.core.record_reader import RecordScan
from rmqcli.codec.records.dispatch import has_queue_entry
from rmqcli.codec.records.reading import peek_record
from rmqcli.codec.store.file_names import is_queue_folder
from rmqcli.store.read.commit_log import LogViews
from rmqcli.store.read.consume_queue import queues_of
from rmqcli.store.read.files import mapped
from rmqcli.store.read.sequences import QueueKey, Run, Sequences, messages_in
from rmqcli.store.repair.queue_writer import MAX_GAP, MAX_OFFSET
from rmqcli.store.repair.salvage_order import Order, Places, entries_into
from rmqcli.store.repair.salvage_scan import LogScan, LostStretch, records_between

_NO_END = (1 << 63) - 1
_FARTHEST = 64 * 1024 * 1024
"""The greatest distance (bytes) between queued records: more than the largest message a broker accepts."""


class Gone(NamedTuple):
    """A queue offset whose record was between `after` and `before` in the log; a `size` of 0 is unknown."""

    topic: str
    queue_id: int
    queue_offset: int
    after: int
    before: int
    size: int = 0


def _gone_in_queues(scan: LogScan, store: Path, distrusted: Collection[Path]) -> list[Gone]:
    """Return the queue offsets, even of LMQ, whose entries point into lost ranges or past the end of the
    log.
    """
    found: list[Gone] = []
    lost = [(stretch.begin, stretch.end) for stretch in scan.lost if stretch.begin < scan.end]
    places = Places([*lost, (scan.end, _NO_END)])
    for queue in queues_of(store):
        if queue.topic is None or queue.queue_id is None:
            continue
        for entry in entries_into(queue, places):
            if entry.file.path not in distrusted:
                known = entry.commit_log_offset, entry.commit_log_offset + 1, entry.size
                found.append(Gone(queue.topic, queue.queue_id, entry.queue_offset, *known))
    return found


def _in_sequence(found: list[Gone], kept: Sequences) -> Iterator[Gone]:
    """Yield the offsets that fit between the kept records of their queue.

    The others belong to another queue or are garbage.
    """
    for key, queued in groupby(sorted(found), lambda one: one[:2]):
        runs, last = kept.queues.get(key, []), -1
        begins = [run.begin for run in runs]
        for one in queued:
            number = bisect_right(begins, one.after)
            before, after = runs[number - 1 : number], runs[number : number + 1]
            again = bool(before and after) and after[0].first <= before[0].last  # the topic was created again
            later = not before or before[0].last < one.queue_offset or again
            follows = later and (not before or before[0].end <= one.after)
            precedes = not after or one.queue_offset < after[0].first or after[0].first == 0
            if follows and precedes and one.after > last:
                last = one.after
                yield one


def lost_tail(scan: LogScan, gone: list[Gone]) -> LostStretch | None:
    """Return the lost range that entries point to past the last file, as far as records can be apart."""
    begin = end = max([scan.end, *(stretch.end for stretch in scan.lost)])
    for offset, size in sorted((one.after, one.size) for one in gone if one.after >= begin and one.size):
        # An entry that is farther away is garbage rather than the end of a lost file.
        if offset - end > _FARTHEST:
            break
        end = max(end, offset + min(size, _FARTHEST))
    reason = "the end of the log is missing, as consume queues show"
    return LostStretch(begin, end, reason, True) if end > begin else None


def gone_offsets(scan: LogScan, store: Path, order: Order) -> list[Gone]:
    """Return every lost queue offset, sorted, except those of kept records.

    A record preceded by more than MAX_GAP lost offsets is itself lost. Distrusted queue files are ignored.
    """
    found = _gone_in_queues(scan, store, order.distrusted)
    if found:
        found = list(_in_sequence(found, order.kept))
    # Runs suffice if every kept record is possible; only otherwise is each record examined.
    if all(_is_possible(*one) for one in order.kept.queues.items()):
        return sorted(_gone_between_runs(scan, order.kept, found))
    return _gone_between_records(scan, found)


def _is_possible(key: QueueKey, runs: list[Run]) -> bool:
    """Return True if a queue of this name, with the records of these runs, can exist."""
    follows = all(run.first <= before.last + MAX_GAP for before, run in pairwise(runs))
    return (
        is_queue_folder(*key) and follows and all(run.first >= 0 and run.last <= MAX_OFFSET for run in runs)
    )


def _gone_between_runs(scan: LogScan, kept: Sequences, found: list[Gone]) -> Iterator[Gone]:
    in_queues: dict[QueueKey, dict[int, Gone]] = {}
    for one in found:
        in_queues.setdefault(one[:2], {})[one.queue_offset] = one
    with LogViews([file.file for file in scan.files]) as views:
        for key, runs in kept.queues.items():
            yield from _gone_of_queue(key, runs, in_queues.pop(key, {}), views)
    for known in in_queues.values():
        yield from known.values()


def _gone_of_queue(key: QueueKey, runs: list[Run], known: dict[int, Gone], views: LogViews) -> Iterator[Gone]:
    """Yield the lost offsets of a queue; `known` are those found in its entries.

    An offset of a later run is not lost. One of an earlier run may be, if the topic was deleted and created
    again.
    """
    # Rising runs are bisected. Only a topic that was created again has others, which are searched one by one.
    rises = all(before.last < run.first for before, run in pairwise(runs))
    firsts = [run.first for run in runs]

    def is_kept(offset: int, since: int) -> bool:
        if rises:
            number = bisect_right(firsts, offset) - 1
            return number >= 0 and offset <= runs[number].last
        return any(run.first <= offset <= run.last for run in runs[since:])

    lost = {offset: one for offset, one in known.items() if not is_kept(offset, 0)}
    yield from lost.values()
    seen = set(lost)
    for number, (before, run) in enumerate(pairwise(runs), 1):
        missing = [
            offset
            for offset in range(before.last + 1, run.first)
            if offset not in seen and not is_kept(offset, number)
        ]
        after = _stop_of(before, views) if missing else 0
        yield from (Gone(*key, offset, after, run.begin) for offset in missing)
        seen.update(missing)


def _stop_of(run: Run, views: LogViews) -> int:
    """Return the commit-log offset after the last record of a run."""
    place = views.place(run.end)
    assert place is not None
    return run.end + peek_record(*place).total_size


def _gone_between_records(scan: LogScan, found: list[Gone]) -> list[Gone]:
    """Like `_gone_between_runs`, but also drops the records that cannot exist."""
    known = {(gone.topic, gone.queue_id, gone.queue_offset): gone for gone in found}
    last: dict[tuple[str, int], tuple[int, int]] = {}
    for file in scan.files:
        if file.file.size:
            with mapped(file.file) as data:
                for begin, end in list(file.kept):
                    for record in records_between(data, file.base, begin, end):
                        _compare(scan, record, last, known)
    return [known[key] for key in sorted(known)]


def _compare(
    scan: LogScan,
    record: RecordScan,
    last: dict[tuple[str, int], tuple[int, int]],
    known: dict[tuple[str, int, int], Gone],
) -> None:
    if not has_queue_entry(record.sys_flag):
        return
    key = str(record.topic, "utf-8", "replace"), record.queue_id
    offset, stop = record.physical_offset, record.physical_offset + record.total_size
    if not is_queue_folder(*key):
        scan.drop(offset, f"there is no topic {key[0]!r} with a queue {key[1]}")
        return
    previous, after = last.get(key, (record.queue_offset, 0))
    if not 0 <= record.queue_offset <= min(previous + MAX_GAP, MAX_OFFSET):
        scan.drop(offset, f"a queue offset of {record.queue_offset} cannot be")
        return
    for missing in range(previous + 1, record.queue_offset):
        known.setdefault((*key, missing), Gone(*key, missing, after, offset))
    known.pop((*key, record.queue_offset), None)
    last[key] = record.queue_offset + messages_in(record) - 1, stop
