r"""A writer of values as fastjson 1.2.x writes them (Java `RemotingSerializable.toJson`).

Members of a Struct are in the order of their names, entries of a dict in their own order. Values of None are
omitted, and there are no blanks. Pretty text is indented with tabs as in Java's config files, where entries
whose keys are not strings stay on one line, as do arrays and sets (here tuples and sets) but not lists.
Characters that UTF-8 cannot carry, and those that fastjson escapes, become `\uXXXX`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Iterable
from enum import Enum
from itertools import repeat
from typing import Any, Final, NamedTuple, get_type_hints

import msgspec

PIECES_PER_STEP: Final = 256
SHORT_TABLE: Final = 64
"""A table with at most this many entries, none of them a table, is written in one step."""


class JsonDialect(Enum):
    """The forms of a key that is not a string."""

    STANDARD = "standard"  # {"0":…} and {"{\"topic\":…}":…}: JSON, and fastjson reads it
    FASTJSON = "fastjson"  # {0:…} and {{"topic":…}:…}: as Java itself writes it


STANDARD: Final = JsonDialect.STANDARD
FASTJSON: Final = JsonDialect.FASTJSON


_UNSAFE: Final = re.compile('["\\\\\x00-\x1f\x7f-\xa0\u2028\u2029\ud800-\udfff]')
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escape_one(match: re.Match[str]) -> str:
    char = match[0]
    return _ESCAPES.get(char) or f"\\u{ord(char):04X}"


def _quote(text: str) -> str:
    return f'"{_UNSAFE.sub(_escape_one, text)}"' if _UNSAFE.search(text) else f'"{text}"'


class _Member(NamedTuple):
    head: str  # "name": as written
    attribute: str


class _Members(dict[type[msgspec.Struct], tuple[_Member, ...]]):
    """The members of a Struct class in the order of their wire names."""

    def __missing__(self, cls: type[msgspec.Struct]) -> tuple[_Member, ...]:
        pairs = sorted(zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True))
        members = self[cls] = tuple(_Member(f"{_quote(wire)}:", name) for wire, name in pairs)
        return members


_MEMBERS: Final = _Members()


class _Tables(dict[type, tuple[str, ...]]):
    """The members of a Struct class that may be tables or lists: all that do not have a scalar type."""

    def __missing__(self, cls: type[msgspec.Struct]) -> tuple[str, ...]:
        hints = get_type_hints(cls)
        names = self[cls] = tuple(name for name in cls.__struct_fields__ if not _is_scalar(hints[name]))
        return names


def _is_scalar(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, str | int | float | Enum)


_TABLES: Final = _Tables()


class _Writer:
    """A collector of the pieces of one text."""

    def __init__(self, dialect: JsonDialect, pretty: bool) -> None:
        self.bare_keys = dialect is FASTJSON
        self.pretty = pretty
        self.pieces: list[str] = []

    def line(self, level: int) -> str:
        return "\n" + "\t" * level if self.pretty else ""

    def write(self, value: Any, level: int = 0) -> None:
        writer = _BY_TYPE.get(type(value)) or _writer_of(value)
        writer(self, value, level)

    def scalar(self, value: Any, _level: int) -> None:
        self.pieces.append(_scalar(value))

    def struct(self, value: Any, level: int) -> None:
        add, line, mark = self.pieces.append, self.line(level + 1), "{"
        for head, attribute in _MEMBERS[type(value)]:
            item = getattr(value, attribute)
            if item is not None:
                add(mark + line + head)
                self.write(item, level + 1)
                mark = ","
        add(("{" + line if mark == "{" else "") + self.line(level) + "}")

    def mapping(self, value: Any, level: int) -> None:
        add, line, mark = self.pieces.append, self.line(level + 1), "{"
        for key, item in value.items():
            if item is not None:
                add(mark)
                self.key(key, line, level + 1)
                self.write(item, level + 1)
                mark = ","
        add("{}" if mark == "{" else self.line(level) + "}")

    def key(self, key: Any, line: str, level: int) -> None:
        if isinstance(key, str):
            self.pieces.append(line + _quote(key) + ":")
        elif self.bare_keys:
            self.write(key, level)
            self.pieces.append(":")
        else:
            text = dumps(key)
            self.pieces.append(
                line + (_quote(text) if isinstance(key, msgspec.Struct) else f'"{text}"') + ":"
            )

    def sequence(self, value: Any, level: int) -> None:
        self.items(value, level, self.line(level + 1), self.line(level))

    def flat(self, value: Any, level: int) -> None:
        """Write the items of a Java array or set, which pretty text keeps on one line."""
        self.items(value, level, "", "")

    def items(self, value: Any, level: int, before: str, after: str) -> None:
        mark = "["
        for item in value:
            self.pieces.append(mark + before)
            self.write(item, level + 1)
            mark = ","
        self.pieces.append("[]" if mark == "[" else after + "]")

    def steps(self, value: Any, level: int = 0) -> Generator[None, None, None]:
        """Write as `write` does, but yield after every `PIECES_PER_STEP` pieces."""
        if not _is_long(value):
            self.write(value, level)
            return
        is_list, line = isinstance(value, list), self.line(level + 1)
        mark = opening = "[" if is_list else "{"
        for key, item in _entries(value):
            if item is None and not is_list:
                continue
            self.pieces.append(mark)
            if is_list or isinstance(value, msgspec.Struct):
                self.pieces.append(line + key)
            else:
                self.key(key, line, level + 1)
            yield from self.steps(item, level + 1)
            mark = ","
            if len(self.pieces) >= PIECES_PER_STEP:
                yield
        self.pieces.append((opening if mark == opening else self.line(level)) + ("]" if is_list else "}"))


def _is_long(value: Any) -> bool:
    """Return True for a value that is written in steps: it has many parts, or parts that may have many."""
    if isinstance(value, msgspec.Struct):
        return any(isinstance(getattr(value, name), dict | list) for name in _TABLES[type(value)])
    if not value or not isinstance(value, dict | list):
        return False
    # Values of one table have one type, so the first shows whether they are long.
    first = next(iter(value.values() if isinstance(value, dict) else value))
    return len(value) > SHORT_TABLE or type(first) not in _SCALARS


def _entries(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return keys, or beginnings of members as written, with their values; a dict or list may change between
    steps.
    """
    if isinstance(value, msgspec.Struct):
        return [(head, getattr(value, name)) for head, name in _MEMBERS[type(value)]]
    if isinstance(value, dict):
        return ((key, value[key]) for key in list(value) if key in value)
    return zip(repeat(""), list(value), strict=False)


