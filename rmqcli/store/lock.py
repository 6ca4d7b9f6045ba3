"""Whether a broker runs on a store folder: it holds a POSIX record lock on byte 0 of the file `lock` (as Java's FileLock).

Not for the process that runs the broker itself: such a lock belongs to a process, and closing any descriptor drops it.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["holding_lock", "is_locked", "refuse_locked"]

_TAKEN = (errno.EACCES, errno.EAGAIN)


def is_locked(store: Path) -> bool:
    """Whether another process holds the lock. Changes nothing."""
    try:
        handle = os.open(store / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.lockf(handle, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 0)
    except OSError as error:
        if error.errno not in _TAKEN:
            raise
        return True
    finally:
        os.close(handle)
    return False


def refuse_locked(store: Path) -> None:
    """PermissionError when a broker runs on the folder."""
    if is_locked(store):
        raise _refusal(store)


@contextmanager
def holding_lock(store: Path) -> Iterator[None]:
    """No broker can start on the folder during the block. PermissionError when one runs already."""
    handle = os.open(store / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
            raise _refusal(store) from error
        yield
    finally:
        os.close(handle)


def _refusal(store: Path) -> PermissionError:
    return PermissionError(errno.EACCES, "a broker runs on this folder: stop it first", str(store))
