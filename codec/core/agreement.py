"""Comparison of stored queue entries and index items with those derived from the records of a commit log, and
checks of the chains of slots.

Ranges are [begin, end), in numbers of entries or items.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from librt.strings import read_i32_be, read_i64_be
from librt.vecs import vec
from mypy_extensions import i32, i64

from rmqcli.codec.core.dispatch import KEYED_SIZE
from rmqcli.codec.core.record_reader import RecordReader
from rmqcli.codec.core.text import TextReader
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.layout import Buffer
from rmqcli.codec.store.consume_queue import ENTRY, FILLER_SIZE, HIGHEST_ADDRESS
from rmqcli.codec.store.index_file import ITEM, MAX_TIME_DIFF, SLOT, item_position, slot_position

Range = tuple[int, int]
Doubt = tuple[int, int, int]
"""A range, and the commit-log offset before it: that of its first entry must be higher, that of its first
item not lower.
"""

_ENTRY: Final[i64] = ENTRY.size
_SIZE: Final[i64] = ENTRY.offsets["size"]
_CODE: Final[i64] = ENTRY.offsets["tags_code"]
_FILLER: Final[i64] = FILLER_SIZE
_ADDRESSES: Final[i64] = HIGHEST_ADDRESS
_ITEM: Final[i64] = ITEM.size
_OFFSET: Final[i64] = ITEM.offsets["phy_offset"]
_TIME: Final[i64] = ITEM.offsets["time_diff"]
_PREVIOUS: Final[i64] = ITEM.offsets["previous"]
_SLOT: Final[i64] = SLOT.size
_KEYED_OFFSET: Final[i64] = 4
_KEYED_TIME: Final[i64] = 12
_LATEST: Final[i64] = MAX_TIME_DIFF
# Number of items or slots copied from the file at a time.
_PIECE: Final[i64] = 1 << 14


def _add(found: list[Range], begin: i64, end: i64) -> None:
    if begin < end:
        found.append((begin, end))


# --- queues


def written_entries(data: bytes) -> i64:
    """Return the number of whole entries before the first one of size 0."""
    count: i64 = len(data) // _ENTRY
    number: i64 = 0
    # Not bisected: after damage entries may follow a hole, and the first one counts.
    while number < count and read_i32_be(data, number * _ENTRY + _SIZE) != 0:
        number += 1
    return number


def entries_inside(raw: bytes, count: i64, begins: list[int], ends: list[int]) -> list[int]:
    """Return the numbers of the entries, among the first `count`, that are not fillers and whose commit-log
    offset lies in one of the parts [begin, end) of a commit log. The parts ascend and do not overlap.
    """
    found: list[int] = []
    number: i64 = 0
    while number < count:
        offset: i64 = read_i64_be(raw, number * _ENTRY)
        low: i64 = 0
        high: i64 = len(begins)
        while low < high:
            # Finds the last part that begins at or before the offset.
            middle: i64 = (low + high) // 2
            if begins[middle] <= offset:
                low = middle + 1
            else:
                high = middle
        is_filler = offset == 0 and i64(read_i32_be(raw, number * _ENTRY + _SIZE)) == _FILLER
        if low > 0 and offset < ends[low - 1] and not is_filler:
            found.append(number)
        number += 1
    return found


def agreeing_entries(ours: bytes, theirs: bytes, first: i64, with_codes: bool) -> list[Range]:
    """Return the ranges of entries of a file that equal the entries derived from records; both begin at queue
    offset `first`.

    The address of an extension in the file matches any tags code; without `with_codes`, codes are not
    compared.
    """
    count: i64 = min(i64(len(ours)), i64(len(theirs))) // _ENTRY
    # Undamaged files agree throughout: a single comparison of bytes replaces the loop.
    if ours[: count * _ENTRY] == theirs[: count * _ENTRY]:
        return [(first, first + count)] if count else []
    found: list[Range] = []
    begin: i64 = 0
    number: i64 = 0
    while number < count:
        at: i64 = number * _ENTRY
        code: i64 = read_i64_be(theirs, at + _CODE)
        if (
            read_i64_be(ours, at) != read_i64_be(theirs, at)
            or read_i32_be(ours, at + _SIZE) != read_i32_be(theirs, at + _SIZE)
            or (with_codes and code > _ADDRESSES and code != read_i64_be(ours, at + _CODE))
        ):
            _add(found, first + begin, first + number)
            begin = number + 1
        number += 1
    _add(found, first + begin, first + count)
    return found


def doubtful_entries(
    raw: bytes, first: i64, last: i64, log_begin: i64, agreeing: Sequence[Range]
) -> tuple[list[Doubt], int, int]:
    """Return the ranges of entries that must be compared with their records, the number of other entries that
    are not fillers, and the commit-log offset of the last entry.

    The entries begin at queue offset `first`, and the `agreeing` ranges ascend. `last` is the commit-log
    offset of the entry before them. Offsets must ascend; an entry below `log_begin` has no record.
    """
    found: list[Doubt] = []
    sound: i64 = 0
    count: i64 = len(raw) // _ENTRY
    number: i64 = 0
    begin: i64 = -1
    before: i64 = last
    place: i64 = 0
    ranges: i64 = len(agreeing)
    agreed: i64 = -1
    agreed_end: i64 = -1
    while number < count:
        at: i64 = number * _ENTRY
        offset: i64 = read_i64_be(raw, at)
        is_filler = offset == 0 and i64(read_i32_be(raw, at + _SIZE)) == _FILLER
        queue_offset: i64 = first + number
        while queue_offset >= agreed_end and place < ranges:
            agreed = agreeing[place][0]
            agreed_end = agreeing[place][1]
            place += 1
        is_known = offset < log_begin or agreed <= queue_offset < agreed_end
        if is_filler or (is_known and offset > last):
            if begin >= 0:
                found.append((begin, number, before))
                begin = -1
            if not is_filler:
                sound += 1
        elif begin < 0:
            begin = number
            before = last
        if not is_filler:
            last = offset
        number += 1
    if begin >= 0:
        found.append((begin, count, before))
    return found, sound, last


class EntryCheck:
    """Compares entries of one queue with their records, one at a time. `topic` is encoded."""

    def __init__(self, topic: bytes, queue_id: i64, with_codes: bool, check_crc: bool) -> None:
        self._topic = topic
        self._queue_id: i64 = queue_id
        self._with_codes = with_codes
        self._check_crc = check_crc
        self._record = RecordReader()
        self._text = TextReader()

    def agrees(self, log: Buffer, at: i64, queue_offset: i64, offset: i64, size: i64, code: i64) -> bool:
        """Return True if the record at position `at` of a log file has this entry. False is not final: some
        records need the rules of `rmqcli.codec.records.dispatch`.
        """
        record = self._record
        try:
            data = record.find(log, at, i64(len(log)), self._check_crc)
        except CorruptionError:
            return False
        if data[record.topic_at : record.topic_end] != self._topic or record.queue_id != self._queue_id:
            return False
        if (record.physical_offset, record.queue_offset, i64(read_i32_be(data, 0))) != (
            offset,
            queue_offset,
            size,
        ):
            return False
        # The address of an extension stands in place of the tags code, so there is nothing to compare.
        if not self._with_codes or code <= _ADDRESSES:
            return True
        self._text.read(data, record.properties_at, record.end)
        return self._text.code(data) == code


# --- index


def _seconds(since: i64, timestamp: i64) -> i64:
    return min(max((timestamp - since) // 1000, 0), _LATEST) if since > 0 else 0


def _is_item(keyed: bytes, at: i64, raw: bytes, place: i64, since: i64) -> bool:
    if read_i64_be(keyed, at + _KEYED_OFFSET) != read_i64_be(raw, place + _OFFSET):
        return False
    if read_i32_be(keyed, at) != read_i32_be(raw, place):
        return False
    return i64(read_i32_be(raw, place + _TIME)) == _seconds(since, read_i64_be(keyed, at + _KEYED_TIME))


class ItemMatcher:
    """Matches the items of index files with those derived from records. `keyed` holds the latter in log
    order, KEYED_SIZE bytes each.
    """

    def __init__(self, keyed: bytes) -> None:
        self._keyed = keyed
        self._at: i64 = 0

    def match(self, raw: bytes, since: i64) -> tuple[list[Range], int]:
        """Return the ranges of items that equal those of the next records, in the order of both, and the
        number of items examined; the others belong to later records.

        The times of the items count from `since` (ms).
        """
        found: list[Range] = []
        keyed = self._keyed
        end: i64 = len(keyed)
        at: i64 = self._at
        count: i64 = len(raw) // _ITEM
        begin: i64 = 0
        number: i64 = 0
        while number < count:
            place: i64 = number * _ITEM
            offset: i64 = read_i64_be(raw, place + _OFFSET)
            # An offset above the next one is not trusted: skipping to it would skip the records of all items
            # after it.
            if number + 1 == count or read_i64_be(raw, place + _ITEM + _OFFSET) >= offset:
                # A broker that began without an index lacks the items of earlier records.
                while at < end and read_i64_be(keyed, at + _KEYED_OFFSET) < offset:
                    at += KEYED_SIZE
            if at >= end:
                break
            if _is_item(keyed, at, raw, place, since):
                at += KEYED_SIZE
            else:
                _add(found, begin, number)
                begin = number + 1
            number += 1
        _add(found, begin, number)
        self._at = at
        return found, number


def doubtful_items(
    raw: bytes, first: i64, highest: i64, log_begin: i64, agreeing: Sequence[Range]
) -> tuple[list[Doubt], int, int]:
    """Return the ranges of items that must be compared with their records, the number of other items, and the
    highest commit-log offset.

    The items begin at number `first`, and the `agreeing` ranges ascend. `highest` is the highest commit-log
    offset before them. Offsets must not descend; an item below `log_begin` has no record.
    """
    found: list[Doubt] = []
    sound: i64 = 0
    count: i64 = len(raw) // _ITEM
    number: i64 = 0
    begin: i64 = -1
    before: i64 = highest
    place: i64 = 0
    ranges: i64 = len(agreeing)
    agreed: i64 = -1
    agreed_end: i64 = -1
    while number < count:
        offset: i64 = read_i64_be(raw, number * _ITEM + _OFFSET)
        while first + number >= agreed_end and place < ranges:
            agreed = agreeing[place][0]
            agreed_end = agreeing[place][1]
            place += 1
        is_known = offset < log_begin or agreed <= first + number < agreed_end
        if is_known and offset >= highest:
            if begin >= 0:
                found.append((begin, number, before))
                begin = -1
            sound += 1
        elif begin < 0:
            begin = number
            before = highest
        highest = max(highest, offset)
        number += 1
    if begin >= 0:
        found.append((begin, count, before))
    return found, sound, highest


def wrong_links(data: Buffer, slots: i64, count: i64) -> list[tuple[int, int, int, int]]:
    """Return the links that differ from those that follow from the hashes of items [1, count): the links of
    items in order, then those of slots. Each result has the slot or -1, the item or 0, the number found, and
    the correct number.
    """
    found: list[tuple[int, int, int, int]] = []
    count = min(count, (i64(len(data)) - i64(item_position(slots, 0))) // _ITEM)
    newest = vec[i32]([0] * slots)
    number: i64 = 1
    while number < count:
        end: i64 = min(number + _PIECE, count)
        raw = bytes(data[item_position(slots, number) : item_position(slots, end)])
        at: i64 = 0
        while number < end:
            # Damaged hashes may be negative. The remainder is not, unlike Java's, so it is always a slot.
            slot: i64 = i64(read_i32_be(raw, at)) % slots
            # Both numbers are i32: a conversion costs the interpreted core as much as the rest.
            if read_i32_be(raw, at + _PREVIOUS) != newest[slot]:
                found.append((-1, number, read_i32_be(raw, at + _PREVIOUS), newest[slot]))
            newest[slot] = i32(number)
            at += _ITEM
            number += 1
    slot = 0
    while slot < slots:
        last: i64 = min(slot + _PIECE, slots)
        raw = bytes(data[slot_position(slot) : slot_position(last)])
        at = 0
        while slot < last:
            if read_i32_be(raw, at) != newest[slot]:
                found.append((slot, 0, read_i32_be(raw, at), newest[slot]))
            at += _SLOT
            slot += 1
    return found
