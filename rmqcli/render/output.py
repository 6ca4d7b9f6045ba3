"""Standard output as bytes in whole lines, notes and warnings on standard error.

Message bodies are bytes, so output is bytes; text is written as UTF-8 regardless of the locale. On a terminal
every line is flushed; in a pipe, only by `flush` or when the buffer is full.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from rmqcli.render import text
from rmqcli.render.progress import QUIET
from rmqcli.render.text import one_line, printable

if TYPE_CHECKING:
    from rmqcli.render.table import RowForm

JSON_VERSION = 1
"""The version of JSON documents: members are only added to it (docs/output.md, `schema.json`)."""
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")


def encode_text(text: str) -> bytes:
    r"""Return UTF-8. Surrogates that represent bytes that were not text become these bytes again; with any
    other lone surrogate in the text, all are written \uNNNN.
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        only_escapes = all("\udc80" <= one <= "\udcff" or not "\ud800" <= one <= "\udfff" for one in text)
        return text.encode("utf-8", "surrogateescape" if only_escapes else "backslashreplace")


def escape_controls(data: bytes) -> bytes:
    """Return the text with invisible characters, and bytes that are not UTF-8, as escapes; tabs and newlines
    are kept.
    """
    if data.isascii() and not _CONTROL.search(data):
        return data
    return printable(data.decode("utf-8", "surrogateescape")).encode()


def safe_json(document: bytes) -> bytes:
    """Return the same JSON with terminal control characters and invisible characters as escapes."""
    if document.isascii() and b"\x7f" not in document:
        return document
    return text.safe_json(document.decode("utf-8", "surrogatepass")).encode()


def json_line(value: Any) -> bytes:
    """Return compact JSON without a line end."""
    import msgspec

    try:
        return safe_json(msgspec.json.encode(value))
    except UnicodeEncodeError:  # lone surrogates: valid in JSON as \uDCxx, but not supported by msgspec
        import json

        return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()


class OutputSettings(Protocol):
    """The form of results; `rmqcli.cli.settings.Settings` implements it."""

    @property
    def json(self) -> bool: ...
    @property
    def verbose(self) -> bool: ...
    @property
    def terminal(self) -> bool: ...
    @property
    def tty(self) -> bool: ...
    @property
    def table(self) -> bool: ...
    @property
    def rows(self) -> RowForm: ...
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
        """Write one JSON document on one line; the last member of an object is the version of documents."""
        self.line(json_line(value | {"version": JSON_VERSION} if isinstance(value, dict) else value))

    def flush(self) -> None:
        self._stream.flush()


def note(text: str) -> None:
    """Print a note in one line on standard error, where it does not mix with data. Line breaks are escaped,
    because names may be chosen by others. Print nothing with --quiet.
    """
    if not QUIET.get():
        _print(text)


def warn(text: str) -> None:
    """Print a warning in one line on standard error."""
    _print(f"rmq: {text}")


def _print(text: str) -> None:
    print(one_line(text), file=sys.stderr, flush=True)
