"""Makes messages of the options and the input of `rmq send`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from codec.message import Message
from codec.properties import RESERVED, PropertyName
from rmqcli.flows.errors import FlowError
from rmqcli.flows.input_pieces import MAX_PIECE, Piece, read_pieces
from rmqcli.flows.sending import Job
from rmqcli.grammar.errors import GrammarError
from rmqcli.grammar.pairs import by_name
from rmqcli.render.message_json import message_from_json, sendable

STDIN = Path("-")
_INSTEAD = {
    PropertyName.KEYS: "--key",
    PropertyName.TAGS: "--tag",
    PropertyName.DELAY: "--delay or --delay-level",
    PropertyName.TRAN_MSG: "--transaction",
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
        level: int | None = None,
    ) -> Stamp:
        """Return the stamp of the options; raise GrammarError for an invalid one."""
        named = by_name("--property", (_property(text) for text in properties))
        if any(not key or " " in key for key in keys):
            raise GrammarError("--key: a key must not be empty or contain spaces, which separate keys")
        if keys:
            named[PropertyName.KEYS] = " ".join(keys)
        if tag:
            named[PropertyName.TAGS] = tag
        stamp = cls(topic, named)
        return stamp if level is None else stamp.delayed(level)

    def delayed(self, level: int) -> Stamp:
        """Return this stamp with a delay level."""
        return Stamp(self.topic, {**self.properties, PropertyName.DELAY: str(level)})

    def on_body(self, body: bytes) -> Message:
        return Message(topic=self.topic, body=body, properties=dict(self.properties))

    def on_line(self, line: bytes) -> Message:
        """Return the message of a JSON line; options override its values. GrammarError for another line."""
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
