"""Commit-log files: records in order, bytes by commit-log offset, and the search for the next whole record.

A walk follows the record sizes. Within a file it ends at the filler record, at zeros (the unused part of a
preallocated file), or at damage; a file of zeros is empty. The log of a running broker ends where it ended at
one moment: data appended later is neither damage after the end nor a record cut in two.
"""

from __future__ import annotations

import errno
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from rmqcli.codec.compression import COMPRESSED, decompress
from rmqcli.codec.core.record_reader import RecordReader, RecordScan
from rmqcli.codec.core.record_tests import RecordTest
from rmqcli.codec.core.walk import UNWRITTEN, Walk
from rmqcli.codec.errors import BodyError, CorruptionError
from rmqcli.codec.inner_batch import unwrapped
from rmqcli.codec.message import MessageExt
from rmqcli.codec.records.reading import decode_record, peek_record, scan_record, store_timestamp_at
from rmqcli.codec.store.record_layout import FILLER_HEAD_SIZE, MAGIC_FILLER, MAGIC_V1, MAGIC_V2
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.store.read.consume_queue import QueueEntry
from rmqcli.store.read.files import (
    DamagedFile,
    NamedFile,
    data_extents,
    mapped,
    mapping,
    naming_damage,
    offset_files,
)
from rmqcli.store.read.lock import is_locked

_MAGICS = (MAGIC_V1.to_bytes(4, "big"), MAGIC_V2.to_bytes(4, "big"))


class Place(NamedTuple):
    """The location of a record: byte `position` of `file`, `size` bytes long, commit-log offset `offset`."""

    file: NamedFile
    position: int
    size: int
    offset: int

    def bytes(self) -> bytes:
        with self.file.path.open("rb") as handle:
            handle.seek(self.position)
            return handle.read(self.size)


def commit_log_folder(path: Path) -> Path:
    """Return `path`, or its `commitlog` folder if it is a store folder."""
    inner = path / "commitlog"
    return inner if inner.is_dir() else path


def _is_written_to(path: Path) -> bool:
    """Return True if a broker holds the lock of the store. Returns False if the lock may not be read."""
    folder = path if path.is_dir() else path.parent
    try:
        return is_locked(folder.resolve().parent)
    except PermissionError:
        return False


class CommitLogFiles:
    """The files of a commit log, opened one at a time; while a broker runs, with their written sizes."""

    def __init__(self, path: Path, files: list[NamedFile] | None = None) -> None:
        """Raise FileNotFoundError if there is no such file, or none in the folder."""
        if files is not None:
            self.files = files
            return
        folder = commit_log_folder(path)
        try:
            self.files = offset_files(folder)
        except FileNotFoundError:
            if not any((path / name).exists() for name in ("lock", "abort", "consumequeue", "config")):
                raise
            text = "this store has no commit log: no message was ever stored, or it is gone"
            raise FileNotFoundError(errno.ENOENT, text, str(path)) from None
        if _is_written_to(folder):
            self.files = as_written(self.files)

    def records(self, *, from_offset: int = 0) -> Iterator[tuple[Place, memoryview]]:
        """Yield every record with the bytes of its file, which are valid until the iterator is advanced.

        A file is walked from its first byte, the only one known to start a record. Raises CorruptionError,
        with file and byte in its text, at damage.
        """
        for file in self.files:
            if file.base is not None and file.base + file.size <= from_offset:
                continue
            with naming_damage(file), mapped(file) as data:
                for place, _ in walk_file(file, data):
                    if place.offset >= from_offset:
                        yield place, data

    def last(self, count: int, topics: Container[str] | None = None) -> int:
        """Return the commit-log offset of the `count`-th record from the end, or of the first record.

        With `topics`, only their records count. Returns 0 without records. Reads the last file first, and
        only as many files as needed.
        """
        found = 0
        for file in reversed(self.files):
            offsets: deque[int] = deque(maxlen=count)
            with naming_damage(file), mapped(file) as data:
                offsets.extend(
                    place.offset
                    for place, record in walk_file(file, data)
                    if topics is None or str(record.topic, "utf-8", "replace") in topics
                )
            found = offsets[0] if offsets else found
            count -= len(offsets)
            if count == 0:
                break
        return found

    def files_in(self, wanted: OffsetRange) -> list[NamedFile]:
        """Return the files that may contain records of a range of commit-log offsets and store times."""
        begin, end = wanted.begin or 0, wanted.end
        first = 0 if wanted.begin_time is None else self.first_file_at(wanted.begin_time)
        return [
            file
            for file in self.files[first:]
            if file.base is None or (file.base + file.size > begin and (end is None or file.base < end))
        ]

    def first_file_at(self, time_ms: int) -> int:
        """Return the index of the file that may contain the first record stored at or after a time (ms)."""
        found = 0
        for index, file in enumerate(self.files):
            with mapped(file) as data:
                # A file without a first record, such as one that is preallocated, has no time.
                if len(data) < FILLER_HEAD_SIZE or int.from_bytes(data[:4], "big") == 0:
                    break
                if store_timestamp_at(data) >= time_ms:
                    break
            found = index
        return found


