"""Comparisons of entries, items and links with what records say, against the same by plain rules."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from rmqcli.codec.core.agreement import (
    ItemMatcher,
    agreeing_entries,
    doubtful_entries,
    doubtful_items,
    entries_inside,
    written_entries,
    wrong_links,
)
from rmqcli.codec.store.consume_queue import ENTRY, FILLER, HIGHEST_ADDRESS
from rmqcli.codec.store.index_file import HEADER, ITEM, SLOT, time_difference
from tests.seeds import times

SMALL = st.integers(0, 40)
SLOTS = 7
ENTRIES = st.lists(
    st.tuples(st.integers(-2, 30), st.sampled_from([0, 1, 100]), st.sampled_from([0, 5, HIGHEST_ADDRESS]))
    | st.just(ENTRY.unpack(FILLER)),
    max_size=12,
)
RANGES = st.lists(st.integers(0, 20), max_size=6, unique=True).map(
    lambda numbers: list(zip(sorted(numbers)[::2], sorted(numbers)[1::2], strict=False))
)


def packed(entries: list[tuple[int, int, int]]) -> bytes:
    return b"".join(ENTRY.pack(*entry) for entry in entries)


def numbers_of(ranges: Sequence[tuple[int, ...]]) -> list[int]:
    return [number for begin, end, *_ in ranges for number in range(begin, end)]


@given(ENTRIES, st.binary(max_size=19))
def test_written_entries(entries: list[tuple[int, int, int]], rest: bytes) -> None:
    sizes = [size for _, size, _ in entries]
    assert written_entries(packed(entries) + rest) == (sizes.index(0) if 0 in sizes else len(sizes))


@given(ENTRIES, ENTRIES, SMALL, st.booleans())
def test_agreeing_entries(
    ours: list[tuple[int, int, int]], theirs: list[tuple[int, int, int]], first: int, with_codes: bool
) -> None:
    theirs = [*ours[: len(ours) // 2], *theirs]
    expected = [
        first + number
        for number, (mine, other) in enumerate(zip(ours, theirs, strict=False))
        if mine[:2] == other[:2] and (mine[2] == other[2] or not with_codes or other[2] <= HIGHEST_ADDRESS)
    ]
    assert numbers_of(agreeing_entries(packed(ours), packed(theirs), first, with_codes)) == expected


@given(ENTRIES, st.integers(0, 10), st.integers(-1, 20), st.integers(0, 20), RANGES)
def test_doubtful_entries(
    entries: list[tuple[int, int, int]], first: int, last: int, log_begin: int, ranges: list[tuple[int, int]]
) -> None:
    known, before, doubts, sound = numbers_of(ranges), last, {}, 0
    for number, (offset, size, _) in enumerate(entries):
        if ENTRY.pack(offset, size, 0) == FILLER:
            continue
        if (offset < log_begin or first + number in known) and offset > before:
            sound += 1
        else:
            doubts[number] = before
        before = offset
    found, count, end = doubtful_entries(packed(entries), first, last, log_begin, ranges)
    assert (numbers_of(found), count, end) == (list(doubts), sound, before)
    assert all(doubts[begin] == place for begin, _, place in found)


@given(ENTRIES, RANGES)
def test_entries_inside(entries: list[tuple[int, int, int]], parts: list[tuple[int, int]]) -> None:
    begins, ends = [begin for begin, _ in parts], [end for _, end in parts]
    expected = [
        number
        for number, entry in enumerate(entries)
        if ENTRY.pack(*entry) != FILLER and any(begin <= entry[0] < end for begin, end in parts)
    ]
    assert entries_inside(packed(entries), len(entries), begins, ends) == expected


RECORDS = st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=8)


def keyed(records: list[list[int]]) -> list[tuple[int, int, int]]:
    """Returns hash, offset and time of each item: the hashes of records that are 100 bytes and 3 s apart."""
    return [
        (one, number * 100, 1_000_000 + number * 3000)
        for number, hashes in enumerate(records)
        for one in hashes
    ]


def raw_items(items: list[tuple[int, int, int]], since: int) -> bytes:
    return b"".join(ITEM.pack(one, offset, time_difference(since, time), 0) for one, offset, time in items)


def raw_keyed(items: list[tuple[int, int, int]]) -> bytes:
    return b"".join(
        one.to_bytes(4, "big") + offset.to_bytes(8, "big") + time.to_bytes(8, "big")
        for one, offset, time in items
    )


@given(RECORDS, st.sampled_from([0, 1_000_000, 1_005_000]), st.integers(1, 5))
def test_all_items_of_records_agree(records: list[list[int]], since: int, step: int) -> None:
    """The records come some at a time, the items too."""
    items = keyed(records)
    raw, known, done = raw_items(items, since), [], 0
    for at in range(0, len(items), step):
        matcher = ItemMatcher(raw_keyed(items[at : at + step]))
        found, count = matcher.match(raw[done * ITEM.size :], since)
        known += [done + number for number in numbers_of(found)]
        done += count
    assert known == list(range(len(items)))


@given(RECORDS, st.lists(st.tuples(SMALL, st.integers(0, 19), st.integers(1, 255)), max_size=3), st.data())
def test_items_that_agree_are_those_of_records(
    records: list[list[int]], flips: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    items, since = keyed(records), 1_000_000
    indexed = {offset for _, offset, _ in items if data.draw(st.booleans(), "indexed")}
    listed = [one for one in items if one[1] in indexed]
    raw = bytearray(raw_items(listed, since))
    for number, byte, bits in flips:
        if number < len(listed):
            raw[number * ITEM.size + byte] ^= bits
    found, count = ItemMatcher(raw_keyed(items)).match(bytes(raw), since)
    assert count <= len(listed)
    right = {(one, offset, time_difference(since, time)) for one, offset, time in items}
    agreeing = numbers_of(found)
    assert all(ITEM.unpack_from(raw, number * ITEM.size)[:3] in right for number in agreeing)
    if not flips:
        assert agreeing == list(range(len(listed)))


@given(st.lists(st.integers(-3, 30), max_size=12), st.integers(1, 9), SMALL, st.integers(0, 20), RANGES)
def test_doubtful_items(
    offsets: list[int], first: int, highest: int, log_begin: int, ranges: list[tuple[int, int]]
) -> None:
    known, before, doubts, sound = numbers_of(ranges), highest, {}, 0
    for number, offset in enumerate(offsets):
        if (offset < log_begin or first + number in known) and offset >= before:
            sound += 1
        else:
            doubts[number] = before
        before = max(before, offset)
    raw = b"".join(ITEM.pack(0, offset, 0, 0) for offset in offsets)
    found, count, end = doubtful_items(raw, first, highest, log_begin, ranges)
    assert (numbers_of(found), count, end) == (list(doubts), sound, before)
    assert all(doubts[begin] == place for begin, _, place in found)


@settings(max_examples=times(50))
@given(st.lists(st.integers(0, 2**31 - 1), max_size=30), st.lists(st.tuples(SMALL, SMALL), max_size=3))
def test_wrong_links(hashes: list[int], changes: list[tuple[int, int]]) -> None:
    """Each change is of a slot, or of the link of an item."""
    newest: dict[int, int] = {}
    links = [0]
    for number, one in enumerate(hashes, 1):
        links.append(newest.get(one % SLOTS, 0))
        newest[one % SLOTS] = number
    slots = [newest.get(slot, 0) for slot in range(SLOTS)]
    right, right_slots = list(links), list(slots)
    for place, value in changes:
        if place < SLOTS:
            slots[place] = value
        elif 1 <= place - SLOTS < len(links):
            links[place - SLOTS] = value
    data = bytes(HEADER.size) + b"".join(map(SLOT.pack, slots))
    data += b"".join(ITEM.pack(one, 0, 0, link) for one, link in zip([0, *hashes], links, strict=True))
    expected = [
        (-1, number, found, wanted)
        for number, (found, wanted) in enumerate(zip(links, right, strict=True))
        if found != wanted
    ]
    expected += [
        (slot, 0, found, wanted)
        for slot, (found, wanted) in enumerate(zip(slots, right_slots, strict=True))
        if found != wanted
    ]
    assert wrong_links(data, SLOTS, len(links)) == expected
    assert wrong_links(data, SLOTS, len(links) + 5) == expected