_SCALARS: Final[dict[type, Callable[[Any], str]]] = {
    str: _quote,
    int: int.__repr__,
    bool: lambda value: "true" if value else "false",
    # JSON has no NaN or infinity; Java reads null as 0.0.
    float: lambda value: repr(value) if math.isfinite(value) else "0.0",
    type(None): lambda _: "null",
}


def _scalar(value: Any) -> str:
    return _SCALARS[type(value)](value)


_WriteOne = Callable[[_Writer, Any, int], None]
_BY_TYPE: Final[dict[type, _WriteOne]] = {
    **dict.fromkeys(_SCALARS, _Writer.scalar),
    dict: _Writer.mapping,
    list: _Writer.sequence,
    tuple: _Writer.flat,
    set: _Writer.flat,
    frozenset: _Writer.flat,
}


def _writer_of(value: Any) -> _WriteOne:
    if isinstance(value, msgspec.Struct):
        writer: _WriteOne = _Writer.struct
    elif isinstance(value, Enum):
        return lambda self, member, _: self.pieces.append(_scalar(member.value))
    else:
        raise TypeError(f"{type(value).__name__} has no JSON form")
    _BY_TYPE[type(value)] = writer
    return writer


def dumps(value: Any, *, dialect: JsonDialect = STANDARD, pretty: bool = False) -> str:
    """Return the text that fastjson writes for a Struct or plain value. Raises TypeError for other values."""
    writer = _Writer(dialect, pretty)
    writer.write(value)
    return "".join(writer.pieces)


def dumps_in_steps(
    value: Any, *, dialect: JsonDialect = STANDARD, pretty: bool = False
) -> Generator[None, None, bytes]:
    """Like `dumps`, in UTF-8, but yields after every few hundred pieces so that other tasks can run.

    A change to a dict or list between two steps may or may not appear in the text.
    """
    return b"".join((yield from chunks_in_steps(value, dialect=dialect, pretty=pretty)))


def chunks_in_steps(
    value: Any, *, dialect: JsonDialect = STANDARD, pretty: bool = False
) -> Generator[None, None, list[bytes]]:
    """Like `dumps_in_steps`, for a text that is too long to be joined at once: return it in chunks."""
    writer, chunks = _Writer(dialect, pretty), []
    for _ in writer.steps(value):
        chunks.append("".join(writer.pieces).encode())
        writer.pieces.clear()
        yield
    chunks.append("".join(writer.pieces).encode())
    return chunks
