"""Standard output as bytes: whole lines, flushed when a reader waits for them.

Message bodies are bytes, so output is bytes; text goes out as UTF-8 whatever the locale says. On a terminal every line is
flushed, in a pipe only when `flush` is called or the buffer is full.
"""

from __future__ import annotations

import sys
from typing import Any, BinaryIO, Protocol

__all__ = ["Output", "encode_text", "json_line"]


def encode_text(text: str) -> bytes:
    """UTF-8; what no UTF-8 can carry (lone surrogates: bytes that were no text) is written \\xNN or \\uNNNN."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape" if _only_escapes(text) else "backslashreplace")


def _only_escapes(text: str) -> bool:
    return all(
        not "\ud800" <= character <= "\udfff" or "\udc80" <= character <= "\udcff" for character in text
    )


def json_line(value: Any) -> bytes:
    """Compact JSON without a line end."""
    import msgspec

    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # lone surrogates: JSON can say them as \uDCxx, msgspec does not
        import json

        return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()


class OutputSettings(Protocol):
    """How results are to look; `rmqcli.cli.settings.Settings` has these properties."""

    @property
    def json(self) -> bool: ...
    @property
    def verbose(self) -> bool: ...
    @property
    def terminal(self) -> bool: ...
    @property
    def color(self) -> bool: ...


class Output:
    """Writes lines to standard output (or `stream`)."""

    def __init__(self, stream: BinaryIO | None = None) -> None:
        self._stream: BinaryIO = stream if stream is not None else sys.stdout.buffer
        self._eager = self._stream.isatty()

    def write(self, data: bytes) -> None:
        self._stream.write(data)
        if self._eager:
            self._stream.flush()

    def line(self, text: str | bytes) -> None:
        self.write((text if isinstance(text, bytes) else encode_text(text)) + b"\n")

    def json(self, value: Any) -> None:
        """One JSON document on one line."""
        self.line(json_line(value))

    def flush(self) -> None:
        self._stream.flush()


def warn(text: str) -> None:
    """One line on standard error. Names in it may be anybody's."""
    from rmqcli.render.text import printable

    print(f"rmq: {printable(text)}", file=sys.stderr, flush=True)
