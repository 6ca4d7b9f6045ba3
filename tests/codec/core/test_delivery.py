"""The records that a pull takes equal those of a plain model, of queues with any entries."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqcli.codec.core.delivery import Delivery
from rmqcli.codec.store.consume_queue import (
    ENTRY,
    ENTRY_SIZE,
    FILLER,
    HIGHEST_ADDRESS,
    LOWEST_ADDRESS,
    is_address,
)

FILE = 1000
START, END = 2 * FILE, 4 * FILE + 700
FILES = {start: bytes(start // FILE * 37 + n & 255 for n in range(FILE)) for start in range(START, END, FILE)}
HIGHEST = (1 << 63) - 1

EDGES = [0, START - 1, START, 3 * FILE - 1, 3 * FILE, END - 1, END, 5 * FILE, -1, -(1 << 63), HIGHEST]
OFFSETS = st.integers(START - 50, END + 50) | st.sampled_from(EDGES) | st.integers(-(1 << 63), HIGHEST)
SIZES = st.integers(0, 90) | st.sampled_from([-1, -(1 << 31), FILE, 2 * FILE, (1 << 31) - 1])
CODES = st.sampled_from([0, 1, 2, HIGHEST_ADDRESS + 1, HIGHEST_ADDRESS, LOWEST_ADDRESS, 1 << 40])
Entry = tuple[int, int, int]
ENTRIES = st.lists(st.tuples(OFFSETS, SIZES, CODES), max_size=30)


@st.composite
def neighbours(draw: st.DrawFn) -> list[Entry]:
    """Entries as a broker writes them: records follow one another, with gaps for those of other queues."""
    found, at = [], draw(st.integers(START - 200, START + 200))
    for size, gap, code in draw(st.lists(st.tuples(st.integers(1, 90), st.sampled_from([0, 0, 70]), CODES))):
        if at // FILE != (at + size - 1) // FILE:
            at += -at % FILE
        found.append((at, size, code))
        at += size + gap
    return found


class Pull(NamedTuple):
    """What a pull asks for, and where the part of the log in memory begins."""

    most: int
    limits: tuple[int, int, int, int]
    memory_start: int
    codes: frozenset[int] | None
    addresses: frozenset[int] | None
    verdicts: dict[int, bool | None] | None
    """Verdicts about records, by the offset's rest of a division by 5; those that are missing are True."""


COUNTS, BYTES = st.sampled_from([0, 1, 3, 32]), st.sampled_from([1, 100, 100_000])
PULLS = st.builds(
    Pull,
    st.sampled_from([-1, 0, 1, 2, 5, 32, 1000]),
    st.tuples(COUNTS, BYTES, COUNTS, BYTES),
    st.sampled_from([START - 9999, 3 * FILE, END + 1]),
    st.none() | st.frozensets(CODES),
    st.none() | st.frozensets(CODES),
    st.none() | st.dictionaries(st.integers(0, 4), st.booleans() | st.none(), max_size=2),
)
EVERYTHING = Pull(1000, (32, 100_000, 32, 100_000), 0, None, None, None)


class Taken(NamedTuple):
    """The ranges of the log that a pull gets, of neighbours in one file, and its numbers."""

    ranges: list[tuple[int, int]]
    records: int
    size: int
    scanned: int
    last: int
    end: int
    has_removed: bool


def model(entries: list[Entry], pull: Pull) -> Taken:
    """The plain model: one entry after the other, without a bound on integers."""
    records: list[tuple[int, int]] = []
    scanned = last = total = 0
    removed_before = -(1 << 64)
    has_removed = False
    for offset, size, code in entries:
        last = offset
        if offset < removed_before:
            scanned += 1
            continue
        most, most_bytes = pull.limits[2:] if offset < pull.memory_start else pull.limits[:2]
        if records and (len(records) >= min(most, pull.most) or total + size > most_bytes):
            break
        scanned += 1
        wanted = pull.addresses if is_address(code) else pull.codes
        if wanted is not None and code not in wanted:
            continue
        end_of_file = offset // FILE * FILE + FILE
        if size < 0 or not START <= offset < END or offset + size > min(end_of_file, END):
            has_removed |= not records
            removed_before = min(end_of_file, HIGHEST)
            continue
        removed_before = -(1 << 64)
        verdict = True if pull.verdicts is None else pull.verdicts.get(offset % 5, True)
        if verdict is None:
            scanned -= 1
            break
        if verdict:
            records.append((offset, size))
            total += size
    end = sum(records[-1]) if records else 0
    return Taken(joined(records), len(records), total, scanned, last, end, has_removed)


