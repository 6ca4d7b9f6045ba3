"""The text of a message's properties (`rmqcli.codec.properties` has its rules), read for the facts that a store
needs.

A `TextReader` finds the tags code, the keys for the index, the position of WAIT, and anything that prevents
the text from being stored as it is. It creates neither a dict nor strings: ASCII text is scanned as bytes.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_be, read_i64_be, read_i64_le
from mypy_extensions import i64

from rmqcli.codec.core.hashing import extended, index_hash, signed
from rmqcli.codec.core.property_pairs import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR
from rmqcli.codec.property_names import TIMERS, PropertyName

UNSOUND: Final = 1
"""The text does not parse, because it is not UTF-8 or a pair has no name; or it has WAIT twice."""
TIMER: Final = 2
"""The text has a property that requests a delay of any length."""
DECIDES: Final = 4
"""The text has a property that makes a broker store the message elsewhere or in a different way."""
OWN: Final = 8
"""The text has a property that the broker itself adds."""
FURTHER: Final = 16
"""The text names further queues that have an entry for the message."""

_NAME_END: Final[i64] = ord(NAME_VALUE_SEPARATOR)
_PAIR_END: Final[i64] = ord(PROPERTY_SEPARATOR)
_SEPARATOR: Final = PROPERTY_SEPARATOR.encode()
_BLANK: Final[i64] = ord(" ")
# The separators are 1 and 2, so a byte below 3 in an ASCII text is one of them, or a rare 0.
_THREES: Final[i64] = 0x0303030303030303
# Not a literal, because mypyc makes a Python object of a literal with more than 63 bits.
_HIGHEST: Final[i64] = int.from_bytes(b"\x80" * 8, "big", signed=True)
"""The highest bit of each of eight bytes."""
# Names are compared as integers, with their bytes as digits.
_TAGS: Final[i64] = int.from_bytes(PropertyName.TAGS.encode(), "big")
_KEYS: Final[i64] = int.from_bytes(PropertyName.KEYS.encode(), "big")
_WAIT: Final[i64] = int.from_bytes(PropertyName.WAIT.encode(), "big")
_UNIQ_KEY: Final[i64] = int.from_bytes(PropertyName.UNIQ_KEY.encode(), "big")
_SHORT: Final[i64] = len(PropertyName.TAGS)
_LONG: Final[i64] = len(PropertyName.UNIQ_KEY)
_WAITS: Final = f"{PropertyName.WAIT}{NAME_VALUE_SEPARATOR}true".encode()
_TRAITS: Final[dict[bytes, int]] = {
    **dict.fromkeys((name.encode() for name in TIMERS), TIMER),
    **dict.fromkeys(
        (name.encode() for name in (PropertyName.DELAY, PropertyName.TRAN_MSG, PropertyName.PRIORITY)),
        DECIDES,
    ),
    **dict.fromkeys(
        (name.encode() for name in (PropertyName.CLUSTER, PropertyName.MSG_REGION, PropertyName.TRACE_ON)),
        OWN,
    ),
    PropertyName.INNER_MULTI_DISPATCH.encode(): FURTHER,
}
_INITIALS: Final[bytes] = bytes([initial in {name[0] for name in _TRAITS} for initial in range(128)])


def is_same(data: bytes, begin: i64, end: i64, text: bytes) -> bool:
    """Return True if `data` has a text in [begin, end)."""
    size: i64 = len(text)
    if end - begin != size:
        return False
    at: i64 = 0
    while at + 8 <= size:
        if read_i64_le(data, begin + at) != read_i64_le(text, at):
            return False
        at += 8
    if at + 4 <= size:
        if read_i32_be(data, begin + at) != read_i32_be(text, at):
            return False
        at += 4
    while at < size:
        if data[begin + at] != text[at]:
            return False
        at += 1
    return True


def next_mark(text: bytes, at: i64, end: i64) -> i64:
    """Return the position of the next byte below 3 or above 127, or `end` if there is none before it."""
    last: i64 = i64(len(text)) - 8
    while at < end:
        # A word of eight bytes would extend beyond the text.
        if at > last:
            unit: i64 = text[at]
            if unit < 3 or unit > 127:
                return at
            at += 1
            continue
        word: i64 = read_i64_le(text, at)
        # Sets the highest bit of each byte below 3 or above 127. Through its borrow, the subtraction may also
        # set it in bytes after the first of these, but in none before.
        marks: i64 = (word | word - _THREES) & _HIGHEST
        if marks == 0:
            at += 8
            continue
        # Halves the word until its lowest byte is the first with its highest bit set.
        if marks & 0xFFFFFFFF == 0:
            at += 4
            marks >>= 32
        if marks & 0xFFFF == 0:
            at += 2
            marks >>= 16
        if marks & 0xFF == 0:
            at += 1
        break
    return min(at, end)


class TextReader:
    """The facts of the text last read.

    Index items come from UNIQ_KEY and then from the blank-separated words of KEYS. The pair WAIT extends from
    `wait_begin` to `wait_end`, without separators; both are -1 if there is none.
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
        self._next_key: i64 = -1

    def read(self, text: bytes, begin: i64, end: i64) -> i64:
        """Read the text in [begin, end) of some bytes; return its traits.

        Facts other than `traits` are valid only for a sound text. If a name occurs more than once, the last
        pair counts; a pair without a value is skipped.
        """
        traits: i64 = 0
        is_ascii = True
        self.wait_begin = self.wait_end = -1
        self._tags = self._unique = self._keys = self._next_key = -1
        at: i64 = begin
        while at < end:
            name: i64 = at
            name_end: i64 = -1
            at = next_mark(text, at, end)
            while at < end:
                unit: i64 = text[at]
                if unit == _PAIR_END:
                    break
                if unit == _NAME_END and name_end < 0:
                    name_end = at
                elif unit > 127:
                    is_ascii = False
                at = next_mark(text, at + 1, end)
            pair_end: i64 = at
            at += 1
            # An empty pair, as after a final separator, is none; any other one without a name is unsound.
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
        """Note the position of a pair if a store uses it; return the traits that it adds to the text."""
        value: i64 = name_end + 1
        size: i64 = name_end - name
        if size == _SHORT:
            return self._note_short(i64(read_i32_be(text, name)), name, end)
        if size == _LONG and read_i64_be(text, name) == _UNIQ_KEY:
            self._unique = value
            self._unique_end = end
            return 0
        initial: i64 = text[name]
        # Most names are ruled out by their first letter, without a slice and a lookup.
        if initial < 128 and _INITIALS[initial]:
            return _TRAITS.get(text[name:name_end], 0)
        return 0

    def _note_short(self, name: i64, begin: i64, end: i64) -> i64:
        """Do the same as `_note` for a name of four bytes; `name` is the integer that they form."""
        value: i64 = begin + _SHORT + 1
        if name == _TAGS:
            self._tags = value
            self._tags_end = end
        elif name == _KEYS:
            self._keys = value
            self._keys_end = end
        elif name == _WAIT:
            if self.wait_begin >= 0:
                return UNSOUND  # one of the two would remain in the stored text
            self.wait_begin = begin
            self.wait_end = end
        return 0

    def code(self, text: bytes) -> i64:
        """Return the tags code of the text last read."""
        if self._tags < 0:
            return 0
        return signed(extended(0, text, self._tags, self._tags_end))

    def without_wait(self, text: bytes) -> bytes:
        """Return the text last read, without the pair WAIT and one of the separators around it. `text` must
        have been read as a whole.
        """
        begin: i64 = self.wait_begin
        if begin < 0:
            return text
        end: i64 = self.wait_end
        if end < len(text):
            return text[:begin] + text[end + 1 :]
        return text[: begin - 1] if begin > 0 else b""

    def waits(self, text: bytes) -> bool:
        """Return False if the text last read has WAIT with a value other than `true`."""
        return self.wait_begin < 0 or text[self.wait_begin : self.wait_end] == _WAITS

    def hashes(self, text: bytes, seed: i64) -> list[int]:
        """Return the hashes of the keys in the text last read, in the order of their index items.

        `seed` is the `index_seed` of the topic.
        """
        found: list[int] = []
        self._next_key = -1
        key_hash: i64 = self.next_hash(text, seed)
        while key_hash >= 0:
            found.append(key_hash)
            key_hash = self.next_hash(text, seed)
        return found

    def next_hash(self, text: bytes, seed: i64) -> i64:
        """Return the next of these hashes, or -1 after the last; hashes are never negative."""
        if self._next_key < 0:
            # UNIQ_KEY comes only once: from here on `_next_key` is not negative, even without KEYS.
            self._next_key = self._keys if self._keys >= 0 else 0
            if self._unique >= 0:
                return index_hash(extended(seed, text, self._unique, self._unique_end))
        if self._keys < 0:
            return -1
        at: i64 = self._next_key
        end: i64 = self._keys_end
        while at < end and text[at] == _BLANK:
            at += 1
        begin: i64 = at
        while at < end and text[at] != _BLANK:
            at += 1
        self._next_key = at
        return index_hash(extended(seed, text, begin, at)) if at > begin else -1

    def words(self, text: bytes) -> list[bytes]:
        """Return the blank-separated words of KEYS in the text last read."""
        if self._keys < 0:
            return []
        return [word for word in text[self._keys : self._keys_end].split(b" ") if word]

    @property
    def has_facts(self) -> bool:
        """True if the text last read has a tags code or index items."""
        return self._tags >= 0 or self._unique >= 0 or self._keys >= 0


def _problem(text: bytes) -> i64:
    try:
        text.decode()
    except UnicodeDecodeError:
        return UNSOUND
    return 0


def joined_text(first: bytes, second: bytes) -> bytes:
    """Return the pairs of one text followed by those of another, as one text."""
    if not first or not second:
        return first or second
    return first + second if first.endswith(_SEPARATOR) else first + _SEPARATOR + second
