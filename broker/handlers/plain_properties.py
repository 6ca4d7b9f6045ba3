"""The properties of plain sends: the text that is stored, and what queue entry and index need of it.

The texts of a producer differ in the values of UNIQ_KEY and KEYS. For the text around these, `plain` is asked
once, with marks in place of the values; of the next message only the values are read. A text that teaches
nothing is read by `plain` again and again. Learning takes three times as long: it is paid from a credit.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.context import OwnProperties
from broker.handlers.send import NOT_PLAIN, TAGS, WAIT, edited_properties, stored_properties
from codec.errors import LocalProtocolError
from codec.hashing import tags_code
from codec.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR, PropertyName, decode_properties

UNIQ_KEY, KEYS = PropertyName.UNIQ_KEY, PropertyName.KEYS
MOST = 4096
LONGEST = 1024
"""Characters around the values; longer texts are not learned, and `MOST` are kept, then all learned again."""
COST, CREDIT = 16, 256
PASSED_BY = 7
"""Texts that are not looked up after one that was not found, while the credit is spent."""

_UNIQ, _KEYS = UNIQ_KEY + NAME_VALUE_SEPARATOR, KEYS + NAME_VALUE_SEPARATOR
_UNIQ_SIZE, _KEYS_SIZE = len(_UNIQ), len(_KEYS)
_MARKS = "\ue000", "\ue001"
"""Characters for private use."""


Plain = tuple[bytes, int, dict[str, str]]
"""The stored text, the tags code, and the properties, at least those that the index needs."""


def plain(text: str, own: OwnProperties) -> Plain | None:
    """Reads all properties; None for those of messages that are not stored as they come."""
    properties = decode_properties(text)
    if not NOT_PLAIN.isdisjoint(properties):
        return None
    stored = edited_properties(text, len(properties), properties.get(WAIT), own)
    if stored is None:
        try:
            stored = stored_properties(text, properties, own, keeps_wait=False)
        except LocalProtocolError:
            return None
    return stored, tags_code(properties.get(TAGS)), properties


_Cut = tuple[tuple[str, ...], str, str]
"""The text around one or two values, and these, in their order; an empty second one is missing."""


class _Shape(NamedTuple):
    """The stored text around the values, the tags code, and the names of the values."""

    before: str
    between: str
    after: str
    tags_code: int
    names: tuple[str, ...]


class PlainTexts:
    """Reads the properties of the messages of one broker, which adds `own`."""

    __slots__ = ("_credit", "_pass_by", "_shapes", "own")

    def __init__(self, own: OwnProperties) -> None:
        self.own = own
        self._shapes: dict[tuple[str, ...], _Shape] = {}
        self._credit = CREDIT
        self._pass_by = 0

    def follow(self, own: OwnProperties) -> None:
        """Forgets what was learned if the broker's configuration was changed."""
        if own is not self.own:
            self.own = own
            self._shapes.clear()

    def read(self, text: str) -> Plain | None:
        """The same as `plain`, but for properties that the index does not need."""
        if self._pass_by:
            self._pass_by -= 1
            return plain(text, self.own)
        cut = _cut(text)
        if cut is None:
            return plain(text, self.own)
        around, first, second = cut
        shape = self._shapes.get(around)
        if shape is None:
            self._learn(around)
            return plain(text, self.own)
        before, between, after, code, names = shape
        stored = f"{before}{first}{between}{second}{after}".encode("utf-8", "replace")
        if second:
            return stored, code, {names[0]: first, names[1]: second}
        return stored, code, {names[0]: first}

    def _learn(self, around: tuple[str, ...]) -> None:
        self._credit += 1
        if self._credit < COST:
            self._pass_by = PASSED_BY
        if self._credit < COST or sum(map(len, around)) > LONGEST:
            return
        self._credit -= COST
        shape = _shape(around, self.own)
        if shape is not None:
            if len(self._shapes) >= MOST:
                self._shapes.clear()
            self._shapes[around] = shape


def _cut(text: str) -> _Cut | None:
    """Cuts a text at the values that vary; None without a UNIQ_KEY, or with one that is in doubt."""
    uniq_at = text.find(_UNIQ) + _UNIQ_SIZE
    uniq_end = text.find(PROPERTY_SEPARATOR, uniq_at)
    if uniq_end < 0:
        uniq_end = len(text)
    if not _UNIQ_SIZE <= uniq_at < uniq_end:
        return None
    uniq = text[uniq_at:uniq_end]
    keys_at = text.find(_KEYS) + _KEYS_SIZE
    if keys_at < _KEYS_SIZE:
        return (text[:uniq_at], text[uniq_end:]), uniq, ""
    keys_end = text.find(PROPERTY_SEPARATOR, keys_at)
    if keys_end < 0:
        keys_end = len(text)
    if keys_at < keys_end < uniq_at:
        around = text[:keys_at], text[keys_end:uniq_at], text[uniq_end:]
        return around, text[keys_at:keys_end], uniq
    if uniq_end < keys_at < keys_end:
        around = text[:uniq_at], text[uniq_end:keys_at], text[keys_end:]
        return around, uniq, text[keys_at:keys_end]
    return None


def _shape(around: tuple[str, ...], own: OwnProperties) -> _Shape | None:
    """The shape of texts; None unless the properties are plain, and the values those of UNIQ_KEY and KEYS."""
    marks = _MARKS[: len(around) - 1]
    asked = around[0] + "".join(mark + piece for mark, piece in zip(marks, around[1:], strict=True))
    found = plain(asked, own)
    if found is None or any(asked.count(mark) != 1 for mark in marks):
        return None
    stored, code, properties = found[0].decode(), found[1], found[2]
    values = {name: properties[name] for name in (UNIQ_KEY, KEYS) if name in properties}
    names = {value: name for name, value in values.items()}
    if names.keys() != set(marks) or any(stored.count(mark) != 1 for mark in marks):
        return None
    pieces = [stored]
    for mark in marks:
        pieces += pieces.pop().split(mark)
    between = pieces[1] if len(marks) > 1 else ""
    return _Shape(pieces[0], between, pieces[-1], code, tuple(names[mark] for mark in marks))
