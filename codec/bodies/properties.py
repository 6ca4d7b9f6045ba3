"""Java properties text: `name=value` lines in UTF-8, as in configuration files and the bodies of codes 25,
26, 318 and 319.

`java.util.Properties.load` reads `#` and `!` comments, `=`, `:` or blanks between name and value, lines
continued with a backslash, and backslash escapes. RocketMQ's `MixAll.properties2String` escapes nothing,
so its text is read without undoing escapes. The last entry of a name counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from codec.edited import unmarked
from codec.errors import BodyError

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_BLANKS: Final = " \t\f"
_ENTRY: Final = re.compile(r"((?:\\.|[^\\\s=:])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_RAW_ENTRY: Final = re.compile(r"([^=:\s]+)[ \t\f]*[=:]?[ \t\f]*(.*)")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LETTERS: Final = {character: letter for letter, character in _CONTROLS.items()}
_IN_NAME: Final = re.compile(r"[\\\s=:]|^[#!]")
_IN_VALUE: Final = re.compile(r"[\\\r\n]|^[ \t\f]")
_NOT_UTF8: Final = re.compile("[\udc80-\udcff]")
"""Bytes that `surrogateescape` has left."""


def parse_properties(text: str) -> dict[str, str]:
    """Return the entries of a text, as `Properties.load` reads it."""
    matches = map(_ENTRY.fullmatch, filter(None, _logical_lines(text)))
    return {_unescape(match[1]): _unescape(match[2]) for match in matches if match}


def format_properties(entries: Mapping[str, str]) -> str:
    """Return one line for each entry, as `MixAll.properties2String` writes it: nothing is escaped or checked."""
    return "".join(f"{name}={value}\n" for name, value in entries.items())


def store_properties(entries: Mapping[str, str]) -> str:
    """Return the text of a file, from which `parse_properties` reads exactly these entries, whatever they
    hold.
    """
    return "".join(
        f"{_IN_NAME.sub(_escape, name)}={_IN_VALUE.sub(_escape, value)}\n" for name, value in entries.items()
    )


def load_properties_text(data: bytes | bytearray | memoryview) -> dict[str, str]:
    """Return the entries of a body, as `Properties.load` reads it. Raises BodyError when it is not UTF-8."""
    return parse_properties(_decoded(data))


def load_properties_file(data: bytes) -> dict[str, str]:
    """Return the entries of a file. Comments may be in any encoding. BodyError when a name or value is not
    UTF-8.
    """
    try:
        text = unmarked(data).decode("utf-8", "surrogateescape")
    except ValueError as error:
        raise BodyError(str(error)) from None
    for line in _logical_lines(text):
        if _NOT_UTF8.search(line):
            match = _ENTRY.fullmatch(line)
            name = "" if match is None or _NOT_UTF8.search(match[1]) else _unescape(match[1])
            raise BodyError(
                f"the value of {name} is not UTF-8" if name else "the name of a property is not UTF-8"
            )
    return parse_properties(text)


def decode_properties_text(data: bytes | bytearray | memoryview) -> dict[str, str]:
    """Return the entries of a body that RocketMQ wrote. Raises BodyError when it is not UTF-8."""
    text = _decoded(data)
    matches = (_RAW_ENTRY.fullmatch(line) for line in _lines(text) if not _is_comment(line))
    return {match[1]: match[2] for match in matches if match}


def encode_properties_text(properties: Mapping[str, str]) -> bytes:
    """Return the body of some entries. Raises ValueError for a name or value that could not be read back."""
    for name, value in properties.items():
        if not name or re.search(r"[=:\s]|^[#!]", name) or re.search(r"[\r\n]", value):
            raise ValueError(f"property {name!r} cannot be written as a line of text")
    return format_properties(properties).encode()


def _lines(text: str) -> Iterator[str]:
    return (line.lstrip(_BLANKS) for line in _LINE_END.split(text))


def _is_comment(line: str) -> bool:
    return line[:1] in ("", "#", "!")


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments; a line that ends with an odd number of backslashes continues on the next."""
    parts: list[str] = []
    for line in _lines(text):
        if not parts and _is_comment(line):
            continue
        continues = (len(line) - len(line.rstrip("\\"))) % 2
        parts.append(line[: len(line) - continues])
        if not continues:
            yield "".join(parts)
            parts.clear()
    yield "".join(parts)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_escaped_character, text) if "\\" in text else text


def _escaped_character(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) == 5 else _CONTROLS.get(code, code)


def _escape(match: re.Match[str]) -> str:
    return "\\" + _LETTERS.get(match[0], match[0])


def _decoded(data: bytes | bytearray | memoryview) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise BodyError(f"properties text is not UTF-8 at byte {error.start}") from None
