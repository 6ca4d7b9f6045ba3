"""The properties of the messages of a batch.

The texts of a producer often differ in a few values only. So the layout of the text before is kept, from
batch to batch (`text_layouts`), and of texts that have the same one only those values are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from broker.errors import IllegalBatch
from broker.store.text_layouts import END, MOST_HASHED, FixedLayout, TextColumns, TextShape, pairs_of
from codec.hashing import index_key_hash, tags_code
from codec.properties import TIMERS, PropertyName, decode_properties, sound_text
from codec.store.dispatch import index_keys

BatchText = tuple[bytes, int, tuple[int, ...] | None]
"""The stored text, the tags code and the hashes of the keys of the index, as in `TextColumns`."""

_MOST_MISSES = 4
"""Texts in a row that differ elsewhere; then the rest of the batch is read in full."""


class BatchTexts:
    """Reads the texts of batches. `common` is that of a whole batch, which each of its messages has too."""

    __slots__ = ("_common", "_fixed", "_misses", "_shape")

    def __init__(self, common: bytes) -> None:
        self._common = common
        self._misses = 0
        self._fixed: FixedLayout | None = None
        self._shape: TextShape | None = None

    def begin(self) -> BatchTexts:
        """Begins the next batch, whose texts may be like those before."""
        self._misses = 0
        return self

    def read(self, own: bytes, topic: str) -> BatchText:
        """The text of a message of a topic with that of the batch behind it. IllegalBatch, LocalProtocolError."""
        (text,), (code,), hashes, _ = self.read_alike((own,), topic) or self.read_one(own, topic)
        return text, code, None if hashes is None else tuple(hashes)

    def read_one(self, own: bytes, topic: str) -> TextColumns:
        """As `read`, for a text that differs from the one before elsewhere, too."""
        text, code, hashes = (
            self._learned(own, topic) if self._misses < _MOST_MISSES else self._read(own, topic)
        )
        return TextColumns((text,), (code,), hashes, () if hashes is None else (len(hashes),))

    def read_alike(self, owns: Sequence[bytes], topic: str) -> TextColumns | None:
        """As `read` of each, if all differ from a text before in values only; None otherwise."""
        read = None
        if self._fixed is not None and {*map(len, owns)} == {self._fixed.size}:
            read = self._fixed.read(owns, topic)
        if read is None and self._shape is not None:
            read = self._shape.read(owns, topic)
        if read is not None:
            self._misses = 0
        return read

    def _read(self, own: bytes, topic: str) -> BatchText:
        """As `read`. Of a text that does not parse, the pairs that Java reads are stored."""
        text = _joined(own, self._common)
        properties = decode_properties(text)
        if not TIMERS.isdisjoint(properties):
            name = min(TIMERS & properties.keys())
            raise IllegalBatch(f"a message of a batch has the property {name}: send it alone")
        stored, code = sound_text(text, properties), tags_code(properties.get(PropertyName.TAGS))
        if len(text) > MOST_HASHED:
            return stored, code, None
        return stored, code, tuple(index_key_hash(topic, key) for key in index_keys(properties))

    def _learned(self, own: bytes, topic: str) -> BatchText:
        self._misses += 1
        self._fixed = self._shape = None
        found, text = self._read(own, topic), _joined(own, self._common)
        pairs = pairs_of(own) if found[0] == text else None
        if pairs is not None:
            tail = text[len(own) :]
            self._fixed, self._shape = FixedLayout(own, pairs, tail), TextShape(own, pairs, tail)
        return found


_texts_of = lru_cache(maxsize=16)(BatchTexts)
"""Most batches have one of a few common texts."""


def texts_of(common: bytes) -> BatchTexts:
    """A reader for a batch with this common text, which may know texts of one before."""
    return _texts_of(common).begin()


def _joined(own: bytes, common: bytes) -> bytes:
    if not own or not common:
        return own or common
    return own + common if own.endswith(END) else own + END + common
