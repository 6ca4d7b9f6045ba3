"""The columns of a scan equal what reading record by record returns."""

from __future__ import annotations

import itertools
import mmap
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqcli.codec.compression import compress
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.message import MessageExt
from rmqcli.codec.records.encoding import encode_filler, encode_record
from rmqcli.codec.records.reading import decode_record
from rmqcli.codec.scan import StopReason, find_bad_crc, fixed_columns, scan_positions
from rmqcli.codec.scan.arrow import scan_batches, schema, to_arrow
from rmqcli.codec.scan.arrow_arrays import dictionary
from tests.codec.samples import make_record, record_fields
from tests.support import JavaStore

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = ("born_timestamp", "store_timestamp")


def as_row(message: MessageExt, broker_name: str | None = None) -> dict[str, Any]:
    """Returns a decoded message as its expected row; times in microseconds."""
    columns = {name: getattr(message, name) for name in schema().names}
    limit = (2**63 - 1) // 1000
    moments = {name: min(max(columns[name], -limit), limit) * 1000 for name in MOMENTS}
    return {**columns, **moments, "broker_name": broker_name}


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    batch.validate(full=True)
    assert batch.schema == schema()
    plain = {
        name: batch.column(name).cast(pa.int64()) if name in MOMENTS else batch.column(name)
        for name in batch.schema.names
    }
    columns = {name: column.to_pylist() for name, column in plain.items()}
    columns["properties"] = list(map(dict, columns["properties"]))
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def test_every_column_of_the_java_stores(java_store: JavaStore) -> None:
    rows = []
    for path in java_store.commit_logs:
        for batch in scan_batches(path.read_bytes(), check_crc=True, broker_name="broker-a", batch_rows=500):
            assert batch.num_rows <= 500
            rows += rows_of(batch)
    log = java_store.commit_log
    expected = [
        as_row(decode_record(log, line["phy"], decompress=True), "broker-a")
        for line in java_store.of_kind("msg")
    ]
    for row, wanted in zip(rows, expected, strict=True):
        assert row == wanted


ENDS = {"blank": StopReason.FILLER, "zero": StopReason.ZERO}
"""By the words of the Java program that lists the stores."""


def test_fixed_columns_of_the_java_stores(java_store: JavaStore) -> None:
    for path, line in zip(java_store.commit_logs, java_store.of_kind("commitlog-file"), strict=True):
        data = path.read_bytes()
        walk = scan_positions(data)
        assert len(walk.positions) == line["messages"]
        assert walk.reason is ENDS[line["end"].partition("@")[0]]
        assert walk.end == int(line["end"].partition("@")[2].split(" ")[0])
        rows = fixed_columns(data, walk.positions)
        assert find_bad_crc(data, rows) == []
        assert rows["physical_offset"].tolist() == (walk.positions + int(path.name)).tolist()


def test_a_mapped_file_can_be_closed_afterwards(store_clean: JavaStore) -> None:
    with store_clean.commit_logs[0].open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with memoryview(mapped) as view:
        batches = list(scan_batches(view))
    mapped.close()
    assert sum(batch.num_rows for batch in batches) == 713
    assert rows_of(batches[0])[0]["topic"] == "SeedNormal"


@given(st.lists(record_fields(), max_size=8))
def test_any_records(records: list[dict[str, Any]]) -> None:
    data = b"".join(encode_record(**fields) for fields in records)
    walk = scan_positions(data)
    assert (walk.end, walk.reason) == (len(data), StopReason.END)
    expected = [as_row(decode_record(data, position)) for position in walk.positions.tolist()]
    plain = to_arrow(data, walk.positions, decompress=False)
    for row, wanted in zip(rows_of(plain), expected, strict=True):
        assert row == wanted
    encoded = to_arrow(data, walk.positions, decompress=False, encoded=True)
    encoded.validate(full=True)
    assert rows_of(encoded.cast(schema())) == expected


TEXTS = st.lists(
    st.sampled_from(["\x01", "\x02", "a", "TAGS", "KEYS", "UNIQ_KEY", " ", "é", "value"]), max_size=24
)


@given(st.lists(TEXTS.map("".join).map(str.encode) | st.binary(max_size=30), min_size=1, max_size=6))
def test_any_properties(texts: list[bytes]) -> None:
    data = b"".join(make_record(properties=text) for text in texts)
    positions = scan_positions(data).positions
    expected = [as_row(decode_record(data, position)) for position in positions.tolist()]
    assert rows_of(to_arrow(data, positions)) == expected


