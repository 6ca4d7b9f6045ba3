"""Queue entries and index items of a record, alone and for many records at once."""

from __future__ import annotations

from struct import Struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqcli.codec.core.dispatch import Dispatch
from rmqcli.codec.core.walk import Walk
from rmqcli.codec.properties import decode_properties, encode_properties, properties_problem
from rmqcli.codec.records.dispatch import DispatchedEntry, entry_tags_code, index_hashes, queue_entries
from rmqcli.codec.records.reading import scan_record
from rmqcli.codec.store.consume_queue import ENTRY
from rmqcli.codec.store.delay_levels import DEFAULT_LEVELS, DelayLevels
from rmqcli.codec.store.file_names import MAX_OFFSET
from tests.codec.samples import make_record
from tests.seeds import times

BASE = 1000
SCHEDULE = "SCHEDULE_TOPIC_XXXX"
KEYED = Struct(">iqq")
LAST = MAX_OFFSET // ENTRY.size - 1
"""The highest queue offset that a queue can hold."""


def encoded(
    topic: str, properties: bytes, sys_flag: int = 0, *, queue_id: int = 3, place: int = BASE, number: int = 5
) -> bytes:
    return make_record(
        topic=topic.encode(),
        queue_id=queue_id,
        queue_offset=number,
        physical_offset=place,
        sys_flag=sys_flag,
        store_timestamp=50_000,
        properties=properties,
    )


def entries(topic: str, properties: dict[str, str], sys_flag: int = 0) -> list[DispatchedEntry]:
    scan = scan_record(encoded(topic, encode_properties(properties), sys_flag))
    return list(queue_entries(scan, decode_properties(scan.properties)))


def test_entries_of_a_record() -> None:
    (plain,) = entries("T", {"TAGS": "a", "KEYS": "x y"})
    assert plain == ("T", 3, 5, BASE, plain.size, 97)
    assert entries("T", {"KEYS": "x"}, 0x4) == entries("T", {"KEYS": "x"}, 0xC) == []


@pytest.mark.parametrize(("sys_flag", "items"), [(0, 3), (0x4, 3), (0x8, 3), (0xC, 0)])
def test_index_items_of_a_record(sys_flag: int, items: int) -> None:
    scan = scan_record(encoded("T", b"KEYS\x01x  y\x02UNIQ_KEY\x01u", sys_flag))
    assert len(index_hashes(scan, decode_properties(scan.properties))) == items


@pytest.mark.parametrize(
    ("delay", "code"),
    [
        ("3", 60_000),
        ("99", 50_000 + DEFAULT_LEVELS.delays_ms[-1]),
        ("4294967297", 50_000 + DEFAULT_LEVELS.delays_ms[-1]),
        *((text, 97) for text in ("0", "-1", "x", "٣", "9" * 5000)),
    ],
)
def test_the_entry_of_a_delayed_message_holds_its_delivery_time(delay: str, code: int) -> None:
    assert entry_tags_code(SCHEDULE, {"TAGS": "a", "DELAY": delay}, 50_000) == code
    assert entry_tags_code("T", {"TAGS": "a", "DELAY": delay}, 50_000) == 97


@pytest.mark.parametrize(
    ("queues", "offsets", "found"),
    [
        ("%LMQ%a,%LMQ%b", "7,9", [("%LMQ%a", 0, 7), ("%LMQ%b", 0, 9)]),
        ("Other", "7", [("Other", 3, 7)]),
        ("%LMQ%a,%LMQ%b", "7", []),
        ("%LMQ%a", "x", []),
        ("%LMQ%a", "9" * 5000, []),
        ("%LMQ%a", "", []),
        ("%LMQ%a,%LMQ%b,", "7,9", [("%LMQ%a", 0, 7), ("%LMQ%b", 0, 9)]),
        ("%LMQ%a", "7,,", [("%LMQ%a", 0, 7)]),
        (",%LMQ%a", "1,7", [("%LMQ%a", 0, 7)]),
        (",", "7", []),
        (" ", "7", []),
        ("a/b,%LMQ%a", "1,7", [("%LMQ%a", 0, 7)]),
        ("%LMQ%a", "9223372036854775807", [("%LMQ%a", 0, 2**63 - 1)]),
        ("%LMQ%a", "9223372036854775808", []),
    ],
)
def test_multi_dispatch(queues: str, offsets: str, found: list[tuple[str, int, int]]) -> None:
    properties = {"INNER_MULTI_DISPATCH": queues, "INNER_MULTI_QUEUE_OFFSET": offsets}
    assert [one[:3] for one in entries("T", properties)] == [("T", 3, 5), *found]


