"""The operations that a broker needs of a disk, and their results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

PAGE = 4096
"""Bytes of a page, the unit in which mapped files are read and written."""


class FileState(NamedTuple):
    """Size in bytes (0 for a folder), modification time in ms since the epoch, permissions if the disk has any."""

    size: int
    modified_ms: int
    is_folder: bool
    mode: int | None = None


class Usage(NamedTuple):
    """Bytes of a file system; `free` counts those that this process may use."""

    total: int
    used: int
    free: int

    @property
    def percent(self) -> float:
        """The used part, 0 to 100."""
        return self.used * 100 / self.total


class MappedFile(Protocol):
    """A file mapped into memory from its first to its last byte; slices of `view` may outlive it.

    `found_size` is the length the file had before it was extended to `size`; 0 for a new file.
    """

    @property
    def found_size(self) -> int: ...

    @property
    def view(self) -> memoryview: ...

    def is_resident(self, position: int, length: int) -> bool:
        """Return True if reading these bytes does not wait for the disk. Does not block."""

    def release_pages(self, position: int, length: int) -> None:
        """Drop whole pages, dirty ones too, from the memory of this process; the page cache keeps them."""

    def populate_pages(self, position: int, length: int) -> bool:
        """Allocate pages before they are written. False if the kernel cannot; ValueError if closed."""

    def reserve(self, position: int, length: int) -> None:
        """Give bytes their blocks on the disk; writing them cannot fail then. OSError if it is full. Blocks.

        Does nothing for a file that was removed, and where the file system does not know how.
        """

    def load_pages(self, position: int, length: int) -> None:
        """Read pages into the page cache. Blocks; does nothing for a file that was removed."""

    def read_ahead(self, is_on: bool) -> None:
        """Have the first touch of a page bring those around it or not, whatever the file was opened with.
        ValueError if closed."""

    def clear_from(self, position: int) -> bool:
        """Zero everything from `position` on and keep the modification time; False if nothing was to be
        done. Blocks."""

    def rewrite(self, position: int, length: int) -> None:
        """Write bytes again as they are: the next sync writes their pages even if one that failed has
        counted them as clean. Blocks."""

    def close(self) -> None:
        """Unmap now, or when the last slice of `view` is gone."""


class CannotSync(Exception):
    """A `FileSync` is not able to sync this file, and has done nothing."""


class FileSync(Protocol):
    """Syncs files one after the other, without a thread."""

    async def sync(self, path: Path) -> None:
        """As `Disk.sync_file`. OSError, CannotSync; it cannot be cancelled."""

    def close(self) -> None:
        """Free its resources."""


class Disk(Protocol):
    """Files and folders, by absolute path."""

    def open_mapped(
        self, path: Path, size: int, *, may_create: bool = True, read_around: bool = True
    ) -> MappedFile:
        """Map a file, created or extended with zeros to `size` bytes (sparse). FileNotFoundError.

        Without `read_around`, the first touch of a page brings no others, once the file is written.
        """

    def data_ranges(self, path: Path, position: int, size: int) -> Iterator[tuple[int, int]]:
        """Start and ends of the ranges of [position, size) of a file that may hold other bytes than zeros.

        FileNotFoundError.
        """

    def read(self, path: Path) -> bytes:
        """Return the whole content. FileNotFoundError."""

    def read_part(self, path: Path, position: int, length: int) -> bytes:
        """Bytes of a file; fewer where it ends. FileNotFoundError."""

    def write(self, path: Path, content: bytes, mode: int | None = None) -> None:
        """Make `content` the whole content, in place: a power cut leaves any mix of old and new pages.
        `mode`: the permissions of the file.
        """

    def state(self, path: Path) -> FileState | None:
        """Size and time of a file or folder; None if there is none."""

    def list(self, folder: Path) -> list[Path]:
        """Return the paths in a folder, sorted; none if it does not exist or is a file."""

    def make_folder(self, path: Path) -> None:
        """Create a folder and its parents where they are missing, durably."""

    def keep_folder(self, path: Path) -> None:
        """Make a folder and its parents durable. A missing one is fine."""

    def replace(self, source: Path, target: Path) -> None:
        """Rename a file within its folder; an existing target is replaced at once."""

    def unlink(self, path: Path) -> None:
        """Remove a file if it exists."""

    def remove_empty_folder(self, path: Path) -> None:
        """Remove a folder if nothing is in it."""

    def sync_file(self, path: Path) -> None:
        """Make the content of a file, if there is one, durable, including pages written through mappings."""

    def file_sync(self) -> FileSync | None:
        """Return a way to sync files beside `sync_file`; None if there is none. The caller closes it."""

    def sync_folder(self, path: Path) -> None:
        """Make creations, renames and removals in a folder durable. A missing folder is fine."""

    def usage(self, path: Path) -> Usage:
        """Usage of the file system that holds a path, or would hold it."""

    def lock(self, path: Path, folders: Sequence[Path]) -> AbstractContextManager[None]:
        """Make the folders of a store and holds them and its lock file for a block.

        StoreLocked at once if another broker holds any of them.
        """

    def boot_id(self) -> bytes:
        """Differ after each start of the machine; empty if unknown."""
