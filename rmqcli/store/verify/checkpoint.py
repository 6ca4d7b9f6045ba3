"""The check of a checkpoint file: each number against the log and the index, and the part that rmq adds.

The first two times are store times of records, the third is the end time of a full index file; 0 means
unknown. Some wrong numbers cannot be distinguished from correct ones: a time of another record, a time older
than a log whose first files have expired, and a 5.x offset that is within the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.records.filter import RecordFilter
from rmqcli.codec.records.reading import peek_record, store_timestamp_at
from rmqcli.codec.store.checkpoint import (
    CHECKPOINT,
    FILE_SIZE,
    SAFE_POINT,
    SAFE_POINT_AT,
    Checkpoint,
    SafePoint,
    decode_checkpoint,
    decode_safe_point,
)
from rmqcli.codec.store.index_file import IndexHeader
from rmqcli.codec.store.record_layout import MAGIC_V1, MAGIC_V2
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.store.read.commit_log import CommitLogFiles
from rmqcli.store.read.files import DamagedFile, NamedFile, mapped
from rmqcli.store.read.log_records import log_records
from rmqcli.store.verify.findings import Finding, Rule

Fact = tuple[Rule, Finding]
_RESTS = {
    "after its numbers": (CHECKPOINT.size, SAFE_POINT_AT),
    "after the safe point": (SAFE_POINT_AT + SAFE_POINT.size, FILE_SIZE),
}
"""The parts of the file in which nothing is written."""


def check_checkpoint(
    path: Path, data: bytes, log: CommitLogFiles, index: Sequence[IndexHeader], *, live: bool
) -> Iterator[Fact]:
    """Yield the faults of `data`, the bytes of a checkpoint file.

    With `live`, its numbers change and are not checked.
    """
    try:
        numbers = decode_checkpoint(data)
    except CorruptionError:
        yield Rule.CHECKPOINT, Finding(path, 0, "it cannot be read")
        return
    if len(data) != FILE_SIZE:
        yield Rule.CHECKPOINT, Finding(path, len(data), f"{len(data):,} bytes long, not {FILE_SIZE:,}")
    safe_point = None
    try:
        safe_point = decode_safe_point(data)
    except CorruptionError as error:
        yield Rule.SAFE_POINT, Finding(path, SAFE_POINT_AT, str(error))
    for place, (begin, end) in _RESTS.items():
        if any(data[begin:end]):
            position = next(at for at in range(begin, end) if data[at])
            yield (
                Rule.CHECKPOINT_REST,
                Finding(path, position, f"the checkpoint has bytes {place}, where none belong"),
            )
    if not live:
        yield from _numbers(path, numbers, safe_point, log, index)


def _numbers(
    path: Path,
    numbers: Checkpoint,
    safe_point: SafePoint | None,
    log: CommitLogFiles,
    index: Sequence[IndexHeader],
) -> Iterator[Fact]:
    is_ours = safe_point is not None and safe_point.times == numbers[:3]
    if safe_point is not None and not is_ours:
        text = (
            "the times of the checkpoint are not those of its safe point: Java wrote it later, or it is "
            "damaged"
        )
        yield Rule.CHECKPOINT_TIMES, Finding(path, 0, text)
    log_end = (log.files[-1].base or 0) + log.files[-1].size if log.files else 0
    for name, value in numbers._asdict().items():
        position, is_time = CHECKPOINT.offsets[name], name.endswith("timestamp")
        if is_time and not is_ours and value and not _is_known(name, value, log, index):
            text = f"{_java(name)} {value} of the checkpoint is the time of no {_owner(name)}"
            yield Rule.CHECKPOINT_TIMES, Finding(path, position, text)
        elif not is_time and (value != 0 if is_ours else not 0 <= value <= log_end):
            text = f"{_java(name)} {value} of the checkpoint is not in the log, which ends before {log_end}"
            yield Rule.CHECKPOINT_OFFSETS, Finding(path, position, text)


def _java(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _owner(name: str) -> str:
    return "index file" if name == "index_msg_timestamp" else "record"


def _is_known(name: str, time: int, log: CommitLogFiles, index: Sequence[IndexHeader]) -> bool:
    """Return False if no record or index file has this time, and none that has expired can have had it."""
    has_expired = bool(log.files and log.files[0].base)
    if name == "index_msg_timestamp":
        times = {one.end_timestamp for one in index}
        return not index or time in times or (has_expired and 0 < time < min(times))
    number = log.first_file_at(time)
    wanted = OffsetRange(begin_time=time, end_time=time + 1)
    try:
        if _first(log.files[number : number + 2], wanted) is not None:
            return True
        oldest = _first(log.files[:1], OffsetRange())
    except DamagedFile:  # the record may be the one that cannot be read
        return True
    return has_expired and oldest is not None and 0 < time < oldest


def _first(files: list[NamedFile], wanted: OffsetRange) -> int | None:
    """Return the store time of the first record of a range; None if there is none. Raises DamagedFile."""
    found = log_records(CommitLogFiles(Path(), files), wanted, RecordFilter())
    return next((message.store_timestamp for _, message in found), None)


def dispatched_again_from(log: CommitLogFiles, checkpoint: Checkpoint) -> int:
    """Return the commit-log offset from which a start after a kill dispatches records again.

    This is the start of the last file whose first record was stored, with a margin, before log and queues
    were flushed, otherwise the start of the first file (Java `CommitLog.recoverAbnormally`).
    """
    for file in reversed(log.files):
        with mapped(file) as data:
            if 0 < _first_stored(data) <= checkpoint.min_timestamp:
                return file.base or 0
    return log.files[0].base or 0


def _first_stored(data: memoryview) -> int:
    """Return the store time (ms) of the first record; 0 if there is none."""
    try:
        return store_timestamp_at(data) if peek_record(data, 0).magic in (MAGIC_V1, MAGIC_V2) else 0
    except CorruptionError:
        return 0
