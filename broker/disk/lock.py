"""The `lock` file: one broker per store folder.

Java holds `FileChannel.tryLock(0, 1, false)`, which is a POSIX record lock on byte 0, and writes the text
`lock`. POSIX locks belong to the process: a second store of this process is refused by our own set, and no
other descriptor of the file may be closed while the lock is held.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from broker.errors import StoreError, StoreLocked

_held: set[tuple[int, int]] = set()


@contextlib.contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Holds the lock for the block. StoreLocked at once if another broker does; StoreError."""
    fd = _open(path)
    try:
        identity = _acquire(fd, path)
        try:
            yield
        finally:
            _held.discard(identity)
    finally:
        os.close(fd)


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if _identity(path) in _held:
            raise locked(path, "this process")
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StoreError(
            f"{path}: {error.strerror}; choose a store folder that this user can write"
        ) from error


def _acquire(fd: int, path: Path) -> tuple[int, int]:
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
    except OSError as error:
        raise locked(path, "another process") from error
    os.pwrite(fd, b"lock", 0)
    state = os.fstat(fd)
    identity = (state.st_dev, state.st_ino)
    _held.add(identity)
    return identity


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        state = path.stat()
    except FileNotFoundError:
        return None
    return state.st_dev, state.st_ino


def locked(path: Path, holder: str) -> StoreLocked:
    """The error for a lock file that `holder` holds."""
    return StoreLocked(
        f"{path} is held by {holder}: a broker already runs on this folder; stop it or choose another one"
    )
