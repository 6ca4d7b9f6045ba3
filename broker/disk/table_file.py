"""Small files that are replaced as a whole (topics.json, kvConfig.json, broker.conf), each with its previous
version as `.bak`.

Saving: write and sync `.tmp`, rename the file to `.bak`, rename `.tmp` to the file, sync the folder. A crash
at any point leaves a whole file under one of the two names. Loading: read the file or, if it is missing,
empty or unreadable, `.bak`; if neither exists, the table is new (Java `ConfigManager.load`,
`MixAll.string2File`). A save never leaves an empty file: whether one means damage depends on the other files.

An unreadable file is renamed to `.damaged`, and an empty one is removed: otherwise the next save would make
it the `.bak`, and a crash during that save would leave nothing else.
"""

from __future__ import annotations

import errno
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from rmqcli.broker.disk.interface import Disk
from rmqcli.broker.errors import StoreDamaged
from rmqcli.codec.errors import CodecError

T = TypeVar("T")
_log = logging.getLogger(__name__)


def save_table(disk: Disk, path: Path, content: bytes, mode: int | None = None) -> None:
    """Replace the file and keep the previous content as `.bak`. `mode` sets the permissions of the new file.
    Blocks. Raises OSError if the disk refuses."""
    disk.make_folder(path.parent)
    fresh = path.with_name(path.name + ".tmp")
    disk.write(fresh, content, mode)
    disk.sync_file(fresh)
    if disk.state(path) is not None:
        disk.replace(path, backup_of(path))
    disk.replace(fresh, path)
    disk.sync_folder(path.parent)


def load_table(
    disk: Disk, path: Path, decode: Callable[[bytes], T | None], *, needed: str = "", derived: bool = False
) -> T | None:
    """Return the decoded file, or its `.bak`; None if neither exists or both are empty, which includes a None
    from `decode`.

    Raises StoreDamaged if `decode` refuses the content with CodecError or ValueError, and also for an empty
    table if `needed`, which says what the table is for. A `derived` table never raises it, and starts empty
    instead.
    """
    refused: list[str] = []
    empty: list[Path] = []
    for candidate in (path, backup_of(path)):
        try:
            content = disk.read(candidate)
        except FileNotFoundError:
            continue
        try:
            decoded = decode(content) if content.strip() else None
        except (CodecError, ValueError) as error:
            _log.warning("%s cannot be read: %s", candidate, error)
            refused.append(f"{candidate}: {error}")
        else:
            if decoded is None:
                empty.append(candidate)
                continue
            if candidate != path:
                _put_away(disk, path, candidate)
            return decoded
    if not derived and (refused or (empty and needed)):
        problems = [*refused, *(f"{candidate}: it is empty, {needed}" for candidate in empty if needed)]
        raise StoreDamaged(
            f"{'; '.join(problems)}. Repair the file, or move it and its .bak away to start with an empty "
            "table"
        )
    if refused or empty:
        _log.error("%s: there is no version of it that can be used: the table starts empty", path)
    _put_away(disk, path, None)
    for candidate in empty:
        if candidate != path:
            disk.unlink(candidate)
    return None


def _put_away(disk: Disk, path: Path, backup: Path | None) -> None:
    """Rename or remove the file of a table that was read from its `.bak`, or not at all, before the next
    save."""
    state = disk.state(path)
    if state is None:
        return
    if backup is not None:
        _log.warning("%s is read in place of %s", backup, path)
    if state.size:
        kept = path.with_name(path.name + ".damaged")
        _log.warning("%s is kept as %s", path, kept)
        disk.replace(path, kept)
    else:
        _log.warning("%s is empty, and removed", path)
        disk.unlink(path)


def backup_of(path: Path) -> Path:
    """Return the path of the previous version of a file."""
    return path.with_name(path.name + ".bak")


# Folders that a power cut cannot remove together with their contents.
#
# A folder is durable once its parent was synced. An existing folder may also be new, left by a process that
# was killed before the sync or made by another program, so every folder is synced into its parent once per
# process.

FOREIGN = (errno.EACCES, errno.EPERM, errno.EINVAL)
"""Errors of syncing another user's folder, which are ignored if nothing was created in it."""


class DurableFolders(ABC):
    """The part of a disk that creates folders durably; subclasses create single folders and sync them."""

    def __init__(self) -> None:
        self._durable_folders: set[Path] = set()

    def make_folder(self, path: Path) -> None:
        """Create a folder and its missing parents, durably."""
        # A folder that was durable may have been removed since, when it was empty.
        if path in self._durable_folders and self._has_folder(path):
            return
        if path != path.parent:
            self.make_folder(path.parent)
            self._sync_name(path, is_new=self._create_folder(path))
        self._durable_folders.add(path)

    def keep_folder(self, path: Path) -> None:
        """Make a folder and its parents durable. Missing ones are ignored."""
        if path not in self._durable_folders and path != path.parent:
            self.keep_folder(path.parent)
            self._sync_name(path, is_new=False)
        self._durable_folders.add(path)

    def _sync_name(self, path: Path, *, is_new: bool) -> None:
        try:
            self.sync_folder(path.parent)
        except OSError as error:
            if is_new or error.errno not in FOREIGN:
                raise

    @abstractmethod
    def sync_folder(self, path: Path) -> None:
        """Make creations, renames and removals in a folder durable. A missing folder is ignored."""

    @abstractmethod
    def _has_folder(self, path: Path) -> bool:
        """Return True if this is a folder."""

    @abstractmethod
    def _create_folder(self, path: Path) -> bool:
        """Create one folder whose parent exists. Return False if it existed already."""