def joined(records: list[tuple[int, int]]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for offset, size in records:
        if ranges and ranges[-1][1] == offset and ranges[-1][0] // FILE == offset // FILE:
            ranges[-1] = ranges[-1][0], offset + size
        else:
            ranges.append((offset, offset + size))
    return ranges


def delivery_of(pull: Pull) -> Delivery:
    def judge(offset: int, _size: int, is_first: bool) -> bool | None:
        assert pull.verdicts is not None
        assert is_first == (delivery.scanned == 1)
        return pull.verdicts.get(offset % 5, True)

    def asked(codes: frozenset[int] | None) -> Callable[[int], bool] | None:
        return None if codes is None else codes.__contains__

    judges = asked(pull.codes), asked(pull.addresses), None if pull.verdicts is None else judge
    delivery = Delivery(pull.limits, pull.most, (START, END, FILE), pull.memory_start, *judges)
    return delivery


def check(entries: list[Entry], pull: Pull, parts: list[int]) -> None:
    """Compares a delivery that reads the entries in parts with the model."""
    delivery = delivery_of(pull)
    data = b"".join(ENTRY.pack(*entry) for entry in entries)
    cuts = sorted({0, len(data), *(part * ENTRY_SIZE for part in parts if part < len(entries))})
    for begin, end in pairwise(cuts):
        if delivery.read(data[begin:end]):
            break
    taken = model(entries, pull)
    numbers = delivery.count, delivery.size, delivery.scanned, delivery.last
    assert (*numbers, delivery.end, delivery.has_removed) == taken[1:]
    ranges: list[tuple[int, int]] = []
    views: list[memoryview] = []
    for stretches in delivery.files:
        begins = [stretches.start + begin for begin in stretches.begins]
        ranges += zip(begins, [stretches.start + end for end in stretches.ends], strict=True)
        views += stretches.views(memoryview(FILES[stretches.start]))
        assert stretches.begins == sorted(stretches.begins)
        assert stretches.size == sum(stretches.ends) - sum(stretches.begins)
    assert ranges == taken.ranges
    whole = b"".join(FILES.values())
    assert [bytes(view) for view in views] == [whole[begin - START : end - START] for begin, end in ranges]


@given(neighbours(), PULLS, st.lists(st.integers(1, 30), max_size=3))
def test_of_queues_that_the_broker_wrote(entries: list[Entry], pull: Pull, parts: list[int]) -> None:
    check(entries, pull, parts)


@given(ENTRIES, PULLS, st.lists(st.integers(1, 30), max_size=3))
@example([(HIGHEST, 1, 0), (HIGHEST, 0, 0), (START, 5, 0)], EVERYTHING, [])
@example([(START + 50, 5, 0), (START, 5, 0), (START + 5, 5, 0)], EVERYTHING, [])
def test_of_queues_with_any_entries(entries: list[Entry], pull: Pull, parts: list[int]) -> None:
    check(entries, pull, parts)


def test_what_was_removed_is_passed_up_to_the_next_file() -> None:
    entries = FILLER + b"".join(ENTRY.pack(offset, 9, 0) for offset in (FILE - 1, FILE, START, START + 9))
    delivery = delivery_of(EVERYTHING)
    assert not delivery.read(entries)
    assert (delivery.scanned, delivery.count, delivery.has_removed) == (5, 2, True)
    assert [(one.begins, one.ends) for one in delivery.files] == [([0], [18])]


@pytest.mark.parametrize("size", range(ENTRY_SIZE))
def test_a_part_of_an_entry_is_none(size: int) -> None:
    delivery = delivery_of(EVERYTHING)
    assert not delivery.read(bytes(size))
    assert delivery.scanned == 0


def test_the_error_of_a_judge_ends_the_read() -> None:
    def fail(_code: int) -> bool:
        raise KeyError("judge")

    delivery = Delivery(EVERYTHING.limits, 32, (START, END, FILE), 0, fail, None, None)
    with pytest.raises(KeyError, match="judge"):
        delivery.read(ENTRY.pack(START, 9, 0))
