"""The properties of the messages of a batch.

The texts of a producer often differ in the value of UNIQ_KEY only. So the text before is kept in three parts,
and of one that has the same parts around its value only that is read. Nothing is taken that `_read` would
refuse: a value of letters and digits cannot change how the rest reads.
"""

from __future__ import annotations

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

BatchText = tuple[bytes, int, dict[str, str]]
"""The stored text, the tags code and the properties."""

_END = PROPERTY_SEPARATOR.encode()
_NAME = (PropertyName.UNIQ_KEY + NAME_VALUE_SEPARATOR).encode()
_UNIQ_KEY = str(PropertyName.UNIQ_KEY)
_MOST_MISSES = 4
"""Texts in a row that differ elsewhere; then the rest of the batch is read in full."""


class BatchTexts:
    """Reads the texts of one batch. `common` is that of the whole batch, which each message has too."""

    __slots__ = (
        "_after",
        "_before",
        "_code",
        "_common",
        "_from",
        "_misses",
        "_others",
        "_size",
        "_tail",
        "_to",
    )

    def __init__(self, common: bytes) -> None:
        self._common = common
        self._before = self._after = self._tail = b""
        self._from = self._to = self._code = self._misses = 0
        self._size = -1
        self._others: dict[str, str] = {}

    def read(self, own: bytes) -> BatchText:
        """The text of a message with that of the batch behind it. IllegalBatch, LocalProtocolError."""
        if len(own) == self._size and own.startswith(self._before) and own.endswith(self._after):
            value = own[self._from : self._to]
            if value.isalnum():
                self._misses = 0
                return own + self._tail, self._code, {**self._others, _UNIQ_KEY: value.decode()}
        return self._learned(own) if self._misses < _MOST_MISSES else self._read(own)[1]

    def _read(self, own: bytes) -> tuple[bytes, BatchText]:
        """The joined text, and what is read of it. Of one that does not parse, the pairs that Java reads are
        stored."""
        text = _joined(own, self._common)
        properties = decode_properties(text)
        if not TIMERS.isdisjoint(properties):
            name = min(TIMERS & properties.keys())
            raise IllegalBatch(f"a message of a batch has the property {name}: send it alone")
        code = tags_code(properties.get(PropertyName.TAGS))
        return text, (sound_text(text, properties), code, properties)

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
            self._from, self._to, self._size = at, end, len(own)
            self._code, self._others = found[1], found[2]
        return found


def _joined(own: bytes, common: bytes) -> bytes:
    if not own or not common:
        return own or common
    return own + common if own.endswith(_END) else own + _END + common
