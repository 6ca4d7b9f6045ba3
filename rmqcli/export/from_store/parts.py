"""A store cut into parts that can be scanned independently: byte ranges of commit-log files.

A part covers every record that starts inside its range. Its scan searches from its start for the first whole
record with the correct CRC and commit-log offset, and continues from there, so a driver can cut the store
without reading it.

A part also checks what follows its last record: a sound record, where the next part begins, or the end of the
records of the file. So every byte of a file is checked once, damage is never skipped, and no record is read
twice or missed, wherever the cuts are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.records.reading import scan_record, store_timestamp_at
from rmqcli.codec.scan.arrow import scan_batches
from rmqcli.codec.store.index_file import HEADER, decode_header
from rmqcli.codec.store.record_layout import FILLER_HEAD_SIZE, MAGIC_FILLER
from rmqcli.counts import many
from rmqcli.export.errors import ExportError
from rmqcli.export.from_store.queue_check import SeenFile, UnsoundQueue, sound_runs
from rmqcli.export.from_store.row_filter import RowFilter
from rmqcli.render.output import warn
from rmqcli.store.read.commit_log import (
    CommitLogFiles,
    LogViews,
    commit_log_folder,
    next_record,
    require_zeros,
)
from rmqcli.store.read.files import NamedFile, data_extents, mapped, naming_damage, offset_files, peeked
from rmqcli.store.read.index import index_files

# The part of a commit log that can hold the records of a range of store times, found by reading few records.
#
# Store times rise along a log unless the broker's clock was set back. If it was never set back by more than a
# margin (`RowFilter.set_back_ms`), records before one that was stored that long before the range are also
# before the range, and likewise after its end. A few hundred records across the log are sampled, at a
# distance of at least `RowFilter.sample_bytes`, which take as long to read as one. If the times go back
# further, the whole log is read; if they recover before the next sample, this is not noticed.

_SAMPLES = 256
_LOOK = 1 << 16


class _Stamp(NamedTuple):
    offset: int
    time: int


def log_range(files: Sequence[NamedFile], rows: RowFilter) -> tuple[int, int | None]:
    """Return commit-log offsets [begin, end) that include all records in the times of `rows`.

    An `end` of None is the end of the log. Both are starts of records.
    """
    timed = rows.begin_time is not None or rows.end_time is not None
    if not timed or any(file.base is None for file in files):
        return 0, None
    with _Log(files) as log:
        stamps = list(log.samples(rows.sample_bytes))
        fallen = _fall(stamps, rows.set_back_ms)
        if fallen is not None:
            warn(f"the broker's clock was set back before commit-log offset {fallen}; the whole log is read")
            return 0, None
        begin, end = 0, None
        if rows.begin_time is not None:
            # Store times may go back by up to this margin where the clock was set back.
            begin, _ = log.cross(stamps, rows.begin_time - rows.set_back_ms, rows.sample_bytes)
        if rows.end_time is not None:
            _, end = log.cross(stamps, rows.end_time + rows.set_back_ms, rows.sample_bytes)
        return begin, end


def _fall(stamps: Sequence[_Stamp], margin: int) -> int | None:
    """Return the first record stored more than the margin (ms) before an earlier one."""
    newest = 0
    for stamp in stamps:
        newest = max(newest, stamp.time)
        if newest - stamp.time > margin:
            return stamp.offset
    return None


class _Log(LogViews):
    """Records near given positions."""

    def samples(self, least_step: int) -> Iterator[_Stamp]:
        """Yield the first record of each file, and records at equal distances."""
        step = max(sum(file.size for file in self.files) // _SAMPLES, least_step)
        for number, file in enumerate(self.files):
            for start in range(0, file.size, step):
                stamp = self._first(number, start, min(start + step, file.size))
                if stamp is not None:
                    yield stamp

    def cross(self, stamps: Sequence[_Stamp], time: int, least_step: int) -> tuple[int, int | None]:
        """Return neighbouring records around a time: one stored before it (or 0), and one not (or None)."""
        number = next((n for n, stamp in enumerate(stamps) if stamp.time >= time), len(stamps))
        low = stamps[number - 1].offset if number else 0
        if number == len(stamps):
            return low, None
        high = stamps[number].offset
        while number and high - low > least_step:
            stamp = self._between(low, high)
            if stamp is None:
                break
            low, high = (stamp.offset, high) if stamp.time < time else (low, stamp.offset)
        return low, high

    def _between(self, low: int, high: int) -> _Stamp | None:
        """Return a record after the middle of two records, otherwise one before it."""
        middle = (low + high) // 2
        for begin, end in ((middle, high), (low + 1, middle)):
            for number, file in enumerate(self.files):
                base = file.base or 0
                stamp = self._first(number, max(begin - base, 0), min(end - base, file.size))
                if stamp is not None:
                    return stamp
        return None

    def _first(self, number: int, start: int, stop: int) -> _Stamp | None:
        look = _LOOK
        while start < stop:
            file, data = self.files[number], self.view(number)
            found = next_record(file, data, start, min(start + look, stop))
            if found is not None:
                return _Stamp((file.base or 0) + found, store_timestamp_at(data, found))
            start, look = start + look, look * 4
        return None


class Part(NamedTuple):
    """Records of `path` that start in [begin, end); `base` is the commit-log offset of the first byte."""

    path: str
    base: int | None
    size: int
    begin: int
    end: int


def parts_of(store: Path, rows: RowFilter, part_size: int | None = None) -> list[Part]:
    """Return the commit log of a store in ranges of about `part_size` bytes, by default whole files.

    `store` is a store folder, or a commit-log folder or file. Leaves out ranges without records of `rows`, by
    offset or time, and holes of preallocated files. Raises FileNotFoundError without a commit log.
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
    """Cut parts into pieces of about `size` bytes, without those that are holes of preallocated files."""
    found: list[Part] = []
    for part in parts:
        # Without a base, the offsets of records are unknown until the first one is read.
        count = 1 if part.base is None else max(1, -(-(part.end - part.begin) // size))
        cuts = [part.begin + (part.end - part.begin) * n // count for n in range(count + 1)]
        file = NamedFile(Path(part.path), part.base, part.size)
        finer = (part._replace(begin=begin, end=end) for begin, end in pairwise(cuts))
        found += [one for one in finer if one.begin == 0 or any(data_extents(file, one.begin, one.end))]
    return found


def scan_part(part: Part, rows: RowFilter, *, encoded: bool = False, known: bool = False) -> Iterator[Any]:
    """Yield record batches of the records of a part.

    Raises CorruptionError, naming file and byte, at damage. Without `check_crc`, damage is left out with a
    warning, up to the next whole record. With `known`, the first record starts where the part does, or there
    is none.
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
    """Return the position of the first wanted record if known, otherwise 0."""
    start = rows.begin_commit_log - (file.base or 0)
    known = 0 < start < len(data) and next_record(file, data, start, start + 1) == start
    return start if known else 0


def _scan(
    file: NamedFile, data: memoryview, span: tuple[int, int], rows: RowFilter, encoded: bool
) -> Iterator[Any]:
    position, end = span
    left_out = _LeftOut(file)
    while True:
        try:
            for batch in scan_batches(
                data,
                position,
                end,
                base=file.base,
                broker_name=rows.broker_name,
                check_crc=rows.check_crc,
                encoded=encoded,
            ):
                offset, size = (batch[name][-1].as_py() for name in ("commit_log_offset", "store_size"))
                if file.base is None:
                    file = file._replace(base=batch["commit_log_offset"][0].as_py() - position)
                position = offset + size - (file.base or 0)
                taken = rows.messages(batch)
                if taken.num_rows:
                    yield taken
            _check_rest(file, data, position, end)
            break
        except CorruptionError as error:
            if rows.check_crc:
                raise
            stop = position if error.position is None else error.position
        following = next_record(file, data, stop + 1, end)
        left_out.add(stop, end if following is None else following)
        if following is None:
            break
        position = following
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
    # The next part searches from `end` on: if it finds bytes of a body first, it would begin there.
    if found != position:
        raise ExportError(
            f"{file.path}: byte {found}: a body looks like a record; export with --jobs 1, without --spark"
        )


# The end of the commit log up to which the consume queues of a store are known to be complete.
#
# A broker dispatches records in the order of the commit log, each to its queue and then to the index (Java
# `DefaultMessageStore.dispatcherList`). So every record before the newest entry of any queue has its entry,
# and so has every record before the last one that the index knows. For some topics, their own queues and the
# index are sufficient: a store can have tens of thousands of other queues.


def newest_entry(lasts: Sequence[SeenFile], store: Path) -> int:
    """Return the commit-log offset of the newest entry in the last files of queues, or 0 without any.

    Raises UnsoundQueue if one points past the end of the log, has a hole or does not ascend.
    """
    for _ in sound_runs(one.file for one in lasts if not one.is_sound):
        pass
    file = offset_files(commit_log_folder(store))[-1]
    for one, *_ in lasts:
        if one.last >= (file.base or 0) + file.size:
            raise UnsoundQueue(
                f"consume queue {one.queue_id} of {one.topic}: points past the end of the commit log"
            )
    return max((one.file.last for one in lasts), default=0)


def last_indexed(store: Path) -> int:
    """Return the commit-log offset of the last record known to the index; 0 if unknown."""
    end = next((end for end in _ends(store) if end), 0)
    return end if _is_record(CommitLogFiles(store), end) else 0


def _ends(store: Path) -> Iterator[int]:
    """Yield the last commit-log offset of each index file, the newest first; 0 for a file without items."""
    try:
        files = index_files(store / "index")
    except (FileNotFoundError, NotADirectoryError):
        return
    for file in reversed(files):
        with peeked(file) as data:
            if len(data) >= HEADER.size:
                header = decode_header(data[: HEADER.size])
                yield header.end_phy_offset if header.index_count > 1 else 0


def _is_record(log: CommitLogFiles, offset: int) -> bool:
    """Return True if a whole record with the correct CRC is at the offset."""
    with LogViews(log.files) as views:
        try:
            place = views.place(offset)
            return place is not None and scan_record(*place, check_crc=True).physical_offset == offset
        except CorruptionError:
            return False