def test_more_names_than_bits() -> None:
    names = [f"name{number}" for number in range(70)]
    text = "\x02".join(f"{name}\x01{turn}" for turn in (1, 2) for name in names).encode()
    data = make_record(properties=text) + make_record(properties=b"name3\x01x")
    rows = rows_of(to_arrow(data, scan_positions(data).positions))
    assert rows[0]["properties"] == dict.fromkeys(names, "2")
    assert rows[1]["properties"] == {"name3": "x"}


def test_a_name_that_comes_very_often() -> None:
    text = b"\x02".join([b"a\x011"] * 4097 + [b"b\x012"] * 4000)
    data = make_record(properties=text)
    assert rows_of(to_arrow(data, scan_positions(data).positions))[0]["properties"] == {"a": "1", "b": "2"}


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"topic", b"other", b"longer topic"]),
            st.sampled_from([b"TAGS\x01a", b"TAGS\x01b", b"TAGS\x01\xc3\xa9", b"KEYS\x01a b", b""]),
            st.sampled_from([b"\1" * 8, b"\2" * 8, b"\x7f" + bytes(7), b"\3" * 20]),
            st.sampled_from([0, 2**16, 2**32, 2**33 + 1, -1]),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_columns_of_one_value_and_of_several(records: list[tuple[bytes, bytes, bytes, int]]) -> None:
    data = b"".join(
        make_record(topic=topic, properties=text, born_host=host, store_host=host, physical_offset=offset)
        for topic, text, host, offset in records
    )
    positions = scan_positions(data).positions
    plain = to_arrow(data, positions, broker_name="b")
    expected = [as_row(decode_record(data, position), "b") for position in positions.tolist()]
    assert rows_of(plain) == expected
    encoded = to_arrow(data, positions, broker_name="b", encoded=True)
    encoded.validate(full=True)
    assert rows_of(encoded.cast(schema())) == expected


@pytest.mark.parametrize("texts", [["aa", "a", "aaa"], ["a", "aa", ""], ["", ""], ["b", None], ["x"], []])
def test_texts_of_which_there_are_few(texts: list[str | None]) -> None:
    """Different texts can have the total length of equal ones."""
    found = dictionary(pa.array(texts, pa.string()))
    found.validate(full=True)
    assert found.to_pylist() == texts
    assert dictionary(pa.array(["z", *texts], pa.string())[1:]).to_pylist() == texts


def test_no_properties_no_topic() -> None:
    data = make_record(properties=b"", topic=b"", body=b"") * 2
    row = rows_of(to_arrow(data, scan_positions(data).positions))[1]
    assert (row["properties"], row["keys"], row["tags"], row["topic"], row["body"]) == ({}, [], None, "", b"")
    assert row["msg_id"] == row["offset_msg_id"]


def test_text_that_is_not_utf_8() -> None:
    data = make_record(topic=b"\xe4", properties=b"a\x01\xe4") + make_record(
        topic=b"\xb8\xad", properties=b"b\x01\xff"
    )
    rows = rows_of(to_arrow(data, scan_positions(data).positions))
    assert [row["topic"] for row in rows] == ["\ufffd", "\ufffd\ufffd"]
    assert [row["properties"] for row in rows] == [{"a": "\ufffd"}, {"b": "\ufffd"}]


def test_bodies_are_decompressed_when_asked() -> None:
    packed, flag = compress(b"x" * 5000, "lz4")
    data = make_record() + make_record(body=packed, sys_flag=flag)
    (batch,) = scan_batches(data)
    assert batch.column("body").to_pylist() == [b"hello0", b"x" * 5000]
    (batch,) = scan_batches(data, decompress=False)
    assert batch.column("body").to_pylist() == [b"hello0", packed]
    (batch,) = scan_batches(make_record())
    assert batch.column("body").to_pylist() == [b"hello0"]


