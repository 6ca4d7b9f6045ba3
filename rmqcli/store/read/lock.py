"""The lock of a store folder: a broker holds a POSIX record lock on byte 0 of `lock`, like Java's FileLock.

Such a lock belongs to a process, and closing any descriptor of the file releases it. A process that has the
file open must therefore not open it again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_TAKEN = (errno.EACCES, errno.EAGAIN)


def is_locked(store: Path) -> bool:
    """Return True if a broker holds the lock. Does not change anything."""
    import fcntl  # here, because commands without a store run on Windows

    try:
        # A broker in this process: opening and closing the file would release its lock.
        if _is_open(store / "lock"):
            return True
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


def _is_open(path: Path) -> bool:
    wanted = path.stat()
    try:
        numbers = [int(entry.name) for entry in Path("/dev/fd").iterdir()]
    except OSError:
        return False
    for number in numbers:
        with suppress(OSError):  # the descriptor used for the listing is closed by now
            if os.path.samestat(os.fstat(number), wanted):
                return True
    return False


def refuse_locked(store: Path) -> None:
    """Raise PermissionError if a broker runs on the folder."""
    if is_locked(store):
        raise _refusal(store)


@contextmanager
def holding_lock(store: Path) -> Iterator[None]:
    """Keep brokers from starting during the block. Raises PermissionError if one runs already."""
    import fcntl

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