MOST_MAPPED = 64
"""The maximum number of files that stay mapped.

Each takes a file descriptor; the usual limit of a process is 1,024, and a log of 1 TB has as many files.
"""


class LogViews:
    """The bytes of commit-log files by commit-log offset.

    A context manager that keeps the most recently used files mapped. A view stays valid as long as it is
    referenced.
    """

    def __init__(self, files: Sequence[NamedFile]) -> None:
        self.list_again(files)

    def list_again(self, files: Sequence[NamedFile]) -> None:
        """Replace the files."""
        self.files = files
        self.bases = [file.base or 0 for file in files]
        self._views: dict[int, memoryview] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Nothing is unmapped here: a mapping ends with the last view of it.
        self._views.clear()

    def view(self, number: int) -> memoryview:
        view = self._views.pop(number, None)
        if view is None:
            view = memoryview(mapping(self.files[number]))
            if len(self._views) >= MOST_MAPPED:
                del self._views[next(iter(self._views))]
        self._views[number] = view  # last in the dict: most recently used
        return view

    def place(self, offset: int) -> tuple[memoryview, int] | None:
        """Return the file view and the position of an offset; None before all files.

        Raises CorruptionError if no file contains the offset.
        """
        number = bisect_right(self.bases, offset) - 1
        if number < 0:
            return None
        position = offset - self.bases[number]
        if position >= self.files[number].size:
            raise CorruptionError(f"no commit log file holds offset {offset}")
        return self.view(number), position


def walk_file(file: NamedFile, data: memoryview, start: int = 0) -> Iterator[tuple[Place, RecordScan]]:
    """Yield the sound records from byte `start` on.

    Raises CorruptionError(position) at the first damaged one.
    """
    walk = Walk(data, -1 if file.base is None else file.base, start)
    while walk.next():
        yield Place(file, walk.position, walk.size, walk.base + walk.position), walk.scan()
    if walk.ending == UNWRITTEN:
        require_zeros(file, data, walk.position)


def require_zeros(file: NamedFile, data: memoryview, position: int) -> None:
    """Raise CorruptionError(position) unless the rest is zeros: the unused rest of a preallocated file."""
    step = 1 << 20
    zeros = bytes(step)
    for begin, end in data_extents(file, position, len(data)):
        for at in range(begin, end, step):
            part = data[at : min(at + step, end)]
            if part != zeros[: len(part)]:
                raise CorruptionError("bytes after the end of the records that are not zero", position)


def next_record(file: NamedFile, data: memoryview, start: int, stop: int | None = None) -> int | None:
    """Return the first byte in [start, stop) of a whole record with the correct CRC and offset, or None."""
    end = len(data) if stop is None else min(stop, len(data))
    for at in _magic_places(file, data, start, end):
        try:
            record = scan_record(data, at, check_crc=True)
        except CorruptionError:
            continue
        if file.base is None or record.physical_offset == file.base + at:
            return at
    return None


def _magic_places(file: NamedFile, data: memoryview, start: int, stop: int) -> Iterator[int]:
    """Yield the positions where a record with a known magic could start.

    Searches in windows, to bound memory.
    """
    window = 1 << 22
    # The magic follows the 4 bytes of the size, so that of a record at stop - 1 ends at stop + 7. Windows
    # overlap by 3 bytes, for a magic across their border.
    for begin, end in data_extents(file, start + 4, min(stop + 7, len(data))):
        for at in range(begin, end, window):
            part = bytes(data[at : min(at + window + 3, end)])
            for place in sorted(place for magic in _MAGICS for place in _occurrences(part, magic)):
                if at + place - 4 < stop:
                    yield at + place - 4


def _occurrences(part: bytes, magic: bytes) -> Iterator[int]:
    at = part.find(magic)
    while at >= 0:
        yield at
        at = part.find(magic, at + 1)


_KNOWN_MAGICS = frozenset((MAGIC_V1, MAGIC_V2, MAGIC_FILLER))
_NEAR = 8 * 1024 * 1024
"""The distance (bytes) before the last written page at which the search for a whole record starts."""


def as_written(files: Sequence[NamedFile]) -> list[NamedFile]:
    """Return the files up to the one with the newest record, the last with the size to which it is filled."""
    for number in reversed(range(len(files))):
        file = files[number]
        with mapped(file) as data:
            if number == 0 or (len(data) >= FILLER_HEAD_SIZE and peek_record(data).total_size):
                return [*files[:number], file._replace(size=_filled(file, data))]
    return []


