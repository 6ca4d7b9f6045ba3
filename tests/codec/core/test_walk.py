"""A walk over records and its reader agree with the declaration of a record, whatever bytes they meet."""

from __future__ import annotations

from typing import Any, NamedTuple

import construct
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqcli.codec.core.record_reader import RecordScan
from rmqcli.codec.core.walk import CLOSED, STOP, UNWRITTEN, Walk
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.records.encoding import encode_filler, encode_record
from rmqcli.codec.records.reading import scan_record
from rmqcli.codec.store.record_layout import MAGIC_FILLER, PREFIXES, RECORD
from tests.codec.samples import make_record, record_fields
from tests.seeds import times

BASE = 4096
WINDOW = 1 << 18
LENGTHS = ("total_size", "magic", "sys_flag", "body_length", "topic_length", "properties_length")
VALUES = (0, 1, 3, 7, 8, 90, 91, 127, 128, 0x30, 32767, 32768, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


class Course(NamedTuple):
    """What a walk met: the offsets and values of its records, where it ended and why; -1 is damage."""

    records: list[tuple[int, RecordScan]]
    end: int
    ending: int


def walked(data: bytes | memoryview, begin: int = 0, **bounds: Any) -> Course:
    walk = Walk(data, BASE, begin, **bounds)
    found: list[tuple[int, RecordScan]] = []
    try:
        while walk.next():
            found.append((walk.position, walk.scan()))
    except CorruptionError as error:
        assert error.position == walk.position
        return Course(found, walk.position, -1)
    assert walk.count == len(found)
    return Course(found, walk.position, walk.ending)


def declared(data: bytes) -> Course:
    """Walks by the declaration alone."""
    found: list[tuple[int, RecordScan]] = []
    at = 0
    while at < len(data):
        head = data[at : at + 8]
        if len(head) < 8 or not any(head):
            return Course(found, at, UNWRITTEN)
        if int.from_bytes(head[4:], "big") == MAGIC_FILLER:
            size = int.from_bytes(head[:4], "big", signed=True)
            return Course(found, at, CLOSED if size >= 8 else -1)
        try:
            record = RECORD.parse(data[at:])
        except construct.ConstructError:
            return Course(found, at, -1)
        if record.physical_offset != BASE + at:
            return Course(found, at, -1)
        found.append((at, RecordScan(**{name: record[name] for name in RecordScan._fields})))
        at += record.total_size
    return Course(found, at, STOP)


def log(fields: list[dict[str, Any]]) -> bytes:
    data = b""
    for one in fields:
        data += encode_record(**{**one, "physical_offset": BASE + len(data)})
    return data


def places(record: bytes) -> dict[str, tuple[int, int]]:
    """Returns where the lengths of a record are, and their sizes, from what the declaration says of its parts."""
    parsed = RECORD.parse(record)
    body_end = record.rindex(parsed.body, 0, len(record) - len(parsed.properties) - 2 - len(parsed.topic) - 1)
    body_end += len(parsed.body)
    end = len(record) - len(parsed.properties) - 2
    return {
        "total_size": (0, 4),
        "magic": (4, 4),
        "sys_flag": (36, 4),
        "body_length": (body_end - len(parsed.body) - 4, 4),
        "topic_length": (body_end, end - len(parsed.topic) - body_end),
        "properties_length": (end, 2),
    }


@given(st.lists(record_fields(), max_size=4), st.sampled_from([b"", bytes(20), bytes(3), encode_filler(40)]))
def test_sound_records(fields: list[dict[str, Any]], rest: bytes) -> None:
    data = log(fields) + rest
    expected = declared(data)
    assert len(expected.records) == len(fields)
    assert walked(data) == walked(memoryview(data)) == walked(data, check_crc=True) == expected


@settings(max_examples=times(100))
@given(st.lists(record_fields(), min_size=1, max_size=3), st.data())
def test_every_length_that_is_another(fields: list[dict[str, Any]], data: st.DataObject) -> None:
    whole = bytearray(log(fields))
    chosen = data.draw(st.sampled_from(declared(bytes(whole)).records))
    begin, record = chosen[0], bytes(whole[chosen[0] : chosen[0] + chosen[1].total_size])
    place, size = places(record)[data.draw(st.sampled_from(LENGTHS))]
    old = int.from_bytes(record[place : place + size], "big")
    value = data.draw(st.sampled_from([*VALUES, old - 1, old + 1, len(record), len(whole)]))
    whole[begin + place : begin + place + size] = (value % (1 << 8 * size)).to_bytes(size, "big")
    hostile = bytes(whole)
    expected = declared(hostile)
    assert walked(hostile) == walked(memoryview(hostile)) == expected


@settings(max_examples=times(75))
@given(st.lists(record_fields(), min_size=1, max_size=3), st.data())
def test_any_bytes_that_are_others(fields: list[dict[str, Any]], data: st.DataObject) -> None:
    whole = bytearray(log(fields))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    hostile = bytes(whole)
    assert walked(hostile) == declared(hostile)


@settings(max_examples=times(13))
@given(record_fields())
def test_a_cut_at_any_byte(fields: dict[str, Any]) -> None:
    data = log([fields])
    for length in range(len(data)):
        assert walked(data[:length]) == declared(data[:length]), length
        assert walked(data, limit=length).records == []


def sized(sizes: list[int]) -> bytes:
    data = b""
    for size in sizes:
        data += make_record(body=bytes(size), physical_offset=BASE + len(data))
    return data


@pytest.mark.parametrize(
    "sizes",
    [
        [5000] * 150,
        [WINDOW - 200, 10, WINDOW - 100],
        [WINDOW, 1, 3 * WINDOW, 1],
        [100] * 20 + [2 * WINDOW] + [100] * 20,
    ],
)
def test_records_across_windows(sizes: list[int]) -> None:
    data = sized(sizes) + encode_filler(500)
    found = walked(memoryview(data), check_crc=True)
    assert found.ending == CLOSED
    assert [place for place, _ in found.records] == [place for place, _ in declared(data).records]
    for place, record in found.records:
        assert record == scan_record(data, place)
    middle = found.records[len(sizes) // 2][0]
    assert walked(data, middle).records == found.records[len(sizes) // 2 :]
    assert walked(data, stop=middle + 1).records == found.records[: len(sizes) // 2 + 1]


@pytest.mark.parametrize("size", [5, 3 * WINDOW])
def test_a_wrong_crc(size: int) -> None:
    data = bytearray(sized([10, size, 10]))
    begin = walked(bytes(data)).records[1][0]
    data[begin + PREFIXES[0].size + 2] ^= 1
    assert walked(bytes(data)).ending == STOP
    found = walked(bytes(data), check_crc=True)
    assert (len(found.records), found.end, found.ending) == (1, begin, -1)
    with pytest.raises(CorruptionError, match="CRC"):
        scan_record(bytes(data), begin, check_crc=True)


class Noted:
    """A buffer that says how far it was read."""

    def __init__(self, data: bytes) -> None:
        self.data, self.furthest, self.most = data, 0, 0

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, part: slice) -> bytes:
        self.furthest = max(self.furthest, part.stop)
        self.most = max(self.most, part.stop - part.start)
        return self.data[part]


def test_a_hole_is_left_alone() -> None:
    data = sized([100] * 3)
    noted = Noted(data + bytes(1 << 20))
    walk = Walk(noted, BASE, reach=len(data))  # type: ignore[arg-type]
    walk.skip()
    assert (walk.count, walk.ending) == (3, UNWRITTEN)
    assert noted.furthest <= len(data)


def test_a_record_may_end_in_a_hole() -> None:
    data = sized([100]) + make_record(
        properties=b"", body=bytes(50), physical_offset=BASE + len(sized([100]))
    )
    assert len(walked(data, reach=len(data) - 2).records) == 2


def test_a_long_record_that_is_none_is_not_copied() -> None:
    data = sized([100])
    size, body = 64 << 20, 40 << 20
    hostile = bytearray(make_record(physical_offset=BASE + len(data)))
    place = places(bytes(hostile))["body_length"][0]
    hostile[:4], hostile[place : place + 4] = size.to_bytes(4, "big"), body.to_bytes(4, "big")
    noted = Noted(data + bytes(hostile) + bytes(size))
    walk = Walk(noted, BASE)  # type: ignore[arg-type]
    with pytest.raises(CorruptionError, match="with a body of"):
        walk.skip()
    assert noted.most <= WINDOW


def test_the_first_record_says_where_a_file_begins() -> None:
    data = sized([10, 10])
    walk = Walk(data, -1)
    walk.skip()
    assert (walk.base, walk.count) == (BASE, 2)
