"""Reads YAML by libyaml, fifteen times as fast as PyYAML, where both are known to read the same.

The parser is C, event by event, so that other threads run in between. What it reads differently, or not
at all, is left to PyYAML, whose errors have the lines that people are shown: control characters and tabs,
byte order marks, "?" in a flow collection, block scalars, anchors, tags, merges, directives and a second
document.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import yaml

DEEPEST: Final = 50
"""Collections in one another."""
_ODD: Final = re.compile(r"[^\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]|\r(?!\n)")
_NULLS: Final = frozenset(("", "~", "null", "Null", "NULL"))
_OTHERS: Final = frozenset(("<<", "="))
"""Plain scalars that are no texts."""
_NO_KEY: Final = object()
_NOTHING: Final = (yaml.StreamStartEvent, yaml.DocumentEndEvent)


class Unusual(Exception):
    """The document is one for PyYAML."""


def read_quickly(content: bytes | str) -> Any:
    """Return the document with scalars as texts, but null as None. Unusual."""
    if not yaml.__with_libyaml__:
        raise Unusual
    try:
        if _ODD.search(content if isinstance(content, str) else content.decode()):
            raise Unusual
        return _document(yaml.CLoader(content))
    except (yaml.YAMLError, UnicodeDecodeError, ValueError):
        raise Unusual from None


def _document(parser: Any) -> Any:
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
        while (kind := type(event := parser.get_event())) is not yaml.StreamEndEvent:
            if handle := handlers.get(kind):
                handle(event)
            elif kind not in _NOTHING:
                raise Unusual
        return builder.root
    finally:
        parser.dispose()


class _Builder:
    """Builds a document of events. `root` is what it has in the end."""

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
