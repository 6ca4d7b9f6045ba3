"""A reader of the JSON that fastjson 1.2.x writes, standard or not (Java `RemotingSerializable`).

Beyond JSON it accepts keys that are bare numbers, bare identifiers, single-quoted strings or whole
objects; values in single quotes; a comma before a closing bracket; and `{"$ref": path}` with the paths
`$`, `..`, `@` and `$.a[0].b`. Every key becomes text: a number as it was written, an object as compact
JSON.

A text has at most 64 MiB, 128 levels, and 64 characters in a number; beyond that BodyError is raised.
Time is linear in the text. A key refers to a flat object of short texts, such as a message queue, or to
nothing. A reference shares its target, so a walk over the value can be far longer than the text, or
endless: see `expanded_size`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from rmqcli.codec.errors import BodyError
from rmqcli.codec.fastjson_writer import (
    FASTJSON,
    STANDARD,
    JsonDialect,
    chunks_in_steps,
    dumps,
    dumps_in_steps,
)

__all__ = [
    "FASTJSON",
    "STANDARD",
    "JsonDialect",
    "chunks_in_steps",
    "dumps",
    "dumps_in_steps",
    "expanded_size",
    "loads",
    "loads_finite",
]

MAX_TEXT: Final = 64 * 1024 * 1024
MAX_DEPTH: Final = 128
MAX_NUMBER: Final = 64
MAX_KEY_MEMBERS: Final = 4
MAX_KEY_TEXT: Final = 512
"""Limits of an object that a key refers to, because it is written out for each of its keys."""
MAX_EXPANDED: Final = 4_000_000
_CHARACTERS: Final = 64
"""The number of characters of a text that count as one more value of a walk."""

# Groups: double-quoted, single-quoted, number, identifier, mark. Quantifiers are possessive, so that a quote
# that is never closed costs one pass.
_TOKEN: Final = re.compile(
    r"""\s*+(?:"([^"\\]*+(?:\\.[^"\\]*+)*+)"
           |'([^'\\]*+(?:\\.[^'\\]*+)*+)'
           |([-+]?\.?[0-9][0-9.eE+-]*+)[LSBFD]?
           |([A-Za-z_$][A-Za-z0-9_$]*+)
           |([{}\[\]:,]))""",
    re.VERBOSE | re.DOTALL,
)
_DOUBLE, _SINGLE, _NUMBER, _WORD, _MARK = 1, 2, 3, 4, 5
# A text, which re compiles when it is first used: most commands do not use it.
_ESCAPE: Final = r"(?s)\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))"
_ESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_WORDS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None, "NaN": None, "undefined": None}
_STEP: Final = re.compile(r"\.((?:\\.|[^.\[\\])++)|\[(\d{1,9})\]|\['([^']*+)'\]|\[\"([^\"]*+)\"\]", re.DOTALL)


def _unescape_one(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _ESCAPED.get(match[3], match[3])


def _unescape(text: str) -> str:
    if "\\" in text:
        text = re.sub(_ESCAPE, _unescape_one, text)
    if _SURROGATE.search(text):
        # Joins the halves of escaped surrogate pairs; a lone half becomes U+FFFD.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _number(text: str) -> int | float:
    if len(text) > MAX_NUMBER:
        raise BodyError(f"a number of {len(text)} characters")
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise BodyError(f"{text!r} is not a number") from None


class _Reference(NamedTuple):
    container: Any
    key: Any
    path: str


class _Parser:
    """A recursive descent through one text; `stack` holds the containers that are still open."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.stack: list[Any] = []
        self.in_key = False
        self.refers = False
        self.references: list[_Reference] = []
        self.key_references: list[_Reference] = []

    def fail(self, expected: str) -> BodyError:
        found = self.text[self.position : self.position + 16]
        return BodyError(f"JSON at character {self.position}: expected {expected}, found {found!r}")

    def token(self, expected: str) -> tuple[int, str]:
        match = _TOKEN.match(self.text, self.position)
        if match is None:
            raise self.fail(expected)
        self.position = match.end()
        kind = match.lastindex or 0
        return kind, match[kind]

    def value(self, kind: int, text: str) -> Any:
        if kind == _MARK:
            if text == "{":
                return self.object()
            if text == "[":
                return self.array()
        elif kind == _NUMBER:
            return _number(text)
        elif kind != _WORD:
            return _unescape(text)
        elif text in _WORDS:
            return _WORDS[text]
        raise self.fail(f"a value before {text!r}")

    def enter(self, container: Any) -> None:
        if len(self.stack) >= MAX_DEPTH:
            raise BodyError(f"JSON nested deeper than {MAX_DEPTH} levels")
        self.stack.append(container)

    def array(self) -> list[Any]:
        items: list[Any] = []
        self.enter(items)
        kind, text = self.token("an item or ]")
        while text != "]" or kind != _MARK:
            items.append(self.value(kind, text))
            self.refer(items, len(items) - 1)
            kind, text = self.token(", or ]")
            if kind == _MARK and text == ",":
                kind, text = self.token("an item or ]")
            elif kind != _MARK or text != "]":
                raise self.fail(", or ]")
        self.stack.pop()
        return items

    def object(self) -> dict[str, Any]:
        members: dict[str, Any] = {}
        self.enter(members)
        kind, text = self.token("a key or }")
        while text != "}" or kind != _MARK:
            key = self.key(members, kind, text)
            if self.token(":") != (_MARK, ":"):
                raise self.fail(":")
            members[key] = self.value(*self.token("a value"))
            self.refer(members, key)
            kind, text = self.token(", or }")
            if kind == _MARK and text == ",":
                kind, text = self.token("a key or }")
            elif kind != _MARK or text != "}":
                raise self.fail(", or }")
        self.stack.pop()
        return members

    def key(self, members: dict[str, Any], kind: int, text: str) -> str:
        if kind != _MARK:
            return _unescape(text) if kind in {_DOUBLE, _SINGLE} else text
        # A key inside a key is refused, because its escapes would double with every level.
        if text != "{" or self.in_key:
            raise self.fail("a key")
        self.in_key = True
        value = self.object()
        self.in_key = False
        key = dumps(value)
        path = _path_of(value)
        if path is not None:
            self.key_references.append(_Reference(members, key, path))
        return key

    def refer(self, container: Any, key: Any) -> None:
        """Record a reference stored at `key`; the two relative paths are resolved immediately."""
        path = None if self.in_key else _path_of(container[key])
        self.refers = self.refers or path is not None
        if path == "@":
            container[key] = container
        elif path == "..":
            container[key] = self.stack[-2] if len(self.stack) > 1 else None
        elif path is not None:
            # The target may not have been read yet, so the path is followed at the end.
            container[key] = None
            self.references.append(_Reference(container, key, path))

    def document(self) -> Any:
        root = self.value(*self.token("a value"))
        if self.text[self.position :].strip():
            raise self.fail("the end")
        for container, key, path in self.references:
            container[key] = _follow(root, path)
        # Keys come last: a path that leads through a renamed key would not find it any more.
        for container, key, path in self.key_references:
            _rename(container, key, _follow(root, path))
        return root


def _path_of(value: Any) -> str | None:
    if type(value) is dict and len(value) == 1:
        path = value.get("$ref")
        return path if type(path) is str else None
    return None


def _follow(root: Any, path: str) -> Any:
    """Return the value at `path` below `root`, or None."""
    if not path.startswith("$"):
        return None
    value, position = root, 1
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            return None
        position = step.end()
        value = _child(value, step)
    return value


def _child(value: Any, step: re.Match[str]) -> Any:
    if isinstance(value, list):
        # No list is that long: a step without an index leads to nothing in it.
        index = int(step[2] or MAX_TEXT)
        return value[index] if index < len(value) else None
    if isinstance(value, dict):
        name = step[2] or step[3] or step[4] or re.sub(r"\\(.)", r"\1", step[1] or "")
        return value.get(name)
    return None


def _rename(members: dict[str, Any], key: str, target: Any) -> None:
    """Rename the entry at `key` to the text of the object that its key refers to; it moves to the end."""
    if key in members and type(target) is dict and len(target) <= MAX_KEY_MEMBERS:
        parts = (*target, *target.values())
        if all(type(part) is int or (type(part) is str and len(part) <= MAX_KEY_TEXT) for part in parts):
            members[dumps(target)] = members.pop(key)


def loads(text: bytes | bytearray | memoryview | str) -> Any:
    """Read dicts, lists, str, int, float, bool or None. Raises BodyError, which states where the text is
    invalid.
    """
    return _parse(text).document()


def _parse(text: bytes | bytearray | memoryview | str) -> _Parser:
    if len(text) > MAX_TEXT:
        raise BodyError(f"JSON of {len(text)} bytes; the limit is {MAX_TEXT}")
    if not isinstance(text, str):
        try:
            text = str(text, "utf-8")
        except UnicodeDecodeError as error:
            raise BodyError(f"JSON is not UTF-8 at byte {error.start}") from None
    return _Parser(text)


def loads_finite(text: bytes | bytearray | memoryview | str) -> Any:
    """Read a value that can be walked. Raises BodyError also if references make it endless, or its
    `expanded_size` larger than MAX_EXPANDED.
    """
    parser = _parse(text)
    root = parser.document()
    if parser.refers:
        expanded_size(root, MAX_EXPANDED)
    return root


def expanded_size(root: Any, limit: int) -> int:
    """Return the number of values in a walk over `root`, counting shared ones each time, and long texts as
    several. Raises BodyError if it exceeds `limit`.
    """
    # By identity, which is unique as long as `root` keeps all values alive.
    sizes: dict[int, int] = {}

    def size(value: Any, depth: int) -> int:
        if not isinstance(value, dict | list):
            return 1 + len(value) // _CHARACTERS if isinstance(value, str) else 1
        known = sizes.get(id(value))
        if known is not None:
            return known
        # A cycle has no size to remember, so it is recognised by its depth.
        if depth > MAX_DEPTH:
            raise BodyError(f"references nest deeper than {MAX_DEPTH} levels")
        children: Iterable[Any] = value.values() if isinstance(value, dict) else value
        total = 1 + sum(size(child, depth + 1) for child in children)
        if isinstance(value, dict):
            total += sum(map(len, value)) // _CHARACTERS
        if total > limit:
            raise BodyError(f"references make more than {limit} values")
        sizes[id(value)] = total
        return total

    return size(root, 0)
