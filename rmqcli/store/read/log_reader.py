"""Single records by commit-log offset, as queue entries and index items refer to them.

Bodies are as stored until `plain_bodies`. A body that says it is compressed and cannot be decompressed stays
as stored: its record is whole, and nothing after it depends on it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from codec.compression import COMPRESSED, decompress
from codec.errors import BodyError, CorruptionError
from codec.inner_batch import unwrapped
from codec.message import MessageExt
from codec.store.record import decode_record
from rmqcli.store.read.commit_log import LogViews, Place, commit_log_folder
from rmqcli.store.read.consume_queue import QueueEntry
from rmqcli.store.read.files import DamagedFile, NamedFile, naming_damage, offset_files

Found = tuple[Place, MessageExt]
"""The place of a record, and its message."""
OnDamage = Callable[[DamagedFile], None]
"""Receives the damage of each body that stays as stored."""


def ignore_damage(damage: DamagedFile) -> None:
    """Ignore the damage."""


def stored_message(data: memoryview, position: int) -> MessageExt:
    """Decode a message, its body as stored. Raises CorruptionError(position) when no record is there."""
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
    """Yield the messages of records with plain bodies: those of an inner batch each."""
    for place, message in found:
        try:
            yield from unwrapped(message)
        except BodyError as error:
            reason = CorruptionError(f"{error}; it is shown as stored", place.position)
            on_damage(DamagedFile(place.file.path, reason))
            yield message


class LogReader(LogViews):
    """Reads records by offset; a context manager that maps files. `path` is a store folder or its log."""

    def __init__(self, path: Path) -> None:
        """Raise FileNotFoundError if there is no commit log."""
        self._folder = commit_log_folder(path)
        super().__init__(offset_files(self._folder))

    def message(self, offset: int) -> MessageExt | None:
        """Return the message at an offset; None if no whole record is there."""
        found = self.find(offset)
        return None if found is None else found[1]

    def time_of(self, entry: QueueEntry | None) -> int:
        """Return the store time (ms) of an entry's message; 0 when there is none."""
        message = None if entry is None else self.message(entry.commit_log_offset)
        return 0 if message is None else message.store_timestamp

    def find(self, offset: int) -> Found | None:
        """Return the place and message at an offset; None if no whole record is there."""
        try:
            return self.read(offset)
        except CorruptionError:
            return None

    def read(self, offset: int) -> Found | None:
        """Do what `find` does; None is only a record that retention removed. Raises DamagedFile."""
        if offset < self.bases[0]:
            return None
        if offset >= self.bases[-1] + self.files[-1].size:
            self.list_again(offset_files(self._folder))  # a broker may have added a file
        number = bisect_right(self.bases, offset) - 1
        file, position = self.files[number], offset - self.bases[number]
        if position >= file.size:
            raise DamagedFile(file.path, CorruptionError(f"the file ends before commit-log offset {offset}"))
        with naming_damage(file):
            message = stored_message(self.view(number), position)
        return Place(file, position, message.store_size, offset), message
