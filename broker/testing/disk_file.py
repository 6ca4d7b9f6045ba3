"""A file of the simulated disk: its written content, and its content on the disk."""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Iterator

from rmqcli.broker.disk import PAGE

CHANGES_SEEN = 1 << 20
"""Size up to which the modification time of a file follows writes through a mapping; that of a larger file
follows its syncs."""

PIECE = 1 << 20
"""Bytes that are compared with zeros at once, a multiple of a page."""
_ZEROS = bytes(PIECE)


def _is_blank(content: bytes) -> bool:
    return content == (_ZEROS if len(content) == PIECE else bytes(len(content)))


_PRIVATE: dict[str, int] = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS}
    if hasattr(mmap, "MAP_PRIVATE")
    else {}  # Windows has no others
)


class File:
    """The current content, and the content on the disk.

    `dropped` has the pages, by number, that a failed sync has not written but counts as clean; `cold` has the
    numbers of pages outside the page cache, `blocks` of those that have a block on the disk.
    """

    def __init__(self, now_ms: int) -> None:
        self.buffer: mmap.mmap | bytes = b""
        self.durable = b""
        self.dropped: dict[int, bytes] = {}
        self.modified_ms = now_ms
        self.cold: set[int] = set()
        self.blocks: set[int] = set()
        self.checksum = 0

    def resize(self, size: int) -> None:
        buffer = mmap.mmap(-1, size, **_PRIVATE)
        kept = min(size, len(self.buffer))
        buffer[:kept] = self.buffer[:kept]
        self.buffer = buffer

    def unreserved(self) -> list[int]:
        """Return the numbers of pages that were written but have no block: a real disk might have been
        full."""
        content = self.content()
        pages = range(-(-len(content) // PAGE))
        return [n for n in pages if n not in self.blocks and any(content[n * PAGE : (n + 1) * PAGE])]

    def data_pages(self, start: int, stop: int) -> Iterator[int]:
        """Yield the numbers of the pages of a range that a file system reports as data: those with bytes
        other than zero, and those with blocks that are in the page cache.
        """
        warm = self.blocks - self.cold
        for at in range(start // PAGE * PAGE, stop, PIECE):
            pages = range(at // PAGE, -(-min(at + PIECE, stop) // PAGE))
            is_blank = _is_blank(self.buffer[at : at + PIECE])
            yield from (n for n in pages if n in warm or not (is_blank or self._is_blank(n)))

    def _is_blank(self, number: int) -> bool:
        return _is_blank(self.buffer[number * PAGE : (number + 1) * PAGE])

    def make_sparse(self) -> None:
        """Remove the blocks of pages of zeros."""
        self.blocks = {number for number in self.blocks if not self._is_blank(number)}

    def content(self) -> bytes:
        return self.buffer[:]

    def drop(self) -> None:
        """Simulate a failed sync: the pages that it should have written count as clean."""
        pages = zip(_pages(self.content()), _pages(self.durable.ljust(len(self.buffer), b"\0")), strict=False)
        self.dropped |= {number: new for number, (new, old) in enumerate(pages) if new != old}

    def see(self) -> bool:
        """Return True if the content has changed since the last call; always False for a large file."""
        if len(self.buffer) > CHANGES_SEEN:
            return False
        before, self.checksum = self.checksum, zlib.crc32(self.buffer)
        return before != self.checksum


def copied(content: bytes, file: File, durable: bytes, *, keeps_dropped: bool = False) -> File:
    copy = File(file.modified_ms)
    copy.buffer, copy.durable, copy.blocks = content, durable, set(file.blocks)
    copy.dropped = dict(file.dropped) if keeps_dropped else {}
    copy.see()
    return copy


def without_dropped(file: File) -> bytes:
    """Return the content after a sync that follows a failed one: dropped pages that were not written since
    keep their old content."""
    pages = []
    old = file.durable.ljust(len(file.buffer), b"\0")
    for number, new in enumerate(_pages(file.content())):
        is_dropped = file.dropped.get(number) == new
        pages.append(old[number * PAGE : (number + 1) * PAGE] if is_dropped else new)
    return b"".join(pages)


def _pages(content: bytes) -> Iterator[bytes]:
    return (content[start : start + PAGE] for start in range(0, len(content), PAGE))
