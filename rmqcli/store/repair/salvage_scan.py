"""The scan of a damaged commit log, which finds the next whole record after every damaged range.

A record counts if its lengths add up, its CRC is correct, and it is at the offset that it contains. Positions
are commit-log offsets.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from rmqcli.codec.core.record_reader import RecordScan
from rmqcli.codec.core.walk import Walk
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.records.reading import peek_record, scan_record
from rmqcli.codec.store.file_names import file_name
from rmqcli.codec.store.record_layout import FILLER_HEAD_SIZE, MAGIC_FILLER, MIN_RECORD_SIZE
from rmqcli.store.read.commit_log import CommitLogFiles, next_record, require_zeros
from rmqcli.store.read.files import NamedFile, mapped

SMALLEST = MIN_RECORD_SIZE + 1
"""The bytes of the smallest record that has a topic. A shorter range could not be filled."""


_STRETCH_BYTES = 64 * 1024 * 1024


class LostStretch(NamedTuple):
    """The lost bytes [begin, end), and the reason; `at_end`: no record of the file follows."""

    begin: int
    end: int
    reason: str
    at_end: bool = False


@dataclass(slots=True)
class FileScan:
    """A file: kept runs [begin, end) of whole records (including the filler), and the lost ranges between."""

    file: NamedFile
    base: int
    records: int = 0
    kept: list[tuple[int, int]] = field(default_factory=list)
    lost: list[LostStretch] = field(default_factory=list)
    end: int = 0
    """The end of the records."""
    filler: bool = False

    def keep(self, begin: int, end: int) -> None:
        if self.kept and self.kept[-1][1] == begin:
            self.kept[-1] = self.kept[-1][0], end
        else:
            self.kept.append((begin, end))
        self.end = end


@dataclass(slots=True)
class LogScan:
    """All files up to the last that contains a record.

    In the new store each of them has `file_size` bytes.
    """

    files: list[FileScan]
    file_size: int

    @property
    def lost(self) -> list[LostStretch]:
        return sorted(stretch for file in self.files for stretch in file.lost)

    @property
    def begin(self) -> int:
        return self.files[0].base if self.files else 0

    @property
    def end(self) -> int:
        return self.files[-1].end if self.files else 0

    def file_of(self, offset: int) -> int | None:
        number = (offset - self.begin) // self.file_size
        return number if 0 <= number < len(self.files) else None

    def drop(self, offset: int, reason: str) -> None:
        """Turn the kept record at an offset into a lost range."""
        place = self.file_of(offset)
        assert place is not None
        file = self.files[place]
        with mapped(file.file) as data:
            size = peek_record(data, offset - file.base).total_size
        # The pair sorts after a run that begins at this offset, so the run is found.
        number = bisect_right(file.kept, (offset, 1 << 63)) - 1
        begin, end = file.kept[number]
        pieces = [(begin, offset), (offset + size, end)]
        file.kept[number : number + 1] = [piece for piece in pieces if piece[0] < piece[1]]
        file.lost.append(LostStretch(offset, offset + size, reason))
        file.records -= 1


def scan_log(log: CommitLogFiles, progress: Callable[[int], None] = lambda size: None) -> LogScan:
    """Read all files once. Raises CorruptionError if file names are not offsets, or contradict each other."""
    size = _file_size(log.files)
    for before, file in pairwise([log.files[0], *log.files]):
        if file.base is None or before.base is None or file.base % size != before.base % size:
            raise CorruptionError(f"{file.path}: the name is not the offset of its first byte")
    found: list[FileScan] = []
    for file, base in in_their_places(log.files, size):
        scan = FileScan(file._replace(base=base), base, end=base)
        with mapped(file) as data:
            _scan_file(scan, data, progress)
        found.append(scan)
    # Without a record after them, such files are of no use to the new store.
    while found and not found[-1].records:
        found.pop()
    return LogScan(_joined(found, size), size)


def in_their_places(files: list[NamedFile], size: int) -> list[tuple[NamedFile, int]]:
    """Return each file with the offset of its first byte, in order.

    If no record of a file matches the name of the file, for example because files were swapped, the first
    whole record decides. A file without records gets the offset in its name, or the first unused one.
    """
    names = [file.base or 0 for file in files]
    stated = {file: _stated_base(file) for file in files}
    taken = {file.base: file for file in files if stated[file] == file.base}
    reach = range(names[0] - len(names) * size, names[-1] + len(names) * size + 1, size)
    for file, base in stated.items():
        if base is not None and 0 <= base in reach:
            taken.setdefault(base, file)
    known = set(taken.values())
    rest = [file for file in files if file not in known]
    # Files whose own offset is unused come first, so that no other file takes it.
    for file in sorted(rest, key=lambda file: file.base in taken):
        free = file.base if file.base not in taken else next(name for name in names if name not in taken)
        taken[free] = file
    return sorted(((file, base) for base, file in taken.items() if base is not None), key=lambda one: one[1])


def _stated_base(file: NamedFile) -> int | None:
    """Return the offset of the first byte.

    The first whole record that fits the name of the file decides, otherwise the first whole record.
    """
    with mapped(file) as data:
        if next_record(file, data, 0) is not None:
            return file.base
        place = next_record(file._replace(base=None), data, 0)
        return None if place is None else scan_record(data, place).physical_offset - place


def _file_size(files: list[NamedFile]) -> int:
    """Return the size that all files of the log had: the most frequent one that fits their names."""
    counts = Counter(file.size for file in files)
    bases = [file.base for file in files if file.base is not None]
    steps = [base - before for before, base in pairwise(bases)]
    usual = sorted((size for size in counts if size), key=lambda size: (-counts[size], -size))
    fitting = (size for size in usual if all(step % size == 0 for step in steps))
    return next(fitting, min(steps, default=1))


def _scan_file(scan: FileScan, data: memoryview, progress: Callable[[int], None]) -> None:
    position, base = 0, scan.base
    while len(data) - position >= FILLER_HEAD_SIZE:
        stop = min(position + _STRETCH_BYTES, len(data))
        walk = Walk(data, base, position, stop, check_crc=True)
        # The walk stops at damage; `_whole_record` raises it again below, with its reason.
        with suppress(CorruptionError):
            walk.skip()
        if walk.count:
            scan.keep(base + position, base + walk.position)
            scan.records += walk.count
        progress(walk.position - position)
        position = walk.position
        if position >= stop:
            continue
        try:
            record = _whole_record(data, position, base)
        except CorruptionError as error:
            # Lost ranges are filled with records, of which the smallest must fit.
            following = next_record(scan.file, data, position + SMALLEST)
            if following is None:
                _end_of_file(scan, data, position, str(error))
                break
            scan.lost.append(LostStretch(base + position, base + following, str(error)))
            progress(following - position)
            position = following
            continue
        # This is a filler: the walk passes all other records.
        scan.keep(base + position, base + min(position + record.total_size, len(data)))
        progress(record.total_size)
        position += record.total_size
        scan.filler = True
        break
    progress(len(data) - position)


def _whole_record(data: memoryview, position: int, base: int) -> RecordScan:
    record = scan_record(data, position, check_crc=True)
    if record.magic == MAGIC_FILLER:
        if record.total_size < len(data) - position:
            raise CorruptionError("a filler record that does not end its file", position)
    elif record.physical_offset != base + position:
        raise CorruptionError(f"a record with commit-log offset {record.physical_offset}", position)
    return record


def _end_of_file(scan: FileScan, data: memoryview, position: int, reason: str) -> None:
    """End a file that has no further records: its rest is either unused or lost."""
    scan.end = scan.base + position
    try:
        require_zeros(scan.file, data, position)
    except CorruptionError:
        scan.lost.append(LostStretch(scan.end, scan.base + len(data), reason, True))


def _joined(files: list[FileScan], size: int) -> list[FileScan]:
    """Add the missing parts between the files, as lost ranges: ends of files, and whole files."""
    joined: list[FileScan] = []
    for number, scan in enumerate(files):
        while joined and joined[-1].base + size < scan.base:
            base = joined[-1].base + size
            missing = FileScan(NamedFile(scan.file.path.with_name(file_name(base)), base, 0), base, end=base)
            missing.lost.append(LostStretch(base, base + size, "the file is missing", True))
            joined.append(missing)
        last = number == len(files) - 1
        file_end = scan.base + size
        if not last and not scan.filler and scan.end < file_end:
            reason = (
                scan.lost[-1].reason
                if scan.lost and scan.lost[-1].at_end
                else "the end of the file is missing"
            )
            scan.lost = [stretch for stretch in scan.lost if not stretch.at_end]
            scan.lost.append(LostStretch(scan.end, file_end, reason, True))
        joined.append(scan)
    return joined


def records_between(data: memoryview, base: int, begin: int, end: int) -> Iterator[RecordScan]:
    position = begin - base
    while position < end - base:
        record = scan_record(data, position)
        if record.magic != MAGIC_FILLER:
            yield record
        position += record.total_size