def _filled(file: NamedFile, data: memoryview) -> int:
    """Return the position of the next record, or the whole size if the walk meets anything but records."""
    position = _start(file, data)
    while len(data) - position >= FILLER_HEAD_SIZE:
        head = peek_record(data, position)
        if head.total_size == 0:
            return position
        if head.magic not in _KNOWN_MAGICS or not 0 < head.total_size <= len(data) - position:
            break
        position += head.total_size
    return len(data)


def _start(file: NamedFile, data: memoryview) -> int:
    # The walk begins near the end of the data: a walk over a whole file takes seconds.
    written = max((end for _, end in data_extents(file, 0, len(data))), default=0)
    near = max(written - _NEAR, 0)
    return (next_record(file, data, near, written) or 0) if near else 0


# Single records by commit-log offset, as queue entries and index items refer to them.
#
# Bodies are as stored until `plain_bodies`. A body that is marked as compressed but cannot be decompressed is
# left as stored: its record is whole, and nothing after it depends on it.

Found = tuple[Place, MessageExt]
"""The location of a record, and its message."""
OnDamage = Callable[[DamagedFile], None]
"""Receives the damage of each body that is left as stored."""


def ignore_damage(damage: DamagedFile) -> None:
    """Ignore the damage."""


def stored_message(data: memoryview, position: int) -> MessageExt:
    """Decode a message, leaving its body as stored.

    Raises CorruptionError(position) if no record is there.
    """
    try:
        return decode_record(data, position)
    except CorruptionError as error:
        raise CorruptionError(str(error), position) from None


def with_plain_body(message: MessageExt, file: NamedFile, position: int, on_damage: OnDamage) -> MessageExt:
    """Decompress the body of the message at `position` of a file."""
    if not message.sys_flag & COMPRESSED:
        return message
    try:
        plain = decompress(message.body, message.sys_flag)
    except CorruptionError as error:
        on_damage(DamagedFile(file.path, CorruptionError(f"{error}; it is shown as stored", position)))
        return message
    return msgspec.structs.replace(message, body=plain)


def plain_bodies(found: Iterable[Found], on_damage: OnDamage) -> Iterator[Found]:
    for place, message in found:
        yield place, with_plain_body(message, place.file, place.position, on_damage)


def inner_messages(found: Iterable[Found], on_damage: OnDamage) -> Iterator[MessageExt]:
    """Yield the messages of records whose bodies are plain; an inner batch yields each of its messages."""
    for place, message in found:
        try:
            yield from unwrapped(message)
        except BodyError as error:
            reason = CorruptionError(f"{error}; it is shown as stored", place.position)
            on_damage(DamagedFile(place.file.path, reason))
            yield message


class LogReader(LogViews):
    """Reads records by offset; a context manager that maps files. `path` is a store folder or its log."""

    def __init__(self, path: Path, files: list[NamedFile] | None = None) -> None:
        """`files` are those of the log if they are listed already.

        Raises FileNotFoundError if there is no commit log.
        """
        self._folder = commit_log_folder(path)
        super().__init__(offset_files(self._folder) if files is None else files)

    def message(self, offset: int) -> MessageExt | None:
        """Return the message at an offset; None if no whole record is there."""
        found = self.find(offset)
        return None if found is None else found[1]

    def time_of(self, entry: QueueEntry | None) -> int:
        """Return the store time (ms) of the message of an entry; 0 if there is none."""
        message = None if entry is None else self.message(entry.commit_log_offset)
        return 0 if message is None else message.store_timestamp

    def find(self, offset: int) -> Found | None:
        """Return the location and the message at an offset; None if no whole record is there."""
        try:
            return self.read(offset)
        except CorruptionError:
            return None

    def read(self, offset: int, test: RecordTest | None = None) -> Found | None:
        """Like `find`, but returns None only for a record that retention removed, or that fails a test.

        Raises DamagedFile otherwise.
        """
        if not self.bases or offset < self.bases[0]:
            return None
        if offset >= self.bases[-1] + self.files[-1].size:
            self.list_again(offset_files(self._folder))  # a broker may have added a file
        number = bisect_right(self.bases, offset) - 1
        file, position = self.files[number], offset - self.bases[number]
        if position >= file.size:
            raise DamagedFile(file.path, CorruptionError(f"the file ends before commit-log offset {offset}"))
        data = self.view(number)
        with naming_damage(file):
            if test is not None:
                record = RecordReader()
                if not test.passes(record, record.find(data, position, len(data), False)):
                    return None
            message = stored_message(data, position)
        return Place(file, position, message.store_size, offset), message
