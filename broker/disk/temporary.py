"""Temporary folders that do not outlive their process for long: a later start removes those of killed
processes.

Each folder is locked (flock) by its process for as long as that lives, and gets its final name, by which it
is found, only once it is locked. Files in such a folder may have separate locks.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX = "rmq-up-"
_NEW = "rmq-new-"
"""The prefix of a folder that is not locked yet."""

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a new folder, which is removed at the end of the block. Raises OSError."""
    new = Path(tempfile.mkdtemp(prefix=_NEW))
    lock = os.open(new, os.O_RDONLY | os.O_DIRECTORY)
    folder = new.with_name(PREFIX + new.name.removeprefix(_NEW))
    try:
        with contextlib.suppress(OSError):  # a file system without locks: no other process will remove it
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        new.rename(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_abandoned() -> list[Path]:
    """Remove the temporary folders of this user whose processes have died, and return them. Blocks."""
    removed = []
    with contextlib.suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):
                if _remove_unlocked(folder):
                    _log.info("removed %s, which a process that was killed has left", folder)
                    removed.append(folder)
    return removed


def _remove_unlocked(folder: Path) -> bool:
    """Remove a folder of this user that no process has locked. Raises OSError if one has, or if it is not a
    folder."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(lock).st_uid != os.getuid():
            return False
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()
    finally:
        os.close(lock)
