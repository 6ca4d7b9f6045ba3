"""The text of a message's properties (`codec.properties` has its rules), read for what storing the
message needs.

A `TextReader` finds the tags code, the items of the index, the place of WAIT, and what forbids to store
the text as it comes. It makes no dict and no string: a text that is ASCII is read byte by byte.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from codec.core.hashing import extended, index_hash, signed
from codec.core.pairs import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR
from codec.properties import TIMERS, PropertyName

UNSOUND: Final = 1
"""The text does not parse, as it is not UTF-8 or a pair has no name, or it has WAIT twice."""
TIMER: Final = 2
"""It has a property that asks for a delay of any length."""
DECIDES: Final = 4
"""It has a property by which a broker stores the message elsewhere, or in another way."""
OWN: Final = 8
"""It has a property that a broker adds itself."""

_NAME_END: Final[i64] = ord(NAME_VALUE_SEPARATOR)
_PAIR_END: Final[i64] = ord(PROPERTY_SEPARATOR)
_SEPARATOR: Final = PROPERTY_SEPARATOR.encode()
_BLANK: Final[i64] = ord(" ")
_TAGS: Final = PropertyName.TAGS.encode()
_KEYS: Final = PropertyName.KEYS.encode()
_WAIT: Final = PropertyName.WAIT.encode()
_WAITS: Final = _WAIT + NAME_VALUE_SEPARATOR.encode() + b"true"
_UNIQ_KEY: Final = PropertyName.UNIQ_KEY.encode()
_TRAITS: Final[dict[bytes, int]] = {
    **dict.fromkeys((name.encode() for name in TIMERS), TIMER),
    **dict.fromkeys((PropertyName.DELAY.encode(), PropertyName.TRAN_MSG.encode()), DECIDES),
    **dict.fromkeys(
        (name.encode() for name in (PropertyName.CLUSTER, PropertyName.MSG_REGION, PropertyName.TRACE_ON)),
        OWN,
    ),
}
_INITIALS: Final[bytes] = bytes(sorted({name[0] for name in _TRAITS}))


def _is_at(text: bytes, at: i64, word: bytes) -> bool:
    """Return True if the bytes of `word` are at a position of a text that is long enough."""
    size: i64 = len(word)
    place: i64 = 0
    while place < size:
        if text[at + place] != word[place]:
            return False
        place += 1
    return True


class TextReader:
    """The facts of the last text that was read.

    Index items are those of UNIQ_KEY and then of the blank-separated words of KEYS. WAIT is the pair from
    `wait_begin` to `wait_end`, without separators; both are -1 without one.
    """

    def __init__(self) -> None:
        self.traits: i64 = 0
        self.wait_begin: i64 = -1
        self.wait_end: i64 = -1
        self._tags: i64 = -1
        self._tags_end: i64 = -1
        self._unique: i64 = -1
        self._unique_end: i64 = -1
        self._keys: i64 = -1
        self._keys_end: i64 = -1

    def read(self, text: bytes, begin: i64, end: i64) -> i64:
        """Read the text in [begin, end) of some bytes; return its traits.

        The facts but for `traits` are those of a sound text. Of equal names the last one counts; a pair
        without a value is skipped.
        """
        traits: i64 = 0
        is_ascii = True
        self.wait_begin = self.wait_end = -1
        self._tags = self._unique = self._keys = -1
        at: i64 = begin
        while at < end:
            name: i64 = at
            name_end: i64 = -1
            while at < end:
                unit: i64 = text[at]
                if unit == _PAIR_END:
                    break
                if unit == _NAME_END and name_end < 0:
                    name_end = at
                elif unit > 127:
                    is_ascii = False
                at += 1
            pair_end: i64 = at
            at += 1
            if name_end <= name:
                if pair_end > name:
                    traits |= UNSOUND
                continue
            if name_end + 1 < pair_end:
                traits |= self._note(text, name, name_end, pair_end)
        if not is_ascii:
            traits |= _problem(text[begin:end])
        self.traits = traits
        return traits

    def _note(self, text: bytes, name: i64, name_end: i64, end: i64) -> i64:
        """Note where a pair is if a store looks at it; return the traits that it gives to the text."""
        value: i64 = name_end + 1
        size: i64 = name_end - name
        if size == 4 and _is_at(text, name, _TAGS):
            self._tags = value
            self._tags_end = end
        elif size == 4 and _is_at(text, name, _KEYS):
            self._keys = value
            self._keys_end = end
        elif size == 8 and _is_at(text, name, _UNIQ_KEY):
            self._unique = value
            self._unique_end = end
        elif size == 4 and _is_at(text, name, _WAIT):
            if self.wait_begin >= 0:
                return UNSOUND  # one of the two would be left in what is stored
            self.wait_begin = name
            self.wait_end = end
        elif text[name] in _INITIALS:
            return _TRAITS.get(text[name:name_end], 0)
        return 0

    def code(self, text: bytes) -> i64:
        """Return the tags code of the text that was read."""
        if self._tags < 0:
            return 0
        return signed(extended(0, text, self._tags, self._tags_end))

    def without_wait(self, text: bytes) -> bytes:
        """Return the text that was read, which was whole, without the pair WAIT and one of the separators
        around it.
        """
        begin: i64 = self.wait_begin
        if begin < 0:
            return text
        end: i64 = self.wait_end
        if end < len(text):
            return text[:begin] + text[end + 1 :]
        return text[: begin - 1] if begin > 0 else b""

    def waits(self, text: bytes) -> bool:
        """Return False if the text that was read has WAIT with another value than `true`."""
        return self.wait_begin < 0 or text[self.wait_begin : self.wait_end] == _WAITS

    def hashes(self, text: bytes, seed: i64) -> list[int]:
        """Return the hashes of the keys of the text that was read, in the order of their index items.

        `seed` is the `index_seed` of the topic.
        """
        found: list[int] = []
        if self._unique >= 0:
            found.append(index_hash(extended(seed, text, self._unique, self._unique_end)))
        if self._keys < 0:
            return found
        at: i64 = self._keys
        end: i64 = self._keys_end
        while at < end:
            begin: i64 = at
            while at < end and text[at] != _BLANK:
                at += 1
            if at > begin:
                found.append(index_hash(extended(seed, text, begin, at)))
            at += 1
        return found

    @property
    def has_facts(self) -> bool:
        """True if the text that was read has a tags code or index items."""
        return self._tags >= 0 or self._unique >= 0 or self._keys >= 0


def _problem(text: bytes) -> i64:
    try:
        text.decode()
    except UnicodeDecodeError:
        return UNSOUND
    return 0


def joined_text(first: bytes, second: bytes) -> bytes:
    """Return a text with the pairs of one and then those of another."""
    if not first or not second:
        return first or second
    return first + second if first.endswith(_SEPARATOR) else first + _SEPARATOR + second
