"""The locks of a store, which admit one broker to each folder that it writes to.

Java holds `FileChannel.tryLock(0, 1, false)` on the file `lock`, which is a POSIX record lock on byte 0, and
writes the text `lock`. Such locks belong to the process: a second store in this process is refused by means
of a set, and no other descriptor of the file may be closed while the lock is held, because that would release
it.

The folders themselves are locked as well (flock), because two stores may share some of them, and `lock` may
be removed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from rmqcli.broker.errors import StoreError, StoreLocked

UNKNOWN_LOCK = (errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Errors of file systems that cannot lock folders; NFS requires that they be open for writing."""

Identity = tuple[int, int]
"""Device and inode."""

_held: set[Identity] = set()


@contextlib.contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock file for the block. Raises StoreLocked immediately if another broker holds it, or
    StoreError."""
    with _opened(path, os.O_RDWR | os.O_CREAT) as fd:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            raise StoreLocked.of(path, "another process") from error
        with _noted(fd):
            os.pwrite(fd, b"lock", 0)
            yield


@contextlib.contextmanager
def hold_folder(path: Path) -> Iterator[None]:
    """Hold a folder for the block, also against brokers that use another path to it. Raises StoreLocked or
    StoreError."""
    with _opened(path, os.O_RDONLY | os.O_DIRECTORY) as fd:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in UNKNOWN_LOCK:
                raise StoreLocked.of(path, "another process") from error
        try:
            with _noted(fd):
                yield
        finally:
            with contextlib.suppress(OSError):
                # Closing is not enough: a forked process may share the descriptor.
                fcntl.flock(fd, fcntl.LOCK_UN)


def is_same(path: Path, other: Path) -> bool:
    """Return True if two paths lead to one existing file or folder."""
    return _identity(path) == _identity(other) is not None


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    with unusable(path):
        # Checked before the file is opened: closing another descriptor would release this process's lock.
        if _identity(path) in _held:
            raise StoreLocked.of(path, "this process")
        fd = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def unusable(path: Path) -> Iterator[None]:
    """Turn an OSError in the block into the StoreError for a folder that cannot be used."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{path}: {error.strerror}; choose a store folder that this user can write"
        ) from error


@contextlib.contextmanager
def _noted(fd: int) -> Iterator[None]:
    state = os.fstat(fd)
    identity = (state.st_dev, state.st_ino)
    _held.add(identity)
    try:
        yield
    finally:
        _held.discard(identity)


def _identity(path: Path) -> Identity | None:
    try:
        state = path.stat()
    except FileNotFoundError:
        return None
    return state.st_dev, state.st_ino
