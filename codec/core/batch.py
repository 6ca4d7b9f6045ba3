"""The body of a batch of messages (request code 320), item by item; `rmqcli.codec.batch_item` declares an item.

A `Part` is the portion of a batch that a broker stores at once: adjacent items of the body, each with its
properties followed by those of the whole batch.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i16_be, read_i32_be
from mypy_extensions import i32, i64

from rmqcli.codec.batch_item import ITEM_HEAD, TEXT_LENGTH
from rmqcli.codec.core.property_pairs import PROPERTY_SEPARATOR
from rmqcli.codec.core.record_writer import QueueRun, Run
from rmqcli.codec.core.text import TIMER, UNSOUND, TextReader, joined_text
from rmqcli.codec.errors import BodyError
from rmqcli.codec.property_names import MAX_PROPERTIES_LENGTH

_HEAD: Final[i64] = ITEM_HEAD.size
_FLAG: Final[i64] = ITEM_HEAD.offsets["flag"]
_BODY_LENGTH: Final[i64] = ITEM_HEAD.offsets["body_length"]
_TEXT_LENGTH: Final[i64] = TEXT_LENGTH.size
_LONGEST: Final[i64] = MAX_PROPERTIES_LENGTH
_PAIR_END: Final[i64] = ord(PROPERTY_SEPARATOR)


def _int32(data: bytes, at: i64) -> i64:
    return i64(read_i32_be(data, at))


def item_end(data: bytes, at: i64) -> i64:
    """Check the lengths of the item at a position and return where it ends. Raises BodyError."""
    size: i64 = len(data)
    if at + _HEAD > size:
        raise BodyError(f"batch item at {at} is cut short")
    total: i64 = _int32(data, at)
    body: i64 = _int32(data, at + _BODY_LENGTH)
    end: i64 = at + total
    text_at: i64 = at + _HEAD + body
    # Fails for a size of zero or less as well, so that the next item never begins at this one or before.
    if body < 0 or end > size or text_at > end - _TEXT_LENGTH:
        raise BodyError(f"batch item at {at} has {total} bytes with a body of {body}")
    if i64(read_i16_be(data, text_at)) != end - text_at - _TEXT_LENGTH:
        raise BodyError(f"the lengths of the batch item at {at} do not add up to its size")
    return end


def count_items(data: bytes, at: i64, most: i64) -> tuple[i64, i64]:
    """Count the items from a position on, up to `most`; return the count and where the last one ends. Raises
    BodyError.
    """
    count: i64 = 0
    while at < len(data) and count < most:
        at = item_end(data, at)
        count += 1
    return count, at


def item_flag(data: bytes, at: i64) -> i32:
    """Return the flag of the item at a position that `item_end` has checked."""
    return read_i32_be(data, at + _FLAG)


def item_body(data: bytes, at: i64) -> bytes:
    """Return the body of the item at a position that `item_end` has checked."""
    begin: i64 = at + _HEAD
    size: i64 = _int32(data, at + _BODY_LENGTH)
    return data[begin : begin + size]


def item_text(data: bytes, at: i64) -> bytes:
    """Return the properties of the item at a position that `item_end` has checked."""
    body: i64 = _int32(data, at + _BODY_LENGTH)
    total: i64 = _int32(data, at)
    return data[at + _HEAD + body + _TEXT_LENGTH : at + total]


def read_items(data: bytes) -> list[tuple[int, bytes, bytes]]:
    """Return the flag, body and properties of each item. Raises BodyError."""
    found: list[tuple[int, bytes, bytes]] = []
    at: i64 = 0
    while at < len(data):
        end: i64 = item_end(data, at)
        found.append((item_flag(data, at), item_body(data, at), item_text(data, at)))
        at = end
    return found


def joined_size(data: bytes, begin: i64, end: i64, common: bytes) -> i64:
    """Return the length of the `joined_text` of [begin, end) of `data` and `common`, without joining them."""
    size: i64 = end - begin
    extra: i64 = len(common)
    if size == 0 or extra == 0:
        return size + extra
    return size + extra if data[end - 1] == _PAIR_END else size + 1 + extra


class Part:
    """Items of a batch that are stored together: `count` items, from `begin` to `end` in the body.

    `size` is the number of bytes in their bodies and properties, `weight` the number in their properties.
    `mended` has properties that replace those in the body, by the item's position.
    """

    def __init__(self, data: bytes, common: bytes, begin: i64, seed: i64) -> None:
        """Begin an empty part at a position of the body. `seed` is the `index_seed` of the topic."""
        self.data = data
        self.begin: i64 = begin
        self.end: i64 = begin
        self.count: i64 = 0
        self.size: i64 = 0
        self.weight: i64 = 0
        self.mended: dict[int, bytes] = {}
        self._common = common
        self._reader = TextReader()
        self._common_traits: i64 = self._reader.read(common, 0, len(common))
        self._has_common_facts = self._reader.has_facts
        self._seed: i64 = seed
        self._codes: list[int] = []
        self._hashes: list[list[int]] = []

    def read(self, most_items: i64, most_bytes: i64, step: i64) -> i64:
        """Add items until the part reaches one of the two limits, `step` bytes have been read, or an item
        needs a decision.

        Returns the traits of the item that needs a decision, which is not added, or 0. Raises BodyError.
        """
        data = self.data
        stop: i64 = self.end + step
        while self.end < len(data) and self.end < stop and self.count < most_items and self.size < most_bytes:
            end: i64 = item_end(data, self.end)
            text_at: i64 = self.end + _HEAD + _int32(data, self.end + _BODY_LENGTH) + _TEXT_LENGTH
            traits: i64 = self._reader.read(data, text_at, end) | self._common_traits
            length: i64 = joined_size(data, text_at, end, self._common)
            if traits & (TIMER | UNSOUND) or length > _LONGEST:
                # Properties that are only too long may have no traits, and 0 would mean that no decision is
                # needed.
                return traits | UNSOUND
            text = data
            # The batch's tags and keys come last in the joined text, where they override those of the item.
            if self._has_common_facts:
                text = joined_text(data[text_at:end], self._common)
                self._reader.read(text, 0, len(text))
            self._take(end, length, text)
        return 0

    def next_text(self) -> bytes:
        """Return the properties of the next item."""
        return joined_text(item_text(self.data, self.end), self._common)

    def take(self, text: bytes) -> None:
        """Add the next item with replacement properties."""
        self.mended[self.end] = text
        self._reader.read(text, 0, len(text))
        self._take(item_end(self.data, self.end), len(text), text)

    def _take(self, end: i64, text_size: i64, text: bytes) -> None:
        """Add the next item, which ends at a position; the reader has read its properties in `text`."""
        self._codes.append(self._reader.code(text))
        self._hashes.append(self._reader.hashes(text, self._seed))
        body: i64 = _int32(self.data, self.end + _BODY_LENGTH)
        self.size += body + text_size
        self.weight += text_size
        self.count += 1
        self.end = end

    def _text(self, at: i64) -> bytes:
        if self.mended and at in self.mended:
            return self.mended[at]
        return joined_text(item_text(self.data, at), self._common)

    def store(
        self,
        run: Run,
        queue: QueueRun,
        sys_flag: i64,
        born_timestamp: i64,
        born_host: bytes,
        reconsume_times: i32,
        prepared_transaction_offset: i64,
    ) -> None:
        """Add all items to a run and to its queue. Raises LocalProtocolError."""
        data = self.data
        at: i64 = self.begin
        for code, hashes in zip(self._codes, self._hashes, strict=True):
            run.add(
                queue,
                item_flag(data, at),
                sys_flag,
                born_timestamp,
                born_host,
                reconsume_times,
                prepared_transaction_offset,
                item_body(data, at),
                self._text(at),
                code,
                hashes,
            )
            at += _int32(data, at)