@pytest.mark.parametrize("segments", [True, False])
@pytest.mark.parametrize("length", [0, 1, 100, 3000])
def test_crcs_of_many_bodies(length: int, segments: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty body has no CRC. zstandard may be missing."""
    if not segments:
        monkeypatch.setitem(sys.modules, "zstandard", None)
    wrong = [0, 2047, 4999]
    records = [
        make_record(body=bytes([row % 251]) * length, **({"body_crc": row} if row in wrong else {}))
        for row in range(5000)
    ]
    data = b"".join(records)
    for buffer in (data, bytearray(data), memoryview(data)):
        rows = fixed_columns(buffer, scan_positions(buffer).positions)
        assert find_bad_crc(buffer, rows) == (wrong if length else [])


def test_times_are_utc() -> None:
    (batch,) = scan_batches(make_record())
    born = batch.column("born_timestamp")
    assert born.type == pa.timestamp("us", tz="UTC")
    assert born[0].as_py() == EPOCH + timedelta(milliseconds=1795224776027)


RECORD = make_record()


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (b"", StopReason.END),
        (encode_filler(20) + bytes(12), StopReason.FILLER),
        (encode_filler(8), StopReason.FILLER),
        (encode_filler(21) + bytes(12), StopReason.FILLER),
        (b"\0\0\0\7" + encode_filler(8)[4:], StopReason.GARBAGE),
        (bytes(500), StopReason.ZERO),
        (bytes(5), StopReason.ZERO),
        (b"\x01\x02", StopReason.GARBAGE),
        (RECORD[:-1], StopReason.CUT),
        (RECORD[:20], StopReason.CUT),
        (b"\xff" * 200, StopReason.GARBAGE),
        (bytes(4) + RECORD[4:], StopReason.GARBAGE),
        ((90).to_bytes(4, "big") + RECORD[4:], StopReason.GARBAGE),
        (b"\x80\x00\x00\x00" + RECORD[4:], StopReason.GARBAGE),
    ],
)
def test_where_and_why_a_walk_stops(tail: bytes, reason: StopReason) -> None:
    walk = scan_positions(RECORD * 3 + tail)
    assert walk.positions.tolist() == [0, len(RECORD), 2 * len(RECORD)]
    assert (walk.end, walk.reason) == (3 * len(RECORD), reason)
    assert reason.is_damage is (reason in (StopReason.CUT, StopReason.GARBAGE))


def test_a_walk_between_two_places() -> None:
    size = len(RECORD)
    walk = scan_positions(RECORD * 5, size, 3 * size)
    assert walk.positions.tolist() == [size, 2 * size]
    assert (walk.end, walk.reason) == (3 * size, StopReason.END)
    # the record that starts before the end is included
    walk = scan_positions(RECORD * 5, 0, 2 * size + 1)
    assert (len(walk.positions), walk.end, walk.reason) == (3, 3 * size, StopReason.END)
    assert sum(batch.num_rows for batch in scan_batches(RECORD * 5, 0, 2 * size + 1, batch_rows=2)) == 3


def test_parts_of_a_log_add_up(store_clean: JavaStore) -> None:
    data = store_clean.commit_logs[0].read_bytes()
    positions = scan_positions(data).positions
    cuts = [0, *positions[[100, 101, 400]].tolist(), len(data)]
    parts = [
        batch.column("commit_log_offset").to_pylist()
        for start, end in itertools.pairwise(cuts)
        for batch in scan_batches(data, start, end)
    ]
    assert list(itertools.chain(*parts)) == positions.tolist()


def test_limits_of_a_walk() -> None:
    size = len(RECORD)
    walk = scan_positions(RECORD * 5, max_rows=2)
    assert (len(walk.positions), walk.end, walk.reason) == (2, 2 * size, StopReason.LIMIT)
    walk = scan_positions(RECORD * 5, max_bytes=size + 1)
    assert (len(walk.positions), walk.reason) == (2, StopReason.LIMIT)
    assert scan_positions(RECORD * 5, max_rows=5).reason is StopReason.END


def test_batches_are_bounded() -> None:
    sizes = [batch.num_rows for batch in scan_batches(RECORD * 10, batch_rows=4)]
    assert sizes == [4, 4, 2]
    sizes = [batch.num_rows for batch in scan_batches(RECORD * 10, batch_bytes=len(RECORD) * 5)]
    assert sizes == [5, 5]


def test_the_good_records_before_damage_are_given() -> None:
    wrong_crc = bytearray(RECORD)
    wrong_crc[88] ^= 1
    wrong_length = bytearray(RECORD)
    wrong_length[87] += 1
    for bad, check in ((wrong_crc, True), (wrong_length, False), (b"\xff" * 100, False)):
        batches = scan_batches(RECORD * 2 + bytes(bad) + RECORD, check_crc=check)
        assert next(batches).num_rows == 2
        with pytest.raises(CorruptionError) as caught:
            next(batches)
        assert caught.value.position == 2 * len(RECORD)


def test_nothing_to_scan() -> None:
    assert list(scan_batches(b"")) == []
    assert list(scan_batches(bytes(1000))) == []
    assert to_arrow(RECORD, np.zeros(0, dtype=np.int64)).num_rows == 0


def test_positions_must_ascend() -> None:
    with pytest.raises(ValueError, match="ascend"):
        to_arrow(RECORD * 2, np.array([len(RECORD), 0]))


@pytest.mark.parametrize("version", [1, 2])
def test_a_walk_that_stops_before_a_record_of_either_version(version: int) -> None:
    one = make_record(version=version)
    walk = scan_positions(one * 3, max_rows=2)
    assert (walk.positions.tolist(), walk.end, walk.reason) == ([0, len(one)], 2 * len(one), StopReason.LIMIT)
    cut = scan_positions((one * 3)[:-1])
    assert (len(cut.positions), cut.reason) == (2, StopReason.CUT)
