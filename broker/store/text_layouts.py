"""Texts of properties that are alike, as those of a batch's messages: once one was read in full, only the values
that a broker looks at are read of the others, by columns.

Nothing is taken that would read otherwise alone: values of ASCII between two separators cannot change how the
rest reads.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import repeat
from typing import NamedTuple

from codec.hashing import TAIL, index_key_hash, index_key_hashes, index_key_hashes_of_tails, tags_code
from codec.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR, PropertyName, decode_properties
from codec.store.dispatch import keys_of

END = PROPERTY_SEPARATOR.encode()
SEPARATOR = NAME_VALUE_SEPARATOR.encode()
_UNIQ_KEY, _KEYS, _TAGS = _LOOKED_AT = (PropertyName.UNIQ_KEY, PropertyName.KEYS, PropertyName.TAGS)
_VALUE, _ANY_VALUE = rb"([ -~]+)", rb"[ -~]+"
_PAIR = TAIL // 2
_MOST_NAMES = 16
_LONGEST = 1024
"""Bytes. The layout of a text with more of either is not learned: to compile it takes 20 µs a name."""
_MOST_CODES = 4096
MOST_HASHED = 8192
"""Bytes of texts whose keys are hashed in one step: they may be thousands. The index gets those of more later."""


class TextColumns(NamedTuple):
    """The stored texts, tags codes and hashes of the keys of the index of several messages.

    `hashes` is None if the keys may be too many to be hashed at once.
    """

    texts: Sequence[bytes]
    codes: Sequence[int]
    hashes: Sequence[tuple[int, ...]] | None


class Pair(NamedTuple):
    """A property in a text, and where its value is."""

    name: bytes
    begin: int
    end: int


def pairs_of(own: bytes) -> list[Pair] | None:
    """The properties of a text; None if it has a name twice, or is long."""
    if len(own) > _LONGEST:
        return None
    pairs, position = [], 0
    for text in own.removesuffix(END).split(END):
        name = text.partition(SEPARATOR)[0]
        pairs.append(Pair(name, position + len(name) + 1, position + len(text)))
        position += len(text) + 1
    is_long = len(pairs) > _MOST_NAMES
    return None if is_long or len({pair.name for pair in pairs}) < len(pairs) else pairs


class FixedLayout:
    """Texts of one length, equal but for the values that a broker looks at."""

    __slots__ = (
        "_behind",
        "_constants",
        "_format",
        "_has_tails",
        "_places",
        "_separators",
        "size",
    )

    def __init__(self, own: bytes, pairs: Sequence[Pair], tail: bytes) -> None:
        """Texts like `own`, which has these properties; `tail` follows each, and its values count."""
        self._behind = _Behind(tail)
        slots = [pair for pair in pairs if pair.begin < pair.end and self._behind.lets(pair.name)]
        lengths: list[int] = []
        self._places: dict[str, int] = {}
        self._constants: list[tuple[int, bytes]] = []
        self._has_tails = False
        position = 0
        for name, begin, end in slots:
            self._constants.append((len(lengths), own[position:begin]))
            lengths.append(begin - position)
            self._places[name.decode()] = len(lengths)
            has_tail = name == _UNIQ_KEY.encode() and end - begin > TAIL
            self._has_tails |= has_tail
            lengths += [end - begin - TAIL, _PAIR, _PAIR] if has_tail else [end - begin]
            position = end
        self._constants.append((len(lengths), own[position:]))
        lengths.append(len(own) - position)
        self._format = tuple(lengths)
        self._separators = _separators_in(own)
        self.size = len(own)

    def read(self, owns: Sequence[bytes], topic: str) -> TextColumns | None:
        """Reads texts of this length; None if one of them has another layout."""
        count, width, places = len(owns), len(self._format), self._places
        joined = b"".join(owns)
        fields = _cut(self._format, count)(joined)
        for place, text in self._constants:
            if fields[place::width].count(text) < count:
                return None
        separators = tuple(number * count for number in self._separators)
        if not joined.isascii() or _separators_in(joined) != separators:
            return None
        unique = None
        if (first := places.get(_UNIQ_KEY)) is not None:
            parts = (fields[first + number :: width] for number in range(3))
            unique = partial(self._unique_hashes, topic, *parts)
        values = {name: fields[place::width] for name, place in places.items()}
        return self._behind.columns(owns, topic, values, unique)

    def _unique_hashes(
        self, topic: str, heads: Sequence[bytes], thirds: Sequence[bytes], lasts: Sequence[bytes]
    ) -> list[int]:
        """The hashes of unique keys, given their heads and tails, or all of them as the heads."""
        if not self._has_tails:
            return index_key_hashes(topic, texts_in(heads))
        if heads.count(heads[0]) == len(heads):
            return index_key_hashes_of_tails(topic, heads[0].decode(), thirds, lasts)
        return index_key_hashes(topic, texts_in(list(map(b"".join, zip(heads, thirds, lasts, strict=True)))))


def _separators_in(text: bytes) -> tuple[int, int]:
    return text.count(SEPARATOR), text.count(END)


@lru_cache(maxsize=256)
def _cut(lengths: tuple[int, ...], count: int) -> Callable[[bytes], tuple[bytes, ...]]:
    """Cuts so many texts, one behind the other, into parts of these lengths."""
    return struct.Struct("".join(f"{length}s" for length in lengths) * count).unpack


class TextShape:
    """The texts that have the same names in the same order, each once, with any values of printable ASCII."""

    __slots__ = ("_behind", "_match", "_names")

    def __init__(self, own: bytes, pairs: Sequence[Pair], tail: bytes) -> None:
        """Texts like `own`, which has these properties; `tail` follows each, and its values count."""
        self._behind = _Behind(tail)
        names = [pair.name for pair in pairs]
        groups = [name for name in names if self._behind.lets(name)]
        values = [re.escape(name + SEPARATOR) + (_VALUE if name in groups else _ANY_VALUE) for name in names]
        self._match = re.compile(END.join(values) + (END if own.endswith(END) else b"")).fullmatch
        self._names = [name.decode() for name in groups]

    def read(self, owns: Sequence[bytes], topic: str) -> TextColumns | None:
        """Reads texts; None if one of them has another shape."""
        found = list(map(self._match, owns))
        if None in found:
            return None
        columns = zip(*map(re.Match.groups, found), strict=True)  # type: ignore[arg-type]
        values = dict(zip(self._names, columns, strict=True))
        unique = None
        if _UNIQ_KEY in values:
            unique = partial(index_key_hashes, topic, texts_in(values[_UNIQ_KEY]))
        return self._behind.columns(owns, topic, values, unique)


class _Behind:
    """A text that follows each of others: its values are those of all of them."""

    __slots__ = ("_code", "_others", "_tail")

    def __init__(self, tail: bytes) -> None:
        self._tail, self._others = tail, decode_properties(tail)
        self._code = tags_code(self._others.get(_TAGS))

    def lets(self, name: bytes) -> bool:
        """True if a broker looks at the value of this name in the text before."""
        return any(name == one.encode() and one not in self._others for one in _LOOKED_AT)

    def columns(
        self,
        owns: Sequence[bytes],
        topic: str,
        values: Mapping[str, Sequence[bytes]],
        unique: Callable[[], list[int]] | None,
    ) -> TextColumns:
        """The columns of texts, given their values by name, and how their unique keys are hashed."""
        count = len(owns)
        texts = [own + self._tail for own in owns] if self._tail else owns
        codes = list(map(_code_of, values[_TAGS])) if _TAGS in values else [self._code] * count
        if sum(map(len, texts)) > MOST_HASHED:
            return TextColumns(texts, codes, None)
        keys = texts_in(values[_KEYS]) if _KEYS in values else None
        hashes = rows_of_hashes(topic, count, None if unique is None else unique(), keys, self._others)
        return TextColumns(texts, codes, hashes)


class _Codes(dict[bytes, int]):
    """Tags codes; each is computed once."""

    def __missing__(self, tags: bytes) -> int:
        if len(self) >= _MOST_CODES:
            self.clear()
        code = self[tags] = tags_code(tags.decode())
        return code


_code_of = _Codes().__getitem__


def texts_in(values: Sequence[bytes]) -> Sequence[str]:
    """The values as texts; they hold no separator."""
    if values.count(values[0]) == len(values):
        return [values[0].decode()] * len(values)
    return END.join(values).decode().split(PROPERTY_SEPARATOR)


def rows_of_hashes(
    topic: str,
    count: int,
    unique: Sequence[int] | None,
    keys: Sequence[str] | None,
    others: Mapping[str, str],
) -> list[tuple[int, ...]]:
    """The hashes of the keys of each message, given those of its UNIQ_KEY and the values of KEYS; None: all
    have that of `others`, if it has one.
    """
    if unique is None and others.get(_UNIQ_KEY):
        unique = [index_key_hash(topic, others[_UNIQ_KEY])] * count
    if keys is None and others.get(_KEYS):
        keys = [others[_KEYS]] * count
    if keys is None:
        return [()] * count if unique is None else list(zip(unique, strict=True))
    if keys.count(keys[0]) < count and any(" " in key for key in keys):
        rows = (tuple(index_key_hash(topic, key) for key in keys_of(None, one)) for one in keys)
        return (
            list(rows) if unique is None else [(one, *more) for one, more in zip(unique, rows, strict=True)]
        )
    columns: list[Iterable[int]] = [] if unique is None else [unique]
    if keys.count(keys[0]) == count:
        columns += (repeat(index_key_hash(topic, key), count) for key in keys_of(None, keys[0]))
    else:
        columns.append(index_key_hashes(topic, keys))
    return list(zip(*columns, strict=True)) if columns else [()] * count
