"""The properties of the messages of a batch.

The texts of a producer often differ in the value of UNIQ_KEY only. So the text before is kept in three parts,
from batch to batch, and of one that has the same parts around its value only that is read. Of others with the
same names in the same order (`TextShape`), only the values that a broker looks at are. Nothing is taken that
`_read` would refuse: values of letters and digits, or of printable ASCII between two separators, cannot
change how the rest reads.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter

from broker.errors import IllegalBatch
from codec.hashing import tags_code
from codec.properties import (
    NAME_VALUE_SEPARATOR,
    PROPERTY_SEPARATOR,
    TIMERS,
    PropertyName,
    decode_properties,
    sound_text,
)
from codec.store.dispatch import index_keys, keys_of

BatchText = tuple[bytes, int, tuple[str, ...]]
"""The stored text, the tags code and the keys of the index."""
BatchTextColumns = tuple[Sequence[bytes], Sequence[int], Sequence[tuple[str, ...]]]
"""The same of several messages."""

_END = PROPERTY_SEPARATOR.encode()
_NAME = (PropertyName.UNIQ_KEY + NAME_VALUE_SEPARATOR).encode()
_SEPARATOR = NAME_VALUE_SEPARATOR.encode()
_VALUE, _ANY_VALUE = rb"([ -~]+)", rb"[ -~]+"
_LOOKED_AT = (PropertyName.UNIQ_KEY, PropertyName.KEYS, PropertyName.TAGS)
_MOST_NAMES = 16
_LONGEST_SHAPED = 1024
"""Bytes. The shape of a text with more of either is not compiled, which takes 20 µs a name."""
_MOST_MISSES = 4
"""Texts in a row that differ elsewhere; then the rest of the batch is read in full."""


class BatchTexts:
    """Reads the texts of batches. `common` is that of a whole batch, which each of its messages has too."""

    __slots__ = (
        "_after",
        "_before",
        "_code",
        "_common",
        "_cut",
        "_keys",
        "_misses",
        "_shape",
        "_size",
        "_tail",
    )

    def __init__(self, common: bytes) -> None:
        self._common = common
        self._before = self._after = self._tail = b""
        self._code = self._misses = 0
        self._cut = _cut(0, 0, 0)
        self._size = -1
        self._keys: tuple[str, ...] = ()
        self._shape: TextShape | None = None

    def begin(self) -> BatchTexts:
        """Begins the next batch, whose texts may be like those before."""
        self._misses = 0
        return self

    def read(self, own: bytes) -> BatchText:
        """The text of a message with that of the batch behind it. IllegalBatch, LocalProtocolError."""
        (text,), (code,), (keys,) = self.read_alike((own,)) or self.read_one(own)
        return text, code, keys

    def read_one(self, own: bytes) -> BatchTextColumns:
        """As `read`, for a text that differs from the one before elsewhere, too."""
        text, code, keys = self._learned(own) if self._misses < _MOST_MISSES else self._read(own)[1]
        return (text,), (code,), (keys,)

    def read_alike(self, owns: Sequence[bytes]) -> BatchTextColumns | None:
        """As `read` of each, if all differ from a text before in values only; None otherwise."""
        read = self._read_by_unique_key(owns) if {*map(len, owns)} == {self._size} else None
        if read is None and self._shape is not None:
            read = self._shape.read(owns)
        if read is not None:
            self._misses = 0
        return read

    def _read_by_unique_key(self, owns: Sequence[bytes]) -> BatchTextColumns | None:
        count = len(owns)
        befores, values, afters = zip(*map(self._cut, owns), strict=True)
        if befores.count(self._before) < count or afters.count(self._after) < count:
            return None
        if not all(map(bytes.isalnum, values)):
            return None
        texts = [own + self._tail for own in owns] if self._tail else owns
        names = _END.join(values).decode().split(PROPERTY_SEPARATOR)
        keys = [(name, *self._keys) for name in names] if self._keys else list(zip(names, strict=True))
        return texts, [self._code] * count, keys

    def _read(self, own: bytes) -> tuple[bytes, BatchText]:
        """The joined text, and what is read of it. Of one that does not parse, the pairs that Java reads are
        stored."""
        text = _joined(own, self._common)
        properties = decode_properties(text)
        if not TIMERS.isdisjoint(properties):
            name = min(TIMERS & properties.keys())
            raise IllegalBatch(f"a message of a batch has the property {name}: send it alone")
        code = tags_code(properties.get(PropertyName.TAGS))
        return text, (sound_text(text, properties), code, tuple(index_keys(properties)))

    def _learned(self, own: bytes) -> BatchText:
        self._misses += 1
        self._size = -1
        text, found = self._read(own)
        begin = own.find(_NAME)
        at = begin + len(_NAME)
        end = own.find(_END, at)
        end = len(own) if end < 0 else end
        is_pair = begin == 0 or (begin > 0 and own[begin - 1 : begin] == _END)
        if is_pair and found[0] is text and own[at:end].isalnum() and text.count(_NAME) == 1:
            self._before, self._after, self._tail = own[:at], own[end:], text[len(own) :]
            self._cut, self._size = _cut(at, end - at, len(own) - end), len(own)
            self._code, self._keys = found[1], found[2][1:]
        self._shape = shape_of(own, text[len(own) :]) if found[0] is text else None
        return found


class TextShape:
    """The texts that have the same names in the same order, each once, with any values of printable ASCII."""

    __slots__ = ("_match", "_order", "_others", "_tail")

    def __init__(self, names: Sequence[bytes], end: bytes, tail: bytes) -> None:
        """Each text has these names and ends with `end`; `tail` follows it, and its values count."""
        others = decode_properties(tail)
        groups = [
            name for name in map(str.encode, _LOOKED_AT) if name in names and name.decode() not in others
        ]
        groups.sort(key=names.index)
        pairs = [re.escape(name + _SEPARATOR) + (_VALUE if name in groups else _ANY_VALUE) for name in names]
        self._match = re.compile(_END.join(pairs) + end).fullmatch
        self._tail = tail
        self._others = tuple(map(others.get, _LOOKED_AT))
        self._order = itemgetter(
            *(
                groups.index(name.encode()) if name.encode() in groups else len(groups) + place
                for place, name in enumerate(_LOOKED_AT)
            )
        )

    def read(self, owns: Sequence[bytes]) -> BatchTextColumns | None:
        """Reads texts; None if one of them has another shape."""
        found = list(map(self._match, owns))
        if None in found:
            return None
        order, others = self._order, self._others  # these follow the values of the groups
        values = [order((*one.groups(), *others)) for one in found if one is not None]
        codes = [tags_code(_text(tags)) for _, _, tags in values]
        keys = [tuple(keys_of(_text(unique), _text(keys))) for unique, keys, _ in values]
        return [own + self._tail for own in owns] if self._tail else owns, codes, keys


def shape_of(own: bytes, tail: bytes) -> TextShape | None:
    """The shape of a text that parses with what is put behind it; None if it has a name twice, or is long."""
    end = _END if own.endswith(_END) else b""
    names = [pair.partition(_SEPARATOR)[0] for pair in own.removesuffix(_END).split(_END)]
    is_long = len(own) > _LONGEST_SHAPED or len(names) > _MOST_NAMES
    return None if is_long or len({*names}) < len(names) else TextShape(names, end, tail)


def _text(value: bytes | str | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value


@lru_cache(maxsize=256)
def _cut(before: int, value: int, after: int) -> Callable[[bytes], tuple[bytes, bytes, bytes]]:
    """Cuts texts into parts of so many bytes."""
    return struct.Struct(f"{before}s{value}s{after}s").unpack


_texts_of = lru_cache(maxsize=16)(BatchTexts)
"""Most batches have one of a few common texts."""


def texts_of(common: bytes) -> BatchTexts:
    """A reader for a batch with this common text, which may know texts of one before."""
    return _texts_of(common).begin()


def _joined(own: bytes, common: bytes) -> bytes:
    if not own or not common:
        return own or common
    return own + common if own.endswith(_END) else own + _END + common
