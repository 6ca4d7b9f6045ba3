"""Replaces small files as a whole."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path


def replace_file(
    path: Path, content: bytes, *, backup: Path | None = None, durable: bool = True, mode: int | None = None
) -> None:
    """Write a temporary file beside `path` and rename it; the previous content is copied to `backup` first.

    Readers see the old content or the new. `durable` also syncs file and folder: without it a power cut may
    lose either, and the order relative to other files is not kept. `mode`: the permissions of the file. A
    missing folder is created. Blocks; OSError leaves the old content.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        with temporary.open("wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        if backup is not None and path.exists():
            shutil.copyfile(path, backup)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if durable:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
