"""Folders that appear complete or not at all, because an incomplete store would look like a store."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rmqcli.store.read.files import naming_full_disk

UNFINISHED = ".unfinished"


def require_empty(out: Path) -> None:
    """Raise FileExistsError unless a folder is missing or empty."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileExistsError(17, "exists and is not empty; name a new folder with --out", str(out))


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield a folder next to `out` that is renamed to `out` when the block ends, or removed on an error.

    Raises FileExistsError unless `out` is missing or empty. The remains of a killed process are removed
    first, unless another process is still writing there.
    """
    require_empty(out)
    out = out.resolve()
    if out.is_mount():
        raise FileExistsError(17, "a file system is mounted here: name a folder in it", str(out))
    work = out.with_name(f"{out.name}{UNFINISHED}")
    handle = _own(work)
    try:
        with naming_full_disk(out):
            yield work
        work.rename(out)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    finally:
        os.close(handle)


def _own(work: Path) -> int:
    """Return a handle that locks the emptied folder as long as it is open."""
    work.mkdir(parents=True, exist_ok=True)
    handle = os.open(work, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise FileExistsError(17, "another process is writing here", str(work)) from None
    for path in work.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return handle
