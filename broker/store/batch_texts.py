"""The properties of the messages of a batch.

The texts of a producer often differ in the value of UNIQ_KEY only. So the text before is kept in three parts,
from batch to batch, and of one that has the same parts around its value only that is read. Nothing is taken
that `_read` would refuse: a value of letters and digits cannot change how the rest reads.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache

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
from codec.store.dispatch import index_keys

BatchText = tuple[bytes, int, tuple[str, ...]]
"""The stored text, the tags code and the keys of the index."""
BatchTextColumns = tuple[Sequence[bytes], Sequence[int], Sequence[tuple[str, ...]]]
"""The same of several messages."""

_END = PROPERTY_SEPARATOR.encode()
_NAME = (PropertyName.UNIQ_KEY + NAME_VALUE_SEPARATOR).encode()
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
        """As `read` of each, if all differ from the text before in that value only; None otherwise."""
        if {*map(len, owns)} != {self._size}:
            return None
        count = len(owns)
        befores, values, afters = zip(*map(self._cut, owns), strict=True)
        if befores.count(self._before) < count or afters.count(self._after) < count:
            return None
        if not all(map(bytes.isalnum, values)):
            return None
        self._misses = 0
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
        return found


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