@pytest.mark.parametrize("text", ["", "5", "1s x", "1w", "s", "-1s", "1s,2s", "9999999999s"])
def test_delay_levels_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="messageDelayLevel"):
        DelayLevels(text)


def test_delay_levels() -> None:
    levels = DelayLevels("1s 2m 3h 1d")
    assert levels.delays_ms == (1000, 120_000, 10_800_000, 86_400_000)
    assert [levels.delay_ms(level) for level in (1, 4, 9)] == [1000, 86_400_000, 86_400_000]
    assert DEFAULT_LEVELS.highest == 18


names = st.sampled_from([b"TAGS", b"KEYS", b"UNIQ_KEY", b"DELAY", b"X", b"", b"INNER_MULTI_QUEUE_OFFSET"])
values = st.sampled_from(
    [b"a", b"b c  d", b" ", b"2", b"-3", b"\x01", "kä😀 z".encode(), b"\xff", b"9" * 40, b""]
)
texts = st.lists(st.tuples(names, values), max_size=5).map(
    lambda pairs: b"".join(name + b"\x01" + value + b"\x02" for name, value in pairs)
)
records = st.lists(
    st.tuples(
        st.sampled_from(["A", SCHEDULE]),
        texts,
        st.sampled_from([0, 4, 8, 12]),
        st.integers(0, 1),
        st.integers(0, 9) | st.sampled_from([-1, LAST, LAST + 1, 2**63 - 1]),
    ),
    min_size=1,
    max_size=20,
)


@settings(max_examples=times(50))
@given(records, st.integers(1, 25))
def test_many_records_at_once_give_the_same(
    drawn: list[tuple[str, bytes, int, int, int]], max_rows: int
) -> None:
    levels = DelayLevels("1s 5s 10s")
    data = b""
    for topic, text, sys_flag, queue_id, number in drawn:
        data += encoded(topic, text, sys_flag, queue_id=queue_id, place=BASE + len(data), number=number)
    expected_entries: dict[tuple[str, int], list[tuple[int, ...]]] = {}
    expected_items: list[tuple[int, ...]] = []
    found_entries: dict[tuple[str, int], list[tuple[int, ...]]] = {}
    found_items: list[tuple[int, ...]] = []
    left = 0
    position = 0
    while position < len(data):
        scan = scan_record(data, position)
        properties = decode_properties(scan.properties)
        for entry in queue_entries(scan, properties, levels):
            expected_entries.setdefault(entry[:2], []).append(entry[2:])
        expected_items += [
            (one, scan.physical_offset, scan.store_timestamp) for one in index_hashes(scan, properties)
        ]
        position += scan.total_size
    walk, dispatch = Walk(data, BASE), Dispatch()
    while not walk.is_over:
        is_left = not dispatch.add_all(walk, max_rows)
        runs, items = dispatch.take()
        for run in runs:
            entries = list(ENTRY.iter_unpack(run.entries))
            assert len(entries) == run.end - run.first
            assert (entries[0][0], entries[-1][0]) == (run.begin, run.last)
            mine = found_entries.setdefault((run.topic, run.queue_id), [])
            mine += [(number, *entry) for number, entry in enumerate(entries, run.first)]
        found_items += KEYED.iter_unpack(items)
        if is_left:
            scan = walk.scan()
            properties = decode_properties(scan.properties)
            left += 1
            for entry in queue_entries(scan, properties, levels):
                found_entries.setdefault(entry[:2], []).append(entry[2:])
            found_items += [
                (one, scan.physical_offset, scan.store_timestamp) for one in index_hashes(scan, properties)
            ]
    assert left <= sum(
        topic == SCHEDULE or properties_problem(text) is not None or not 0 <= number < 10
        for topic, text, *_, number in drawn
    )
    assert (found_entries, found_items) == (expected_entries, expected_items)
