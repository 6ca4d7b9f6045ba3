"""From the options and the input of `rmq send` to messages."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from codec.message import Message
from codec.properties import PropertyName
from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.flows.input_pieces import MAX_PIECE, Piece, read_pieces
from rmqcli.flows.sending import Job
from rmqcli.render.message_json import message_from_json, sendable

__all__ = ["Stamp", "check_sources", "jobs_of", "unescape"]

_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|(.))", re.S)
_STDIN = Path("-")


def unescape(text: str) -> bytes:
    r"""The bytes of a delimiter with \n \t \r \0 \\ \xNN; a usage error for anything else after a backslash."""

    def replace(match: re.Match[bytes]) -> bytes:
        if match[1]:
            return bytes([int(match[1], 16)])
        name = match[2].decode("latin-1")
        if name not in _ESCAPES:
            raise usage_error(rf"--delimiter {text!r}: unknown escape \{name}; there are \n \t \r \0 \\ \xNN")
        return _ESCAPES[name]

    found = _ESCAPE.sub(replace, os.fsencode(text))
    if not found:
        raise usage_error("--delimiter may not be empty; --whole sends the input as one message")
    return found


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the options put on every message."""

    topic: str
    properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        topic: str,
        keys: Sequence[str],
        tag: str | None,
        properties: Sequence[str],
        level: int | None = None,
    ) -> Stamp:
        """Checks the options; usage errors name them."""
        named = dict(_property(text) for text in properties)
        if any(not key or " " in key for key in keys):
            raise usage_error("--key: a key may not be empty or hold a blank, which separates keys")
        if keys:
            named[PropertyName.KEYS] = " ".join(keys)
        if tag:
            named[PropertyName.TAGS] = tag
        stamp = cls(topic, named)
        return stamp if level is None else stamp.delayed(level)

    def delayed(self, level: int) -> Stamp:
        """The same with a delay level."""
        return Stamp(self.topic, {**self.properties, PropertyName.DELAY: str(level)})

    def on_body(self, body: bytes) -> Message:
        return Message(topic=self.topic, body=body, properties=dict(self.properties))

    def on_line(self, line: bytes) -> Message:
        """A JSON line; the options win over what it says. CommandError when it is none."""
        message = sendable(message_from_json(line, self.topic))
        return message.with_properties(self.properties)


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals or not value:
        raise usage_error(f"--property {text!r}: NAME=VALUE is expected, both not empty")
    if any(mark in text for mark in "\x01\x02"):
        raise usage_error(
            f"--property {name}: the bytes 1 and 2 separate properties and cannot be part of one"
        )
    return name, value


Source = bytes | Path


def check_sources(body: str | None, files: Sequence[Path], *, whole: bool, jsonl: bool) -> list[Source]:
    """Where the messages come from; a usage error when the options contradict each other."""
    if body is not None and (files or whole):
        raise usage_error("BODY excludes --file and --whole")
    if jsonl and whole:
        raise usage_error("--jsonl excludes --whole")
    if body is not None:
        return [os.fsencode(body)]
    if not files and sys.stdin is None:
        raise usage_error("standard input is closed: give BODY or --file")
    return list(files) or [_STDIN]


async def jobs_of(
    sources: Sequence[Source], stamp: Stamp, delimiter: bytes | None, *, jsonl: bool
) -> AsyncGenerator[Job, None]:
    """The messages of all sources, numbered through, read no faster than they are taken."""
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
    if path == _STDIN:
        yield 0
        return
    with path.open("rb", buffering=0) as stream:
        yield stream.fileno()


def _message(piece: Piece, stamp: Stamp, *, jsonl: bool) -> Message | CommandError:
    if piece.data is None:
        return CommandError(f"longer than {MAX_PIECE} bytes", ExitCode.FAILED)
    if not jsonl:
        return stamp.on_body(piece.data)
    try:
        return stamp.on_line(piece.data)
    except CommandError as error:
        return error
