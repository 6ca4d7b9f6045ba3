"""Queue offsets lost with stretches of a commit log, by the consume queues and the remaining records."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from codec.store.dispatch import has_queue_entry
from codec.store.record import RecordScan
from rmqcli.store.read.consume_queue import queues_of
from rmqcli.store.read.files import mapped
from rmqcli.store.read.sequences import Sequences, messages_in
from rmqcli.store.repair.queue_writer import MAX_GAP, MAX_OFFSET, is_folder
from rmqcli.store.repair.salvage_order import sequences_of
from rmqcli.store.repair.salvage_scan import LogScan, LostStretch, records_between

_FARTHEST = 64 * 1024 * 1024
"""The greatest distance (bytes) between queued records: more than any message that a broker accepts."""


class Gone(NamedTuple):
    """A queue offset whose record lay between `after` and `before` in the log; `size` 0 is unknown."""

    topic: str
    queue_id: int
    queue_offset: int
    after: int
    before: int
    size: int = 0


def _gone_in_queues(scan: LogScan, store: Path, distrusted: Collection[Path]) -> list[Gone]:
    """Returns queue offsets whose entries point into lost stretches or past the end, LMQ included."""
    found: list[Gone] = []
    lost = scan.lost
    begins = [stretch.begin for stretch in lost]
    for queue in queues_of(store):
        if queue.topic is None or queue.queue_id is None:
            continue
        for entry in queue.files.entries():
            offset = entry.commit_log_offset
            number = bisect_right(begins, offset) - 1
            inside = number >= 0 and offset < lost[number].end
            if (inside or offset >= scan.end) and entry.file.path not in distrusted:
                known = entry.commit_log_offset, offset + 1, entry.size
                found.append(Gone(queue.topic, queue.queue_id, entry.queue_offset, *known))
    return found


def _in_sequence(found: list[Gone], kept: Sequences) -> Iterator[Gone]:
    """Yields what fits between the kept records of its queue; the rest is another queue's, or garbage."""
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
    """Returns what entries point at past the last file, as far as records can be apart."""
    begin = end = max([scan.end, *(stretch.end for stretch in scan.lost)])
    for offset, size in sorted((one.after, one.size) for one in gone if one.after >= begin and one.size):
        if offset - end > _FARTHEST:
            break
        end = max(end, offset + min(size, _FARTHEST))
    reason = "the end of the log is missing, as consume queues show"
    return LostStretch(begin, end, reason, True) if end > begin else None


def gone_offsets(scan: LogScan, store: Path, distrusted: Collection[Path] = ()) -> list[Gone]:
    """Returns every lost queue offset, sorted, without those that a kept record has.

    A record preceded by more than MAX_GAP of them is itself lost. Nothing is taken from
    `distrusted` queue files.
    """
    found = _gone_in_queues(scan, store, distrusted)
    if found:
        found = list(_in_sequence(found, sequences_of(scan)))
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
    if not is_folder(*key):
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
