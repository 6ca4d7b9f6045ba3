"""A store folder, opened once and passed on, so that all code sees the same files."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from pathlib import Path

from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.store.checkpoint import Checkpoint, decode_checkpoint
from rmqcli.codec.store.index_file import IndexHeader
from rmqcli.store.read import tables
from rmqcli.store.read.commit_log import CommitLogFiles, LogReader, as_written, commit_log_folder
from rmqcli.store.read.consume_queue import BatchQueue, Queue, batch_queues, batch_topics, queues_of
from rmqcli.store.read.files import NamedFile, SmallFiles, data_size, mapped, offset_files
from rmqcli.store.read.index import IndexGeometry, geometry_of, index_files
from rmqcli.store.read.lock import is_locked


class StoreFolder:
    """The files of a store folder, each kind listed when first requested, and then kept.

    `live`: a broker runs on the folder; queues and log then end where they ended at one moment. `crashed`:
    the file `abort` is there.
    """

    def __init__(self, path: Path) -> None:
        """Raise FileNotFoundError if `path` is not a store folder."""
        self.path = tables.store_folder(path)
        self.live = is_locked(path)
        self.crashed = (path / "abort").exists()
        # A check reads each table twice: for its soundness, and for its contents.
        self.read = SmallFiles()
        """Reads checkpoint and tables."""

    @cached_property
    def queues(self) -> list[Queue]:
        found = queues_of(self.path)
        return [queue.as_written() for queue in found] if self.live else found

    @cached_property
    def log(self) -> CommitLogFiles:
        """The commit log; without files if no message was ever stored."""
        if self.live:
            # A log that is listed after the queues has the records of all their entries.
            _ = self.queues
        try:
            files = offset_files(commit_log_folder(self.path))
        except FileNotFoundError:
            return CommitLogFiles(self.path, [])
        return CommitLogFiles(self.path, as_written(files) if self.live else files)

    def reader(self) -> LogReader:
        """Return a reader of the log, which is empty without log files."""
        return LogReader(self.path, self.log.files)

    @cached_property
    def log_begin(self) -> int:
        """The commit-log offset of the first byte of the log."""
        return self.log.files[0].base or 0 if self.log.files else 0

    @cached_property
    def index(self) -> list[NamedFile]:
        try:
            return index_files(self.path / "index")
        except (FileNotFoundError, NotADirectoryError):
            return []

    @cached_property
    def index_geometries(self) -> list[IndexGeometry]:
        """The geometries of the index files that have a sound header."""
        found = []
        for file in self.index:
            with mapped(file) as data, suppress(CorruptionError):
                found.append(geometry_of(file, data))
        return found

    @property
    def index_headers(self) -> list[IndexHeader]:
        """The headers of the index files that contain items."""
        return [one.header for one in self.index_geometries if one.items]

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint; zeros if it is missing or cannot be read, as for a broker."""
        try:
            return decode_checkpoint(self.read(self.path / "checkpoint"))
        except (FileNotFoundError, CorruptionError):
            return Checkpoint()

    @cached_property
    def batch_queues(self) -> list[BatchQueue]:
        return batch_queues(self.path)

    @cached_property
    def batch_topics(self) -> frozenset[str]:
        """The topics that have batch queues, or whose attributes request them."""
        return batch_topics(self.path, self.batch_queues, self.read)


def bytes_used(files: list[NamedFile]) -> int:
    """Return the bytes of files that are not in holes."""
    return sum(map(data_size, files))
