"""The YAML of files of accounts.

This is a separate module because importing PyYAML takes long, and most brokers have no such file.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from typing import Any, Final

import yaml

from rmqcli.codec.acl.errors import AclError

# Reads YAML with libyaml, fifteen times as fast as PyYAML, where both are known to read the same.
#
# The parser is C, event by event, so that other threads run in between. Documents that it reads differently,
# or not at all, are left to PyYAML, whose errors have the lines that users see: control characters and tabs,
# byte order marks, "?" in a flow collection, block scalars, anchors, tags, merges, directives and a second
# document.

DEEPEST: Final = 50
"""The maximum depth of nested collections."""
# Characters of documents that are left to PyYAML, because libyaml may read them differently.
_ODD: Final = re.compile(r"[^\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]|\r(?!\n)")
_NULLS: Final = frozenset(("", "~", "null", "Null", "NULL"))
_OTHERS: Final = frozenset(("<<", "="))
"""Plain scalars that are not strings."""
_NO_KEY: Final = object()
_NOTHING: Final = (yaml.StreamStartEvent, yaml.DocumentEndEvent)


class Unusual(Exception):
    """Raised for a document that is left to PyYAML."""


def read_quickly(content: bytes | str) -> Any:
    """Return the document with scalars as strings, but null as None. Raises Unusual."""
    if not yaml.__with_libyaml__:
        raise Unusual
    try:
        if _ODD.search(content if isinstance(content, str) else content.decode()):
            raise Unusual
        return _read_document(yaml.CLoader(content))
    except (yaml.YAMLError, UnicodeDecodeError, ValueError):
        raise Unusual from None


def _read_document(parser: Any) -> Any:
    builder = _Builder()
    handlers: dict[type, Callable[[Any], None]] = {
        yaml.ScalarEvent: builder.scalar,
        yaml.MappingStartEvent: builder.begin,
        yaml.SequenceStartEvent: builder.begin,
        yaml.MappingEndEvent: builder.end,
        yaml.SequenceEndEvent: builder.end,
        yaml.DocumentStartEvent: builder.document,
    }
    try:
        # Event by event, so that other threads can run during a long file.
        while (kind := type(event := parser.get_event())) is not yaml.StreamEndEvent:
            if handle := handlers.get(kind):
                handle(event)
            elif kind not in _NOTHING:
                raise Unusual
        return builder.root
    finally:
        parser.dispose()


class _Builder:
    """Builds a document from events; `root` is the finished document."""

    def __init__(self) -> None:
        self.root: Any = None
        self._holders: list[tuple[Any, Any, bool]] = []
        self._holder: Any = None
        self._key: Any = _NO_KEY
        self._is_flow = False
        self._documents = 0

    def scalar(self, event: Any) -> None:
        value: str | None = event.value
        if event.anchor is not None or event.tag is not None or event.style in ("|", ">"):
            raise Unusual
        if event.implicit[0]:
            # PyYAML does not read these as plain strings, so they are left to it.
            if value in _OTHERS or (self._is_flow and "?" in event.value):
                raise Unusual
            value = None if value in _NULLS else value
        self._add(value)

    def begin(self, event: Any) -> None:
        is_key = type(self._holder) is dict and self._key is _NO_KEY
        if event.anchor is not None or event.tag is not None or is_key or len(self._holders) >= DEEPEST:
            raise Unusual
        self._holders.append((self._holder, self._key, self._is_flow))
        self._holder = {} if type(event) is yaml.MappingStartEvent else []
        self._key, self._is_flow = _NO_KEY, event.flow_style

    def end(self, _event: Any) -> None:
        value = self._holder
        self._holder, self._key, self._is_flow = self._holders.pop()
        self._add(value)

    def document(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1 or event.version or event.tags:
            raise Unusual

    def _add(self, value: Any) -> None:
        if self._holder is None:
            self.root = value
        elif type(self._holder) is list:
            self._holder.append(value)
        elif self._key is _NO_KEY:
            self._key = value
        else:
            self._holder[self._key] = value
            self._key = _NO_KEY


MAX_MERGED: Final = 1000
"""The maximum members of a map with `<<`, and of the merged maps: each level of a short file could double
them.
"""
PLAIN: Final = "tag:yaml.org,2002:"
NOT_A_CHARACTER: Final = "\ufffd"


class _Loader(yaml.SafeLoader):
    """Reads scalars as strings, but null as None."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        merged = [value for key, value in node.value if key.tag == f"{PLAIN}merge"]
        # Sizes are checked before the merge, so that it cannot grow without limit, and the result after it.
        sizes = [len(value.value) for value in merged]
        if max(sizes, default=0) <= MAX_MERGED:
            super().flatten_mapping(node)
        if merged and max(*sizes, len(node.value)) > MAX_MERGED:
            raise yaml.constructor.ConstructorError(None, None, "too much is merged", node.start_mark)


for _kind in ("int", "float", "bool", "timestamp", "binary"):
    _Loader.add_constructor(PLAIN + _kind, lambda loader, node: node.value)


def read_document(content: bytes) -> dict[str, Any]:
    """Return the content of a file; that of an empty one is empty. Raises AclError, without the name of the file."""
    text, is_utf8 = _read(content)
    try:
        found = _loaded(text)
    except yaml.MarkedYAMLError as error:  # the text of the error would show lines of the file
        at = error.problem_mark or error.context_mark
        place = "" if at is None else f" at line {at.line + 1}, column {at.column + 1}"
        raise AclError(f"not a YAML file{place}") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError):
        raise AclError("not a YAML file") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise AclError("a map with globalWhiteRemoteAddresses and accounts is expected")
    if not is_utf8 and NOT_A_CHARACTER in str(found):
        raise AclError("not UTF-8, and not only in comments")
    return found


def _loaded(text: bytes | str) -> Any:
    try:
        return read_quickly(text)
    except Unusual:
        return yaml.load(text, _Loader)


def _read(content: bytes) -> tuple[bytes | str, bool]:
    """Return the text for the YAML reader, which knows UTF-16, and False if it is not UTF-8: comments may
    have another encoding.
    """
    try:
        content.decode()
    except UnicodeDecodeError:
        is_utf16 = content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        return content if is_utf16 else content.decode("utf-8", "replace"), is_utf16
    return content, True
