"""Texts of properties that are alike, as those of a batch's messages: once one was read in full, only the values
that a broker looks at are read of the others, by columns.

Nothing is taken that would read otherwise alone: values of ASCII between two separators cannot change how the
rest reads.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import NamedTuple

from codec.hashing import TAIL, index_key_hash, index_key_hashes, index_key_hashes_of_tails, tags_code
from codec.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR, PropertyName, decode_properties
from codec.store.dispatch import keys_of

END = PROPERTY_SEPARATOR.encode()
SEPARATOR = NAME_VALUE_SEPARATOR.encode()
_UNIQ_KEY, _KEYS, _TAGS = _LOOKED_AT = (PropertyName.UNIQ_KEY, PropertyName.KEYS, PropertyName.TAGS)
_VALUE, _ANY_VALUE = rb"([ -~]+)", rb"[ -~]+"
_PAIR = TAIL // 2
_HEAD, _THIRD_LAST, _LAST = (f"{_UNIQ_KEY} {part}" for part in ("head", "third last", "last"))
"""The parts of a UNIQ_KEY that are hashed apart."""
_SELDOM_CHANGING = frozenset((_KEYS, _HEAD))
"""Values that are often the same in all messages of a batch."""
_MOST_NAMES = 16
_LONGEST = 1024
"""Bytes. The layout of a text with more of either is not learned: to compile it takes 20 µs a name."""
_MOST_CODES = 4096
MOST_HASHED = 8192
"""Bytes of texts whose keys are hashed in one step: they may be thousands. The index gets those of more later."""


class TextColumns(NamedTuple):
    """The stored texts and tags codes of several messages, the hashes of their keys of the index, one
    message after the other, and how many each has.

    `hashes` is None if the keys may be too many to be hashed at once.
    """

    texts: Sequence[bytes]
    codes: Sequence[int]
    hashes: Sequence[int] | None
    counts: Sequence[int]


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
    """Texts of one length, equal but for the values that a broker looks at.

    Of those, KEYS and the head of UNIQ_KEY are often the same in all texts of a batch, which then are cut
    into fewer parts.
    """

    __slots__ = ("_all", "_behind", "_constants", "_often", "_places", "_seldom", "_separators", "size")

    def __init__(self, own: bytes, pairs: Sequence[Pair], tail: bytes) -> None:
        """Texts like `own`, which has these properties; `tail` follows each, and its values count."""
        self._behind = _Behind(tail)
        self._separators = _separators_in(own)
        self.size = len(own)
        self._places = _places_of([pair for pair in pairs if self._behind.lets(pair.name)])
        self._all = _Cut(self.size, self._places)
        self._constants = self._all.constants(own)
        often = {name: place for name, place in self._places.items() if name not in _SELDOM_CHANGING}
        self._often = _Cut(self.size, often)
        self._seldom = [slice(*place) for name, place in self._places.items() if name not in often]

    def read(self, owns: Sequence[bytes], topic: str) -> TextColumns | None:
        """Reads texts of this length; None if one of them has another layout."""
        first, count = owns[0], len(owns)
        if not self._is_like(first):
            return None
        joined, last, columns = b"".join(owns), owns[-1], None
        if self._seldom and all(first[place] == last[place] for place in self._seldom):
            columns = self._often.columns(joined, first, count)
        if columns is None:
            columns = self._all.columns(joined, first, count)
        if columns is None:
            return None
        changing = b"".join(chain.from_iterable(columns.values()))
        if not changing.isascii() or any(_separators_in(changing)):
            return None
        same = {name: first[slice(*place)] for name, place in self._places.items() if name not in columns}
        return self._behind.columns(owns, topic, columns, same)

    def _is_like(self, text: bytes) -> bool:
        """True if a text of this length has this layout."""
        if not text.isascii() or _separators_in(text) != self._separators:
            return False
        return self._all.constants(text) == self._constants


_Place = tuple[int, int]
"""Begin and end of a value in a text."""


def _places_of(pairs: Sequence[Pair]) -> dict[str, _Place]:
    """The places of the values, in this order; a UNIQ_KEY has up to three."""
    places: dict[str, _Place] = {}
    for name, begin, end in pairs:
        if name == _UNIQ_KEY.encode() and end - begin > TAIL:
            places[_HEAD] = begin, end - TAIL
            places[_THIRD_LAST] = end - TAIL, end - _PAIR
            places[_LAST] = end - _PAIR, end
        elif begin < end:
            places[name.decode()] = begin, end
    return places


class _Cut:
    """A cutter of texts of one length, one behind the other, into the values at some places; what is between
    them has to be the same in all.
    """

    __slots__ = ("_between", "_places", "_rows")

    def __init__(self, size: int, places: Mapping[str, _Place]) -> None:
        lengths: list[int] = []
        self._between: list[tuple[int, int, int]] = []
        self._places: dict[str, int] = {}
        position = 0
        for name, (begin, end) in (*places.items(), ("", (size, size))):
            if position < begin:
                self._between.append((len(lengths), position, begin))
                lengths.append(begin - position)
            if name:
                self._places[name] = len(lengths)
                lengths.append(end - begin)
            position = end
        self._rows = struct.Struct("".join(f"{length}s" for length in lengths) or "x").iter_unpack

    def constants(self, text: bytes) -> list[bytes]:
        """The parts of a text between the values."""
        return [text[begin:end] for _, begin, end in self._between]

    def columns(self, joined: bytes, first: bytes, count: int) -> dict[str, Sequence[bytes]] | None:
        """The values of so many texts, of which `first` is one, by name; None if they differ elsewhere, too."""
        fields = list(zip(*self._rows(joined), strict=True))
        for place, begin, end in self._between:
            if fields[place].count(first[begin:end]) < count:
                return None
        return {name: fields[place] for name, place in self._places.items()}


def _separators_in(text: bytes) -> tuple[int, int]:
    return text.count(SEPARATOR), text.count(END)


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
        return self._behind.columns(owns, topic, dict(zip(self._names, columns, strict=True)), {})


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
        same: Mapping[str, bytes],
    ) -> TextColumns:
        """The columns of texts, given by name the values of each, and those that are the same in all."""
        count = len(owns)
        texts = [own + self._tail for own in owns] if self._tail else owns
        codes = list(map(_code_of, values[_TAGS])) if _TAGS in values else [self._code] * count
        if sum(map(len, texts)) > MOST_HASHED:
            return TextColumns(texts, codes, None, ())
        others = self._others
        keys = texts_in(values[_KEYS]) if _KEYS in values else None
        one = same[_KEYS].decode() if _KEYS in same else others.get(_KEYS) or ""
        unique = _unique_hashes(topic, count, values, same)
        if unique is None and others.get(_UNIQ_KEY):
            unique = [index_key_hash(topic, others[_UNIQ_KEY])] * count
        return TextColumns(texts, codes, *_hashes(topic, count, unique, keys, one))


def _unique_hashes(
    topic: str, count: int, values: Mapping[str, Sequence[bytes]], same: Mapping[str, bytes]
) -> list[int] | None:
    """The hashes of unique keys, whole ones or of three parts; None without them."""
    if _UNIQ_KEY in values:
        return index_key_hashes(topic, texts_in(values[_UNIQ_KEY]))
    if _LAST not in values:
        return None
    tails = values[_THIRD_LAST], values[_LAST]
    if _HEAD in same:
        return index_key_hashes_of_tails(topic, same[_HEAD].decode(), *tails)
    heads = values[_HEAD]
    if heads.count(heads[0]) == count:
        return index_key_hashes_of_tails(topic, heads[0].decode(), *tails)
    return index_key_hashes(topic, texts_in(list(map(b"".join, zip(heads, *tails, strict=True)))))


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


def _hashes(
    topic: str, count: int, unique: Sequence[int] | None, keys: Sequence[str] | None, one: str
) -> tuple[Sequence[int], Sequence[int]]:
    """The hashes of the keys of messages, given those of their UNIQ_KEY, and the values of KEYS, or the `one`
    of all; and how many each has.
    """
    if keys is not None and keys.count(keys[0]) == count:
        one, keys = keys[0], None
    columns: list[Iterable[int]] = [] if unique is None else [unique]
    if keys is None:
        columns += (repeat(index_key_hash(topic, key), count) for key in keys_of(None, one))
    elif any(" " in key for key in keys):
        rows = [[index_key_hash(topic, key) for key in keys_of(None, one)] for one in keys]
        if unique is not None:
            rows = [[first, *row] for first, row in zip(unique, rows, strict=True)]
        return list(chain.from_iterable(rows)), list(map(len, rows))
    else:
        columns.append(index_key_hashes(topic, keys))
    return list(chain.from_iterable(zip(*columns, strict=True))), [len(columns)] * count
