"""Files named by the offset of their first byte, opened read-only and memory-mapped."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

__all__ = ["NamedFile", "mapped", "offset_files"]

_OFFSET_NAME = re.compile(r"[0-9]{20}")


class NamedFile(NamedTuple):
    """`base` is the offset of the first byte; None when the name does not tell (a renamed copy)."""

    path: Path
    base: int | None
    size: int


def offset_files(path: Path) -> list[NamedFile]:
    """The file, or the files of a folder in the order of their offsets; FileNotFoundError when there are none."""
    if path.is_file():
        base = int(path.name) if _OFFSET_NAME.fullmatch(path.name) else None
        return [NamedFile(path, base, path.stat().st_size)]
    found = sorted(item for item in path.iterdir() if _OFFSET_NAME.fullmatch(item.name) and item.is_file())
    if not found:
        raise FileNotFoundError(2, "no file named by an offset (20 digits) is in this folder", str(path))
    return [NamedFile(item, int(item.name), item.stat().st_size) for item in found]


@contextmanager
def mapped(file: NamedFile) -> Iterator[memoryview]:
    """The bytes of a file as a view that must not outlive the block. An empty file is an empty view."""
    if file.size == 0:
        yield memoryview(b"")
        return
    with file.path.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as pages:
        view = memoryview(pages)
        try:
            yield view
        finally:
            view.release()
