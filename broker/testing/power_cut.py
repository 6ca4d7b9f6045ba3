"""Selection of the unsynced operations and pages of a simulated disk that survive a power cut.

Kinds of file systems differ in the order in which operations reach the disk. Pages of mapped files may reach
it in any order, or not at all, on all of them.
"""

from __future__ import annotations

import enum
import itertools
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

from rmqcli.broker.disk import PAGE
from rmqcli.broker.testing.disk_file import File

ODDS = (0.0, 0.1, 0.5, 0.9, 1.0)
"""The odds that an unsynced page or operation survives; each power cut draws one for pages and one for
operations."""


class Journal(enum.Enum):
    """The operations that a file system writes to its journal, and so keeps in order."""

    NONE = "strict POSIX"
    """Any of the creations, renames and removals may be lost, even if later ones survive."""
    METADATA = "journalled metadata"
    """Operations survive in order: none without all earlier ones (XFS, ext4 with data=writeback)."""
    ORDERED = "journalled, ordered data"
    """Like METADATA; content that was written as a whole is present if its length is (ext4)."""


FOLDER = File(0)
"""Represents a folder among the names that are durable or change."""

Change = dict[Path, File | None]
"""Names to which an operation assigned a file, or None; an operation is atomic."""


def apply(change: Change, names: dict[Path, File]) -> None:
    for path, file in change.items():
        if file is None:
            names.pop(path, None)
        else:
            names[path] = file


class Changes:
    """The unsynced operations by folder, with sequence numbers."""

    def __init__(self) -> None:
        self._by_folder: dict[Path, list[tuple[int, Change]]] = {}
        self._last = 0
        self.synced = 0
        """The highest sequence number of a synced operation."""

    def add(self, folder: Path, change: Change) -> None:
        self._last += 1
        self._by_folder.setdefault(folder, []).append((self._last, change))

    def pop(self, folder: Path) -> list[Change]:
        """Remove and return the operations in a folder, which is synced."""
        numbered = self._by_folder.pop(folder, [])
        self.synced = max(self.synced, *(number for number, _ in numbered), 0)
        return [change for _, change in numbered]

    def in_order(self) -> list[tuple[int, Change]]:
        return sorted(itertools.chain(*self._by_folder.values()), key=lambda numbered: numbered[0])

    def files(self) -> Iterator[File]:
        for _, change in self.in_order():
            yield from (file for file in change.values() if file is not None)

    def renamed(self, copies: Mapping[File | None, File | None]) -> Changes:
        """Return the same operations on copies of the files."""
        other = Changes()
        other._last, other.synced = self._last, self.synced
        other._by_folder = {
            folder: [
                (number, {path: copies[file] for path, file in change.items()}) for number, change in changes
            ]
            for folder, changes in self._by_folder.items()
        }
        return other


def survivors(
    durable: Mapping[Path, File], changes: Changes, journal: Journal, rng: random.Random
) -> list[tuple[Path, File, bytes]]:
    """Return the surviving names, sorted, with their files and the surviving content."""
    page_odds, operation_odds = rng.choice(ODDS), rng.choice(ODDS)
    names = dict(durable)
    for change in _kept(changes, journal, operation_odds, rng):
        apply(change, names)
    return [
        (path, file, b"" if file is FOLDER else _survived(file, journal, rng, page_odds))
        for path, file in sorted(names.items())
    ]


def _kept(changes: Changes, journal: Journal, odds: float, rng: random.Random) -> list[Change]:
    pending = changes.in_order()
    if journal is Journal.NONE:
        return [change for _, change in pending if rng.random() < odds]
    written = 0
    while written < len(pending) and (pending[written][0] <= changes.synced or rng.random() < odds):
        written += 1
    return [change for _, change in pending[:written]]


def _survived(file: File, journal: Journal, rng: random.Random, odds: float) -> bytes:
    """Return the synced content with some of the pages written since, and with the synced or the current
    length."""
    now, durable = file.content(), file.durable
    if now == durable:
        return durable
    length = len(now) if rng.random() < odds else len(durable)
    if journal is Journal.ORDERED and len(now) != len(durable) and isinstance(file.buffer, bytes):
        return now if length == len(now) else durable
    pages = []
    for start in range(0, length, PAGE):
        new, old = (content[start : start + PAGE].ljust(PAGE, b"\0") for content in (now, durable))
        pages.append(new if new != old and rng.random() < odds else old)
    return b"".join(pages)[:length]
