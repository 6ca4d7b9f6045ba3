"""A store cut into parts that can be scanned independently: byte ranges of commit log files.

A part covers every record that starts inside its range. It searches from its start for the first whole record
with the right CRC and commit-log offset, and walks on from there, so a driver need not read the store to cut
it.

A part also checks what follows its last record: a sound record, where the next part begins, or the end of the
file's records. So every byte of a file is checked once, damage is never skipped, and no record is read twice
or missed wherever the cuts are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from codec.errors import CorruptionError
from codec.scan.arrow import scan_batches
from codec.store.record import decode_record, scan_record
from codec.store.record_layout import FILLER_HEAD_SIZE, MAGIC_FILLER
from rmqcli.export.errors import ExportError
from rmqcli.export.from_store.row_filter import RowFilter
from rmqcli.export.from_store.times import log_range
from rmqcli.render.output import warn
from rmqcli.store.read.commit_log import CommitLogFiles, next_record, require_zeros
from rmqcli.store.read.files import NamedFile, data_extents, mapped, naming_damage
from rmqcli.words import many


class Part(NamedTuple):
    """Records of `path` that start in [begin, end); `base` is the commit-log offset of the first byte."""

    path: str
    base: int | None
    size: int
    begin: int
    end: int


def parts_of(store: Path, rows: RowFilter, part_size: int | None = None) -> list[Part]:
    """Return the commit log of a store folder (or a commit log folder or file) in ranges of about
    `part_size` bytes, by default files.

    Leaves out ranges that hold nothing of `rows`, by place or time, and holes of preallocated files. Raises
    FileNotFoundError without a commit log.
    """
    files = CommitLogFiles(store).files
    if rows.is_empty:
        return []
    low, high = log_range(files, rows)
    found: list[Part] = []
    for file in files:
        part = Part(str(file.path), file.base, file.size, 0, file.size)
        if file.base is not None:
            end = file.size if high is None else min(high - file.base, file.size)
            begin = max(low - file.base, 0)
            if file.base + file.size <= rows.begin_commit_log or (begin >= end and file.size):
                continue
            part = part._replace(begin=begin, end=end)
        found.append(part)
    return found if part_size is None else cut_parts(found, part_size)


def cut_parts(parts: Sequence[Part], size: int) -> list[Part]:
    """Cut parts of about `size` bytes, without those that are holes of preallocated files."""
    found: list[Part] = []
    for part in parts:
        # Without a base the places of records are unknown before the first is read.
        count = 1 if part.base is None else max(1, -(-(part.end - part.begin) // size))
        cuts = [part.begin + (part.end - part.begin) * n // count for n in range(count + 1)]
        file = NamedFile(Path(part.path), part.base, part.size)
        finer = (part._replace(begin=begin, end=end) for begin, end in pairwise(cuts))
        found += [one for one in finer if one.begin == 0 or any(data_extents(file, one.begin, one.end))]
    return found


def scan_part(part: Part, rows: RowFilter, *, encoded: bool = False, known: bool = False) -> Iterator[Any]:
    """Yield record batches of the part's records. Raises CorruptionError, naming file and byte, at damage;
    without `check_crc` it is left out, with a warning, up to the next whole record.

    With `known` the first record starts where the part does, or there is none.
    """
    file = NamedFile(Path(part.path), part.base, part.size)
    with naming_damage(file), mapped(file) as data:
        begin: int | None = part.begin
        if begin == 0:
            begin = _known_start(file, data, rows)
        elif not known:
            begin = next_record(file, data, part.begin, part.end)
        if begin is not None:
            yield from _scan(file, data, (begin, part.end), rows, encoded)


def _known_start(file: NamedFile, data: memoryview, rows: RowFilter) -> int:
    """Return where the first wanted record starts, if known, else 0."""
    start = rows.begin_commit_log - (file.base or 0)
    known = 0 < start < len(data) and next_record(file, data, start, start + 1) == start
    return start if known else 0


def _scan(
    file: NamedFile, data: memoryview, span: tuple[int, int], rows: RowFilter, encoded: bool
) -> Iterator[Any]:
    position, end = span
    stop, left_out = end, _LeftOut(file)
    while True:
        try:
            for batch in scan_batches(
                data, position, stop, broker_name=rows.broker_name, check_crc=rows.check_crc, encoded=encoded
            ):
                if file.base is None:
                    file = file._replace(base=batch["commit_log_offset"][0].as_py() - position)
                position = _check_places(batch, position, file.base or 0)
                taken = rows.messages(batch)
                if taken.num_rows:
                    yield taken
            if stop == end:
                _check_rest(file, data, position, end)
                break
        except CorruptionError as error:
            placed = _placed(error, data, position)
            if rows.check_crc:
                raise placed from None
            # Once more: what stands before the damage in the same batch is sound.
            stop = max(position, min(placed.position or 0, stop))
            continue
        following = next_record(file, data, stop + 1, end)
        left_out.add(stop, end if following is None else following)
        if following is None:
            break
        position, stop = following, end
    left_out.tell()


class _LeftOut:
    """The damaged bytes of a file that `--no-verify` leaves out."""

    def __init__(self, file: NamedFile) -> None:
        self._file = file
        self._first: int | None = None
        self._places = self._bytes = 0

    def add(self, begin: int, end: int) -> None:
        self._first = begin if self._first is None else self._first
        self._places += 1
        self._bytes += min(end, self._file.size) - begin

    def tell(self) -> None:
        if self._first is not None:
            where = f" in {self._places} places" if self._places > 1 else ""
            warn(
                f"{self._file.path}: {many(self._bytes, 'damaged byte')}{where}, from byte {self._first} on, "
                "left out"
            )


def _check_places(batch: Any, position: int, base: int) -> int:
    """Check that records are where they say; return the byte after the last."""
    ends = position + np.cumsum(batch["store_size"].to_numpy(), dtype=np.int64)
    starts = np.concatenate(([position], ends[:-1]))
    said = batch["commit_log_offset"].to_numpy() - base
    wrong = np.flatnonzero(said != starts)
    if len(wrong):
        here, there = int(starts[wrong[0]]), int(said[wrong[0]])
        raise CorruptionError(f"a record with commit-log offset {base + there} is at {base + here}", here)
    return int(ends[-1])


def _check_rest(file: NamedFile, data: memoryview, position: int, end: int) -> None:
    """Check that the records end with the part, or continue with the one that the next part will find."""
    if not any(data[position : position + FILLER_HEAD_SIZE]) or len(data) - position < FILLER_HEAD_SIZE:
        require_zeros(file, data, position)
        return
    following = scan_record(data, position, check_crc=True)
    if following.magic == MAGIC_FILLER:
        return
    if following.physical_offset != (file.base or 0) + position:
        raise CorruptionError(f"a record with commit-log offset {following.physical_offset}", position)
    found = next_record(file, data, end, position + 1)
    if found != position:
        raise ExportError(
            f"{file.path}: byte {found}: a body looks like a record; export with --jobs 1, without --spark"
        )


def _placed(error: CorruptionError, data: memoryview, position: int) -> CorruptionError:
    """Add the place to a decompression error: the first such record from `position` on."""
    try:
        while error.position is None:
            position += decode_record(data, position, decompress=True).store_size
    except CorruptionError as found:
        return CorruptionError(str(found), position)
    return error
