"""Queue offsets lost with stretches of a commit log, by the consume queues and the remaining records.

A record whose topic, queue or queue offset is contradicted by a consume queue, and confirmed by none, is
lost, too: no CRC covers these.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from codec.errors import CorruptionError
from codec.names import LMQ_PREFIX
from codec.store.consume_queue import ENTRY
from codec.store.dispatch import has_queue_entry
from codec.store.record import RecordScan, scan_record
from rmqcli.store.read.commit_log import LogViews
from rmqcli.store.read.consume_queue import Queue, QueueEntry, queues_of
from rmqcli.store.read.files import mapped
from rmqcli.store.read.vectorised import is_vectorised
from rmqcli.store.repair.queue_writer import MAX_GAP, is_folder
from rmqcli.store.repair.salvage_scan import LogScan, LostStretch, records_between

_BLOCK_ENTRIES = 1 << 13
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


def drop_contradicted(scan: LogScan, store: Path) -> None:
    """Turns kept records into lost ones that a queue entry contradicts and none confirms."""
    contradicted = {
        one.offset: one.size
        for one in _claims(scan, store, partial(_suspect_entries, scan))
        if not one.agrees
    }
    if contradicted:
        confirmed = {
            one.offset for one in _claims(scan, store, lambda queue: queue.files.entries()) if one.agrees
        }
        for offset in sorted(contradicted.keys() - confirmed):
            _drop(
                scan, offset, contradicted[offset], "its consume queue contradicts its topic, queue or offset"
            )


class _Claim(NamedTuple):
    """A queue entry that points at a kept record, and whether they agree."""

    offset: int
    size: int
    agrees: bool


def _suspect_entries(scan: LogScan, queue: Queue) -> Iterator[QueueEntry]:
    if not is_vectorised():
        yield from queue.files.entries()
        return
    from codec.scan.checks import suspect_entries
    from codec.scan.entries import written_entries

    with LogViews([file.file for file in scan.files if file.file.size]) as views:
        for file in queue.files.files:
            first = (file.base or 0) // ENTRY.size
            with mapped(file) as data:
                written = written_entries(data)
                for at in range(0, written, _BLOCK_ENTRIES):
                    raw = bytes(data[at * ENTRY.size : min(at + _BLOCK_ENTRIES, written) * ENTRY.size])
                    numbers, _ = suspect_entries(
                        views, queue.topic, queue.queue_id, first + at, raw, -1, check_crc=False
                    )
                    for number in numbers:
                        yield from queue.files.entries(first + at + number, first + at + number + 1)
            if written < file.size // ENTRY.size:
                return


def _claims(scan: LogScan, store: Path, look: Callable[[Queue], Iterator[QueueEntry]]) -> Iterator[_Claim]:
    with ExitStack() as stack:
        views = [stack.enter_context(mapped(file.file)) if file.file.size else None for file in scan.files]
        for queue in queues_of(store):
            if (queue.topic or "").startswith(LMQ_PREFIX):
                continue
            for entry in look(queue):
                place = _file_of(scan, entry.commit_log_offset)
                data = None if place is None else views[place]
                if data is None or place is None:
                    continue
                position = entry.commit_log_offset - scan.files[place].base
                try:
                    record = scan_record(data, position)
                except CorruptionError:
                    continue
                if record.physical_offset != entry.commit_log_offset or record.total_size != entry.size:
                    continue
                stated = str(record.topic, "utf-8", "replace"), record.queue_id, record.queue_offset
                agrees = stated == (queue.topic, queue.queue_id, entry.queue_offset)
                yield _Claim(entry.commit_log_offset, entry.size, agrees)


def _file_of(scan: LogScan, offset: int) -> int | None:
    number = (offset - scan.begin) // scan.file_size
    return number if 0 <= number < len(scan.files) else None


def _drop(scan: LogScan, offset: int, size: int, reason: str) -> None:
    place = _file_of(scan, offset)
    assert place is not None
    file = scan.files[place]
    number = bisect_right(file.kept, (offset, 1 << 63)) - 1
    begin, end = file.kept[number]
    pieces = [(begin, offset), (offset + size, end)]
    file.kept[number : number + 1] = [piece for piece in pieces if piece[0] < piece[1]]
    file.lost.append(LostStretch(offset, offset + size, reason))
    file.records -= 1


def _gone_in_queues(scan: LogScan, store: Path) -> list[Gone]:
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
            if inside or offset >= scan.end:
                known = entry.commit_log_offset, offset + 1, entry.size
                found.append(Gone(queue.topic, queue.queue_id, entry.queue_offset, *known))
    return found


def lost_tail(scan: LogScan, gone: list[Gone]) -> LostStretch | None:
    """Returns what entries point at past the last file, as far as records can be apart."""
    begin = end = max([scan.end, *(stretch.end for stretch in scan.lost)])
    for offset, size in sorted((one.after, one.size) for one in gone if one.after >= begin and one.size):
        if offset - end > _FARTHEST:
            break
        end = max(end, offset + min(size, _FARTHEST))
    reason = "the end of the log is missing, as consume queues show"
    return LostStretch(begin, end, reason, True) if end > begin else None


def gone_offsets(scan: LogScan, store: Path) -> list[Gone]:
    """Returns every lost queue offset, sorted, without those that a kept record has.

    A record preceded by more than MAX_GAP of them is itself lost.
    """
    known = {(gone.topic, gone.queue_id, gone.queue_offset): gone for gone in _gone_in_queues(scan, store)}
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
        _drop(scan, offset, record.total_size, f"there is no topic {key[0]!r} with a queue {key[1]}")
        return
    previous, after = last.get(key, (record.queue_offset, 0))
    if record.queue_offset - previous > MAX_GAP:
        _drop(scan, offset, record.total_size, f"a queue offset of {record.queue_offset} cannot be")
        return
    for missing in range(previous + 1, record.queue_offset):
        known.setdefault((*key, missing), Gone(*key, missing, after, offset))
    known.pop((*key, record.queue_offset), None)
    last[key] = record.queue_offset, stop
