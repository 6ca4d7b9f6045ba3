"""A new, sound store from the remains of a damaged one.

Every kept record keeps its offset, so that message ids, transactions and queue offsets stay valid. Lost
ranges are filled:

* Each lost queue offset gets a message with an empty body and the property LOST, because no RocketMQ consumer
  could get past a gap. In the queues of delayed, timed and half messages, where such a message would be acted
  on, the entries are fillers, which readers skip.
* The remaining space becomes rolled-back records, which are in no queue and no index, and at the end of a
  file its filler.

If properties of a kept record do not parse, only those pairs are dropped. Queues and index are rebuilt. The
tables of `config` are copied, or taken from their `.bak`. The source is only read.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from rmqcli.codec.codes import MessageSysFlag
from rmqcli.codec.core.dispatch import Dispatch
from rmqcli.codec.core.walk import Walk
from rmqcli.codec.names import SYSTEM_TOPIC_PREFIX, SystemTopic
from rmqcli.codec.properties import encode_properties, mended_properties, properties_problem
from rmqcli.codec.records.encoding import encode_filler, encode_record, record_size
from rmqcli.codec.store.checkpoint import Checkpoint, encode_checkpoint
from rmqcli.codec.store.file_names import file_name
from rmqcli.codec.store.record_layout import FILLER_HEAD_SIZE
from rmqcli.store.read.commit_log import CommitLogFiles
from rmqcli.store.read.files import mapped
from rmqcli.store.repair.new_folder import new_folder, require_empty
from rmqcli.store.repair.rebuild import Rebuilt, build, shape_of
from rmqcli.store.repair.salvage_order import drop_misplaced
from rmqcli.store.repair.salvage_queues import Gone, gone_offsets, lost_tail
from rmqcli.store.repair.salvage_scan import (
    SMALLEST,
    FileScan,
    LogScan,
    LostStretch,
    scan_log,
)
from rmqcli.store.repair.salvage_tables import copy_config, copy_others, salvage_tables

LOST = "LOST"
"""The property of a message that replaces a lost one, and the topic of records that only fill space."""
_UNFILLED = SystemTopic.SCHEDULE, SystemTopic.TRANS_HALF, SYSTEM_TOPIC_PREFIX
_FILLING = 1 << 20
_COPIED = 1 << 22
_HOST = bytes(8)
_LOST_PROPERTY = encode_properties({LOST: "true"})


class Plan(NamedTuple):
    """The kept records, the lost queue offsets, and in `placed` those that each lost range, keyed by its
    start, is filled with.
    """

    scan: LogScan
    gone: list[Gone]
    placed: dict[int, list[Gone]]


class Salvaged(NamedTuple):
    """The result of a salvage.

    `lost` includes the end of the log if only its consume queues show it. `gone` are runs of lost queue
    offsets: topic, queue id, first, last. `placed` counts the messages that replace lost ones; there are none
    at the end of the log, where consumers never reach the gap. `mended` are the commit-log offsets of kept
    records that lost properties. `notes` list other repairs and losses.
    """

    records: int
    lost: list[LostStretch]
    gone: list[tuple[str, int, int, int]]
    placed: int
    mended: list[int]
    rebuilt: Rebuilt
    notes: list[str]


def plan(store: Path, progress: Callable[[int], None] = lambda size: None) -> Plan:
    """Read a store folder and plan the new one. Raises FileNotFoundError without a commit log."""
    scan = scan_log(CommitLogFiles(store), progress)
    gone = gone_offsets(scan, store, drop_misplaced(scan, store))
    return Plan(scan, gone, _place(scan, gone))


def _place(scan: LogScan, gone: list[Gone]) -> dict[int, list[Gone]]:
    """Assign every lost offset to the first lost range between its neighbours that has space for it."""
    lost = scan.lost
    begins = [stretch.begin for stretch in lost]
    room = [stretch.end - stretch.begin - (FILLER_HEAD_SIZE if stretch.at_end else 0) for stretch in lost]
    placed: dict[int, list[Gone]] = {}
    for one in gone:
        if one.topic.startswith(_UNFILLED):
            continue
        need = _smallest(one.topic)
        first = max(bisect_right(begins, one.after) - 1, 0)
        for number in range(first, bisect_right(begins, one.before)):
            if lost[number].end > one.after and room[number] >= need:
                room[number] -= need
                placed.setdefault(lost[number].begin, []).append(one)
                break
    return placed


def _smallest(topic: str) -> int:
    return record_size(0, len(topic.encode()), 0, 0, 1 if len(topic.encode()) < 128 else 2)


def salvage(store: Path, out: Path, progress: Callable[[int], None] = lambda size: None) -> Salvaged:
    """Write the store folder `out`. Raises FileExistsError unless it is missing or empty.

    `progress` receives the bytes of the log twice: once for reading, once for queues and index.
    """
    require_empty(out)
    planned = plan(store, progress)
    with new_folder(out) as work:
        return _write_store(store, work, planned, progress)


def _write_store(store: Path, out: Path, planned: Plan, progress: Callable[[int], None]) -> Salvaged:
    scan = planned.scan
    copy_config(store, out)
    (out / "commitlog").mkdir()
    stamp = 1  # brokers take a store time of 0 for a file without records
    mended: list[int] = []
    for file in scan.files:
        stamp = _write_file(file, out / "commitlog", scan.file_size, planned, stamp, mended)
    rebuilt = Rebuilt(0, 0, 0, 0, 0, 0, 0)
    notes = [
        f"commitlog/{one.path.name} holds the records of {file_name(one.base or 0)}"
        for one in (file.file for file in scan.files if file.file.size)
        if one.path.name != file_name(one.base or 0)
    ]
    if scan.files:
        shape = shape_of(store)
        # Offsets may go back where a topic was deleted and created again.
        rebuilt = build(CommitLogFiles(out), out, shape, progress, may_go_back=True)
        notes += [f"no file tells {name}: RocketMQ's default is taken" for name in shape.unknown]
    notes += [*salvage_tables(store, out), *copy_others(store, out)]
    checkpoint = Checkpoint(stamp, stamp, rebuilt.index_completed)
    (out / "checkpoint").write_bytes(encode_checkpoint(checkpoint))
    records = sum(file.records for file in scan.files)
    placed = sum(map(len, planned.placed.values()))
    tail = lost_tail(scan, planned.gone)
    return Salvaged(
        records, scan.lost + ([tail] if tail else []), _runs(planned.gone), placed, mended, rebuilt, notes
    )


def _write_file(file: FileScan, folder: Path, size: int, planned: Plan, stamp: int, mended: list[int]) -> int:
    """Write one new file. `stamp` is the last store time before the file; returns the last one in it."""
    handle = os.open(folder / file_name(file.base), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        # Bytes that are not written stay zeros: the unused rest of a file.
        os.ftruncate(handle, size)
        runs: list[tuple[int, int, LostStretch | None]] = [(begin, end, None) for begin, end in file.kept]
        runs += [(stretch.begin, stretch.end, stretch) for stretch in file.lost]
        last = file is planned.scan.files[-1]
        for begin, end, stretch in sorted(runs, key=lambda run: run[0]):
            if stretch is None:
                stamp = _copy(file, handle, begin, end, mended)
            else:
                filling = _filling(stretch, planned.placed.get(begin, []), stamp, last and stretch.at_end)
                position = begin - file.base
                for piece in filling:
                    os.pwrite(handle, piece, position)
                    position += len(piece)
        os.fsync(handle)
    finally:
        os.close(handle)
    return stamp


def _copy(file: FileScan, handle: int, begin: int, end: int, mended: list[int]) -> int:
    with mapped(file.file) as data:
        for at in range(begin - file.base, end - file.base, _COPIED):
            os.pwrite(handle, data[at : min(at + _COPIED, end - file.base)], at)
        walk, reader = Walk(data, file.base, begin - file.base, end - file.base), Dispatch(derives=False)
        while not reader.add_all(walk):
            record = walk.scan()
            if properties_problem(record.properties):
                place = walk.position + record.total_size - len(record.properties)
                os.pwrite(handle, mended_properties(record.properties), place)
                mended.append(record.physical_offset)
        return walk.record.store_timestamp if walk.count else 1


def _filling(stretch: LostStretch, gone: list[Gone], stamp: int, is_tail: bool) -> Iterator[bytes]:
    """Yield the bytes that fill a lost range. At the tail of the log nothing has to follow the messages."""
    position = stretch.begin
    for number, one in enumerate(gone):
        needed = sum(_smallest(later.topic) for later in gone[number + 1 :])
        spare = stretch.end - position - needed - _smallest(one.topic)
        spare -= FILLER_HEAD_SIZE if stretch.at_end else 0
        # If the space after the last message is too small for a record, it becomes the body of that message.
        body = spare if number == len(gone) - 1 and spare < SMALLEST and not stretch.at_end else 0
        left = spare - len(_LOST_PROPERTY)
        # LOST is added only if the rest is then empty or large enough for a record.
        named = not body and (left >= (0 if stretch.at_end else SMALLEST) or left == 0)
        properties = _LOST_PROPERTY if named else b""
        queue = one.queue_id, one.queue_offset
        record = _record(one.topic.encode(), position, stamp, bytes(body), properties, queue)
        yield record
        position += len(record)
    if stretch.at_end:
        if not is_tail:
            yield encode_filler(stretch.end - position)
        return
    while position < stretch.end:
        rest = stretch.end - position
        record = _filler(rest if rest < _FILLING + SMALLEST else _FILLING, position, stamp)
        yield record
        position += len(record)


def _filler(size: int, position: int, stamp: int) -> bytes:
    topic = LOST.encode()[: size - record_size(0, 0, 0)]
    body = bytes(size - record_size(0, len(topic), 0))
    return _record(topic, position, stamp, body, sys_flag=MessageSysFlag.TRANSACTION_ROLLBACK)


def _record(
    topic: bytes,
    position: int,
    stamp: int,
    body: bytes,
    properties: bytes = b"",
    queue: tuple[int, int] = (0, 0),
    sys_flag: int = 0,
) -> bytes:
    return encode_record(
        topic=topic,
        queue_id=queue[0],
        flag=0,
        queue_offset=queue[1],
        physical_offset=position,
        sys_flag=sys_flag,
        born_timestamp=stamp,
        born_host=_HOST,
        store_timestamp=stamp,
        store_host=_HOST,
        reconsume_times=0,
        prepared_transaction_offset=0,
        body=body,
        properties=properties,
        version=1 if len(topic) < 128 else 2,
    )


def _runs(gone: list[Gone]) -> list[tuple[str, int, int, int]]:
    """Join consecutive queue offsets into runs; `gone` is sorted."""
    runs: list[tuple[str, int, int, int]] = []
    for one in gone:
        if runs and runs[-1][:2] == (one.topic, one.queue_id) and runs[-1][3] + 1 == one.queue_offset:
            runs[-1] = (*runs[-1][:3], one.queue_offset)
        else:
            runs.append((one.topic, one.queue_id, one.queue_offset, one.queue_offset))
    return runs
