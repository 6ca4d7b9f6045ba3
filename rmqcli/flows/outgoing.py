"""Creates messages from the options and the input of `rmq send`."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import trio

from rmqcli.codec.message import Message
from rmqcli.codec.property_names import RESERVED, PropertyName
from rmqcli.flows.errors import FlowError
from rmqcli.flows.sending import Job
from rmqcli.grammar.values import GrammarError, by_name
from rmqcli.render.message_json import message_from_json, sendable

# Splits a stream of bytes into messages as they arrive, reading no further ahead than the buffers below.
#
# A delimiter at the end adds no empty piece. A piece over the limit is dropped and reported, so that one
# endless line cannot fill the memory.

READ_SIZE = 64 * 1024
MAX_PIECE = 64 * 1024 * 1024
"""Maximum bytes of a piece; far more than a broker accepts (4 MiB by default), even as base64 in JSON."""


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
        """Add bytes, and return the pieces that are now complete."""
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
        # A piece above the limit is counted, but no longer kept: memory stays bounded.
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
    # With a limit of 0, no bytes are kept.
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
    """Yield the pieces of a file descriptor; if `delimiter` is None, everything is one piece."""
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


STDIN = Path("-")
_INSTEAD = {
    PropertyName.KEYS: "--key",
    PropertyName.TAGS: "--tag",
    PropertyName.DELAY: "--delay or --delay-level",
    PropertyName.TRAN_MSG: "--transaction",
    PropertyName.PRIORITY: "--priority",
}
"""The option that sets a reserved property."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """The properties that the options put on every message."""

    topic: str
    properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        topic: str,
        keys: Sequence[str],
        tag: str | None,
        properties: Sequence[str],
        priority: int | None = None,
    ) -> Stamp:
        """Return the stamp of the options; raise GrammarError for an invalid one."""
        named = by_name("--property", (_property(text) for text in properties))
        if any(not key or " " in key for key in keys):
            raise GrammarError("--key: a key must not be empty or contain spaces, which separate keys")
        if keys:
            named[PropertyName.KEYS] = " ".join(keys)
        if tag:
            named[PropertyName.TAGS] = tag
        if priority is not None:
            named[PropertyName.PRIORITY] = str(priority)
        return cls(topic, named)

    def delayed(self, name: str, value: str) -> Stamp:
        """Return this stamp with the property that delays a message."""
        return Stamp(self.topic, {**self.properties, name: value})

    def on_body(self, body: bytes) -> Message:
        return Message(topic=self.topic, body=body, properties=dict(self.properties))

    def on_line(self, line: bytes) -> Message:
        """Return the message of a JSON line; options override its values. Raise GrammarError for an invalid
        line.
        """
        message = sendable(message_from_json(line, self.topic))
        return message.with_properties(self.properties)


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals or not value:
        raise GrammarError(f"--property {text!r}: expected NAME=VALUE, neither empty")
    if name in RESERVED:
        instead = _INSTEAD.get(name)
        raise GrammarError(
            f"--property {name}: RocketMQ reserves this name{f'; use {instead}' if instead else ''}"
        )
    if any(mark in text for mark in "\x01\x02"):
        raise GrammarError(
            f"--property {name}: the bytes 1 and 2 separate properties and are not allowed in one"
        )
    return name, value


Source = bytes | Path


async def jobs_of(
    sources: Sequence[Source], stamp: Stamp, delimiter: bytes | None, *, jsonl: bool
) -> AsyncGenerator[Job, None]:
    """Yield the messages of all sources, numbered consecutively and read on demand."""
    number = 0
    for source in sources:
        async with aclosing(_pieces(source, delimiter)) as pieces:
            async for piece in pieces:
                number += 1
                if not (jsonl and piece.data is not None and not piece.data.strip()):
                    yield Job(number, _message(piece, stamp, jsonl=jsonl))


async def _pieces(source: Source, delimiter: bytes | None) -> AsyncGenerator[Piece, None]:
    if isinstance(source, bytes):
        yield Piece(1, source)
        return
    with _opened(source) as descriptor:
        async with aclosing(read_pieces(descriptor, delimiter)) as pieces:
            async for piece in pieces:
                yield piece


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    if path == STDIN:
        yield 0
        return
    with path.open("rb", buffering=0) as stream:
        yield stream.fileno()


def _message(piece: Piece, stamp: Stamp, *, jsonl: bool) -> Message | Exception:
    if piece.data is None:
        return FlowError(f"longer than {MAX_PIECE} bytes")
    if not jsonl:
        return stamp.on_body(piece.data)
    try:
        return stamp.on_line(piece.data)
    except GrammarError as error:
        return error
