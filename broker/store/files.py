"""Blocking file helpers; call them in a worker thread when a disk may be slow.

A file is durable when its data is (fdatasync) and, if it is new, when its folder is (fsync).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["remove_empty_folder", "sync_file", "sync_files", "sync_folder"]


def sync_file(path: Path) -> None:
    """fdatasync, which on Linux also writes pages dirtied through a shared mapping. A file removed meanwhile is fine."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.fdatasync(fd)
    finally:
        os.close(fd)


def sync_folder(path: Path) -> None:
    """Makes creations, renames and removals in a folder durable."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_files(paths: Iterable[Path], folders: Iterable[Path] = ()) -> None:
    for path in paths:
        sync_file(path)
    for folder in folders:
        sync_folder(folder)


def remove_empty_folder(path: Path) -> None:
    """Removes a folder if nothing is in it."""
    with contextlib.suppress(OSError):
        path.rmdir()
