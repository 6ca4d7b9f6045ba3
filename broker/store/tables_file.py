"""Saved tables (topics.json and the like): the file, and the previous one beside it as `.bak`.

Save: write `.tmp`, fsync, current → `.bak`, `.tmp` → current, fsync of the folder; a crash at any point leaves a whole
file under one of the two names. Load: the file, else `.bak` (missing, empty or unreadable counts alike); neither
existing is a fresh start (Java `ConfigManager.load`, `MixAll.string2File`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from broker.store.errors import StoreDamaged
from broker.store.files import sync_folder
from codec.errors import CodecError

__all__ = ["load_table", "save_table"]

T = TypeVar("T")
_log = logging.getLogger(__name__)


def save_table(path: Path, data: bytes) -> None:
    """Replaces the file and keeps the previous content as `.bak`. Blocking; OSError if the disk refuses."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".tmp")
    with fresh.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        path.replace(_backup(path))
    fresh.replace(path)
    sync_folder(path.parent)


def load_table(path: Path, decode: Callable[[bytes], T]) -> T | None:
    """The decoded file, or its `.bak`; None if neither exists or both are empty.

    `decode` refuses bytes with CodecError or ValueError. StoreDamaged if what exists cannot be read at all.
    """
    refused: list[str] = []
    for candidate in (path, _backup(path)):
        try:
            data = candidate.read_bytes()
        except FileNotFoundError:
            continue
        if not data.strip():
            continue
        try:
            table = decode(data)
        except (CodecError, ValueError) as error:
            _log.warning("%s cannot be read: %s", candidate, error)
            refused.append(f"{candidate}: {error}")
            continue
        return table
    if refused:
        raise StoreDamaged(
            f"{'; '.join(refused)}. Repair the file, or move it and its .bak away to start with an empty table"
        )
    return None


def _backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")
