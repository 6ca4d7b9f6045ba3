"""The disk operations that a broker needs, and their results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

PAGE = 4096
"""Size of a page, the unit in which mapped files are read and written."""


class FileState(NamedTuple):
    """Size in bytes (0 for a folder), modification time in ms since the epoch, and permissions, if the disk
    has them."""

    size: int
    modified_ms: int
    is_folder: bool
    mode: int | None = None


class Usage(NamedTuple):
    """Bytes of a file system; `free` is the number that this process may use."""

    total: int
    used: int
    free: int

    @property
    def percent(self) -> float:
        """The percentage in use, 0 to 100."""
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
        """Release whole pages, dirty ones included, from the memory of this process; the page cache keeps
        them."""

    def populate_pages(self, position: int, length: int) -> bool:
        """Allocate pages before they are written. Return False if the kernel cannot. Raises ValueError if the
        file is closed."""

    def reserve(self, position: int, length: int) -> None:
        """Reserve blocks on the disk, so that writing these bytes cannot fail. Raises OSError if it is full.
        Blocks.

        Does nothing if the file was removed or the file system does not support it.
        """

    def load_pages(self, position: int, length: int) -> None:
        """Read pages into the page cache. Blocks; does nothing if the file was removed."""

    def read_ahead(self, is_on: bool) -> None:
        """Set whether the first access to a page loads those around it, regardless of how the file was
        opened. Raises ValueError if the file is closed.
        """

    def clear_from(self, position: int) -> bool:
        """Zero everything from `position` on and keep the modification time. Return False if all bytes were
        zero already. Blocks."""

    def rewrite(self, position: int, length: int) -> None:
        """Write bytes again unchanged: the next sync then writes their pages, even if a failed one has left
        them marked as clean. Blocks."""

    def close(self) -> None:
        """Unmap the file, now or when the last slice of `view` is gone."""


class CannotSync(Exception):
    """Raised if a `FileSync` cannot sync this file, and has done nothing."""


class FileSync(Protocol):
    """Syncs files, one at a time, without a thread."""

    async def sync(self, path: Path) -> None:
        """Like `Disk.sync_file`, but cannot be cancelled. Raises OSError or CannotSync."""

    def close(self) -> None:
        """Release the resources."""


class Disk(Protocol):
    """Files and folders, by absolute path."""

    def open_mapped(
        self, path: Path, size: int, *, may_create: bool = True, read_around: bool = True
    ) -> MappedFile:
        """Map a file, created or extended with zeros to `size` bytes (sparse). Raises FileNotFoundError if it
        does not exist and `may_create` is False.

        Without `read_around`, the first access to a page loads no others, once the file is written.
        """

    def data_ranges(self, path: Path, position: int, size: int) -> Iterator[tuple[int, int]]:
        """Yield start and end of the ranges of [position, size) of a file that may hold bytes other than
        zero.

        Raises FileNotFoundError.
        """

    def read(self, path: Path) -> bytes:
        """Return the whole content. Raises FileNotFoundError."""

    def read_part(self, path: Path, position: int, length: int) -> bytes:
        """Return bytes of a file; fewer if it ends before. Raises FileNotFoundError."""

    def write(self, path: Path, content: bytes, mode: int | None = None) -> None:
        """Make `content` the whole content, in place: a power cut may leave any mix of old and new pages.

        `mode` sets the permissions of the file.
        """

    def state(self, path: Path) -> FileState | None:
        """Return the state of a file or folder; None if it does not exist."""

    def list(self, folder: Path) -> list[Path]:
        """Return the paths in a folder, sorted; empty if it does not exist or is a file."""

    def make_folder(self, path: Path) -> None:
        """Create a folder and its missing parents, durably."""

    def keep_folder(self, path: Path) -> None:
        """Make a folder and its parents durable. Missing ones are ignored."""

    def replace(self, source: Path, target: Path) -> None:
        """Rename a file within its folder, atomically replacing an existing target."""

    def unlink(self, path: Path) -> None:
        """Remove a file if it exists."""

    def remove_empty_folder(self, path: Path) -> None:
        """Remove a folder if it is empty."""

    def sync_file(self, path: Path) -> None:
        """Make the content of a file durable, including pages written through mappings. A missing file is
        ignored."""

    def file_sync(self) -> FileSync | None:
        """Return a FileSync, an alternative to `sync_file`; None if the disk has none. The caller closes
        it."""

    def sync_folder(self, path: Path) -> None:
        """Make creations, renames and removals in a folder durable. A missing folder is ignored."""

    def usage(self, path: Path) -> Usage:
        """Return the usage of the file system that holds a path, or would hold it."""

    def lock(self, path: Path, folders: Sequence[Path]) -> AbstractContextManager[None]:
        """Create the folders of a store, and lock them and its lock file for a block.

        Raises StoreLocked immediately if another broker has locked any of them.
        """

    def boot_id(self) -> bytes:
        """Return an id that differs after each start of the machine; empty if unknown."""
