"""Java properties text: `name=value` lines, as broker.conf, namesrv.conf and the bodies of codes 25, 26, 318, 319.

Reading follows `java.util.Properties.load`: `#` and `!` comments, `=`, `:` or blanks between name and value, a
backslash at the end continues the line, backslash escapes with four-digit `u` escapes. The bytes are UTF-8.
Writing is RocketMQ's `MixAll.properties2String`: `name=value` and a line feed, nothing escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from broker.errors import ConfigError

__all__ = ["format_properties", "parse_properties", "read_properties", "write_properties"]

_ENTRY = re.compile(r"((?:\\.|[^\\\s=:])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Every entry; of a name that comes twice the last one counts. Values lose blanks at both ends."""
    entries: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _ENTRY.fullmatch(line)
        if match is not None:
            entries[_unescape(match[1])] = _unescape(match[2]).strip()
    return entries


def format_properties(entries: Mapping[str, str]) -> str:
    """One `name=value` line each, in the given order."""
    return "".join(f"{name}={value}\n" for name, value in entries.items())


def read_properties(path: Path) -> dict[str, str]:
    """Raises ConfigError when the file cannot be read or is not UTF-8."""
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}") from error


def write_properties(path: Path, entries: Mapping[str, str]) -> None:
    """Replaces the file at once: no reader ever sees half of it."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(format_properties(entries), encoding="utf-8")
    temporary.replace(path)


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    for raw in re.split(r"\r\n|\r|\n", text):
        line = pending + raw.lstrip(" \t\f")
        if not pending and line[:1] in ("", "#", "!"):
            continue
        if _ends_open(line):
            pending = line[:-1]
            continue
        pending = ""
        yield line
    if pending:
        yield pending


def _ends_open(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_escaped_character, text) if "\\" in text else text


def _escaped_character(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) == 5:
        return chr(int(code[1:], 16))
    return _NAMED.get(code, code)
