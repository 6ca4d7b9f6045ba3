"""A file of the simulated disk: what was written, and what is on the platter."""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Iterator

from broker.disk import PAGE

CHANGES_SEEN = 1 << 20
"""Up to this size a file's modification time follows writes through a mapping; that of a larger one its
syncs."""

PIECE = 1 << 20
"""Bytes that are compared with zeros together, a multiple of a page."""
_ZEROS = bytes(PIECE)


def _is_blank(content: bytes) -> bool:
    return content == (_ZEROS if len(content) == PIECE else bytes(len(content)))


class File:
    """Content now, and as it is on the platter.

    `dropped` are the pages, by number, that a failed sync has not written and counts as clean; `cold` are
    numbers of pages outside the page cache, `blocks` of those that have a place on the disk.
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
        buffer = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        kept = min(size, len(self.buffer))
        buffer[:kept] = self.buffer[:kept]
        self.buffer = buffer

    def unreserved(self) -> list[int]:
        """Return the numbers of pages that were written and have no block: a real disk may have had none
        left.
        """
        content = self.content()
        pages = range(-(-len(content) // PAGE))
        return [n for n in pages if n not in self.blocks and any(content[n * PAGE : (n + 1) * PAGE])]

    def data_pages(self, start: int, stop: int) -> Iterator[int]:
        """Yield the numbers of the pages of a range that a file system calls data: those that hold anything
        but zeros, and of those that have blocks and nothing else, the ones in the page cache.
        """
        warm = self.blocks - self.cold
        for at in range(start // PAGE * PAGE, stop, PIECE):
            pages = range(at // PAGE, -(-min(at + PIECE, stop) // PAGE))
            is_blank = _is_blank(self.buffer[at : at + PIECE])
            yield from (n for n in pages if n in warm or not (is_blank or self._is_blank(n)))

    def _is_blank(self, number: int) -> bool:
        return _is_blank(self.buffer[number * PAGE : (number + 1) * PAGE])

    def make_sparse(self) -> None:
        """Take the blocks of pages of zeros."""
        self.blocks = {number for number in self.blocks if not self._is_blank(number)}

    def content(self) -> bytes:
        return self.buffer[:]

    def drop(self) -> None:
        """A sync fails: what it should have written counts as clean."""
        pages = zip(_pages(self.content()), _pages(self.durable.ljust(len(self.buffer), b"\0")), strict=False)
        self.dropped |= {number: new for number, (new, old) in enumerate(pages) if new != old}

    def see(self) -> bool:
        """Return True if the content is another than when it was last seen; always False for a large file."""
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
    """Return the content that a sync after a failed one leaves: pages not written since stay as they were."""
    pages = []
    old = file.durable.ljust(len(file.buffer), b"\0")
    for number, new in enumerate(_pages(file.content())):
        is_dropped = file.dropped.get(number) == new
        pages.append(old[number * PAGE : (number + 1) * PAGE] if is_dropped else new)
    return b"".join(pages)


def _pages(content: bytes) -> Iterator[bytes]:
    return (content[start : start + PAGE] for start in range(0, len(content), PAGE))
