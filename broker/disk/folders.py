"""Folders that a power cut cannot take away with what is in them.

A folder is durable once its parent was synced. One that exists may be new too, left by a process that was
killed before the sync or made by another program, so every folder is synced into its parent once a process.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from pathlib import Path

FOREIGN = (errno.EACCES, errno.EPERM, errno.EINVAL)
"""Refusals to sync a folder of somebody else, in which nothing was created here."""


class DurableFolders(ABC):
    """The part of a disk that makes folders; the rest creates single ones and syncs."""

    def __init__(self) -> None:
        self._durable_folders: set[Path] = set()

    def make_folder(self, path: Path) -> None:
        """Create a folder and its parents where they are missing, durably."""
        if path in self._durable_folders and self._has_folder(path):
            return
        if path != path.parent:
            self.make_folder(path.parent)
            self._sync_name(path, is_new=self._create_folder(path))
        self._durable_folders.add(path)

    def keep_folder(self, path: Path) -> None:
        """Make a folder and its parents durable. A missing one is fine."""
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
        """Make creations, renames and removals in a folder durable. A missing folder is fine."""

    @abstractmethod
    def _has_folder(self, path: Path) -> bool:
        """Return True if this is a folder."""

    @abstractmethod
    def _create_folder(self, path: Path) -> bool:
        """Create one folder whose parent exists; False if it was there."""
