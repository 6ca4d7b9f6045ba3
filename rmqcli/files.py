"""Writes files that appear only when complete, and reports why one cannot be written."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(
    path: Path, *, backup: Path | None = None, durable: bool = True, mode: int | None = None
) -> Iterator[BinaryIO]:
    """Yield a temporary file beside `path`, which replaces it when the block ends without an error.

    Readers see the old content or the new; an error leaves the old one, and no other file. The previous
    content is copied to `backup` first. `durable` also syncs file and folder: without it a power cut may lose
    either, and the order relative to other files is not kept. `mode`: the permissions of the file, by default
    those of a new one. Blocks; raises OSError.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        with temporary.open("wb") as file:
            if mode is not None:
                temporary.chmod(mode)
            yield file
            file.flush()
            if durable:
                _sync(file.fileno())
        if backup is not None and path.exists():
            shutil.copyfile(path, backup)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if durable:
        sync_folder(path.parent)


def replace_file(
    path: Path, content: bytes, *, backup: Path | None = None, durable: bool = True, mode: int | None = None
) -> None:
    """Write `content` as `replacing` does. A missing folder is created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, backup=backup, durable=durable, mode=mode) as file:
        file.write(content)


def refuse_existing(out: Path, *, replace: bool) -> None:
    """Raise FileExistsError for a file that must not be replaced, another OSError if no file can be written
    there.
    """
    if out.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; name a file with --out", str(out))
    if not out.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(out.parent))
    if out.exists() and not replace:
        raise FileExistsError(errno.EEXIST, "exists; --replace overwrites it", str(out))


def sync_file(path: Path) -> None:
    """Write the content of a file to the disk."""
    with path.open("rb") as file:
        _sync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows cannot sync a folder
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


def _sync(descriptor: int) -> None:
    with suppress(ImportError, AttributeError, OSError):
        import fcntl

        # fsync of macOS leaves the data in the cache of the disk.
        fcntl.fcntl(descriptor, getattr(fcntl, "F_FULLFSYNC"))  # noqa: B009  only macOS has it
    os.fsync(descriptor)
