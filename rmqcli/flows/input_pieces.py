"""Splits a stream of bytes into messages as they arrive, reading no further ahead than the buffers below.

A delimiter at the end adds no empty piece. A piece over the limit is dropped and reported, so that one
endless line cannot fill the memory.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import trio

READ_SIZE = 64 * 1024
MAX_PIECE = 64 * 1024 * 1024
"""Bytes; far more than a broker accepts (4 MiB by default), even as base64 in JSON."""


class Piece(NamedTuple):
    """Piece `number` (from 1) of an input; `data` is None if it was longer than the limit."""

    number: int
    data: bytes | None


class Splitter:
    """Takes bytes and returns whole pieces. Sans-IO."""

    def __init__(self, delimiter: bytes, limit: int) -> None:
        self._delimiter = delimiter
        self._limit = limit
        self._parts: list[bytes] = []
        self._length = 0
        self._number = 0
        self._tail = b""

    def feed(self, data: bytes) -> list[Piece]:
        """Return the pieces that are complete now."""
        # Reads may cut a delimiter in two: keep its possible first part for the next round.
        data = self._tail + data
        pieces = data.split(self._delimiter)
        rest = pieces.pop()
        keep = self._overlap(rest)
        self._tail = rest[len(rest) - keep :]
        found = [self._complete(piece) for piece in pieces]
        self._hold(rest[: len(rest) - keep])
        return found

    def end(self) -> list[Piece]:
        """Return the last piece if the stream does not end with a delimiter."""
        self._hold(self._tail)
        self._tail = b""
        return [self._complete(b"")] if self._length else []

    def _overlap(self, rest: bytes) -> int:
        longest = min(len(self._delimiter) - 1, len(rest))
        return next((n for n in range(longest, 0, -1) if self._delimiter.startswith(rest[-n:])), 0)

    def _hold(self, part: bytes) -> None:
        self._length += len(part)
        if self._length <= self._limit and part:
            self._parts.append(part)

    def _complete(self, part: bytes) -> Piece:
        self._hold(part)
        data = b"".join(self._parts) if self._length <= self._limit else None
        self._parts, self._length = [], 0
        self._number += 1
        return Piece(self._number, data)


def count_pieces(path: Path, delimiter: bytes | None) -> int | None:
    """Return the number of pieces of a regular file, read once; None for another file, such as a pipe."""
    if not path.is_file():
        return None
    if delimiter is None:
        return 1
    splitter = Splitter(delimiter, 0)
    with path.open("rb", buffering=0) as stream:
        counts = [len(splitter.feed(data)) for data in iter(lambda: stream.read(READ_SIZE), b"")]
    return sum(counts) + len(splitter.end())


async def _read(descriptor: int) -> bytes:
    # os.read, not sys.stdin: an abandoned thread then holds no lock that the interpreter needs to exit.
    return await trio.to_thread.run_sync(partial(os.read, descriptor, READ_SIZE), abandon_on_cancel=True)


async def read_pieces(
    descriptor: int, delimiter: bytes | None, limit: int = MAX_PIECE
) -> AsyncGenerator[Piece, None]:
    """Yield the pieces of a file descriptor; `delimiter` None: everything is one piece."""
    if delimiter is None:
        yield await _whole(descriptor, limit)
        return
    splitter = Splitter(delimiter, limit)
    while data := await _read(descriptor):
        for piece in splitter.feed(data):
            yield piece
    for piece in splitter.end():
        yield piece


async def _whole(descriptor: int, limit: int) -> Piece:
    parts, length = [], 0
    while data := await _read(descriptor):
        parts.append(data)
        length += len(data)
        if length > limit:
            return Piece(1, None)
    return Piece(1, b"".join(parts))
