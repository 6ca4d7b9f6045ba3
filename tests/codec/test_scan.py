"""The columns of a scan equal what reading record by record returns."""

from __future__ import annotations

import itertools
import mmap
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
from rmqcli.codec.records.reading import decode_record, peek_record
from rmqcli.codec.scan.arrow import RecordsAt, scan_batches, schema
from rmqcli.codec.scan.arrow_arrays import Array, is_in
from tests.codec.samples import log_of, make_record, record_fields, small_log
from tests.support import JavaStore

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = ("born_timestamp", "store_timestamp")


def to_arrow(data: bytes, positions: Array, sizes: Array, **options: Any) -> pa.RecordBatch:
    return RecordsAt(data, **options).batch(positions, sizes)


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


def test_a_mapped_file_can_be_closed_afterwards(store_clean: JavaStore) -> None:
    with store_clean.commit_logs[0].open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with memoryview(mapped) as view:
        batches = list(scan_batches(view))
    mapped.close()
    assert sum(batch.num_rows for batch in batches) == 713
    assert rows_of(batches[0])[0]["topic"] == "SeedNormal"


def spans_of(data: bytes) -> tuple[Array, Array]:
    """Positions and sizes of the records of a log."""
    positions, sizes = [0], []
    while positions[-1] < len(data):
        sizes.append(peek_record(data, positions[-1]).total_size)
        positions.append(positions[-1] + sizes[-1])
    return np.array(positions[:-1], dtype=np.int64), np.array(sizes, dtype=np.int64)


def rows_both_ways(data: bytes, **options: Any) -> list[dict[str, Any]]:
    """The rows of a log, which are the same in either encoding, walked or read by their positions."""
    expected = [row for batch in scan_batches(data, **options) for row in rows_of(batch)]
    assert rows_of(to_arrow(data, *spans_of(data), **options)) == expected
    encoded = to_arrow(data, *spans_of(data), **options, encoded=True)
    encoded.validate(full=True)
    assert rows_of(encoded.cast(schema())) == expected
    return expected


def decoded(data: bytes, broker_name: str | None = None) -> list[dict[str, Any]]:
    return [as_row(decode_record(data, at), broker_name) for at in spans_of(data)[0].tolist()]


@given(st.lists(record_fields(), max_size=8), st.integers(0, 2**62))
def test_any_records(records: list[dict[str, Any]], base: int) -> None:
    data = log_of(records, base)
    assert rows_both_ways(data, base=base, decompress=False) == decoded(data)


TEXTS = st.lists(
    st.sampled_from(["\x01", "\x02", "a", "TAGS", "KEYS", "UNIQ_KEY", " ", "é", "value"]), max_size=24
)


@given(st.lists(TEXTS.map("".join).map(str.encode) | st.binary(max_size=30), min_size=1, max_size=6))
def test_any_properties(texts: list[bytes]) -> None:
    data = small_log(*({"properties": text} for text in texts))
    assert rows_both_ways(data) == decoded(data)


NAMES = st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "a"])
ALIKE = st.lists(st.tuples(NAMES, st.text("xyz", min_size=1, max_size=9)), max_size=4).map(
    lambda pairs: "\x02".join(f"{name}\x01{value}" for name, value in pairs).encode()
)


@given(
    st.lists(ALIKE | ALIKE.map(lambda text: text + b"\x02") | st.binary(max_size=12), min_size=1, max_size=4),
    st.lists(st.integers(0, 3), min_size=1, max_size=16),
)
def test_texts_of_which_some_have_the_same_names(texts: list[bytes], order: list[int]) -> None:
    data = small_log(*({"properties": texts[number % len(texts)]} for number in order))
    assert rows_both_ways(data) == decoded(data)


def test_the_last_of_pairs_with_the_same_name_counts() -> None:
    (row,) = rows_both_ways(small_log({"properties": b"a\x011\x02b\x012\x02a\x013\x02c\x014"}))
    assert list(row["properties"].items()) == [("b", "2"), ("a", "3"), ("c", "4")]


def test_many_names() -> None:
    names = [f"name{number}" for number in range(70)]
    text = "\x02".join(f"{name}\x01{turn}" for turn in (1, 2) for name in names).encode()
    rows = rows_both_ways(small_log({"properties": text}, {"properties": b"name3\x01x"}))
    assert rows[0]["properties"] == dict.fromkeys(names, "2")
    assert rows[1]["properties"] == {"name3": "x"}


def test_a_name_that_comes_very_often() -> None:
    text = b"\x02".join([b"a\x011"] * 4097 + [b"b\x012"] * 4000)
    assert rows_both_ways(small_log({"properties": text}))[0]["properties"] == {"a": "1", "b": "2"}


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"topic", b"other", b"longer topic"]),
            st.sampled_from([b"TAGS\x01a", b"TAGS\x01b", b"TAGS\x01\xc3\xa9", b"KEYS\x01a b", b""]),
            st.sampled_from([b"\1" * 8, b"\2" * 8, b"\x7f" + bytes(7), b"\3" * 20]),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_columns_of_one_value_and_of_several(records: list[tuple[bytes, bytes, bytes]]) -> None:
    data = small_log(
        *(
            {"topic": topic, "properties": text, "born_host": host, "store_host": host}
            for topic, text, host in records
        )
    )
    assert rows_both_ways(data, broker_name="b") == decoded(data, "b")


def test_no_properties_no_topic() -> None:
    row = rows_both_ways(small_log(*[{"properties": b"", "topic": b"", "body": b""}] * 2))[1]
    assert (row["properties"], row["keys"], row["tags"], row["topic"], row["body"]) == ({}, [], None, "", b"")
    assert row["msg_id"] == row["offset_msg_id"]


def test_text_that_is_not_utf_8() -> None:
    rows = rows_both_ways(
        small_log(
            {"topic": b"\xe4", "properties": b"a\x01\xe4"}, {"topic": b"\xb8\xad", "properties": b"b\x01\xff"}
        )
    )
    assert [row["topic"] for row in rows] == ["\ufffd", "\ufffd\ufffd"]
    assert [row["properties"] for row in rows] == [{"a": "\ufffd"}, {"b": "\ufffd"}]


def test_bodies_are_decompressed_when_asked() -> None:
    packed, flag = compress(b"x" * 5000, "lz4")
    data = small_log({}, {"body": packed, "sys_flag": flag})
    assert [row["body"] for row in rows_both_ways(data)] == [b"hello0", b"x" * 5000]
    assert [row["body"] for row in rows_both_ways(data, decompress=False)] == [b"hello0", packed]


def test_a_body_that_cannot_be_decompressed() -> None:
    """It is damage at its record; the records before it are given."""
    packed, flag = compress(b"x" * 5000, "lz4")
    data = small_log({}, {}, {"body": packed[:-9], "sys_flag": flag}, {})
    batches = scan_batches(data)
    assert next(batches).num_rows == 2
    with pytest.raises(CorruptionError, match="lz4") as caught:
        next(batches)
    assert caught.value.position == 2 * len(RECORD)


def test_times_are_utc() -> None:
    (batch,) = scan_batches(make_record())
    born = batch.column("born_timestamp")
    assert born.type == pa.timestamp("us", tz="UTC")
    assert born[0].as_py() == EPOCH + timedelta(milliseconds=1795224776027)


RECORD = make_record()


def records(count: int) -> bytes:
    return small_log(*[{}] * count)


def test_a_scan_between_two_places() -> None:
    size = len(RECORD)
    for end, count in ((3 * size, 2), (2 * size + 1, 2), (2 * size, 1)):
        # The record that starts before the end is included.
        assert sum(batch.num_rows for batch in scan_batches(records(5), size, end, batch_rows=2)) == count


def test_parts_of_a_log_add_up(store_clean: JavaStore) -> None:
    data = store_clean.commit_logs[0].read_bytes()
    positions = [line["phy"] for line in store_clean.of_kind("msg") if line["phy"] < len(data)]
    cuts = [0, *(positions[number] for number in (100, 101, 400)), len(data)]
    parts = [
        batch.column("commit_log_offset").to_pylist()
        for start, end in itertools.pairwise(cuts)
        for batch in scan_batches(data, start, end)
    ]
    assert list(itertools.chain(*parts)) == positions


def test_batches_are_bounded() -> None:
    sizes = [batch.num_rows for batch in scan_batches(records(10), batch_rows=4)]
    assert sizes == [4, 4, 2]
    sizes = [batch.num_rows for batch in scan_batches(records(10), batch_bytes=len(RECORD) * 5)]
    assert sizes == [5, 5]
    packed, flag = compress(bytes(10_000), "zlib")
    data = small_log(*[{"body": packed, "sys_flag": flag}] * 10)
    assert [batch.num_rows for batch in scan_batches(data, batch_bytes=25_000)] == [3, 3, 3, 1]


def test_the_good_records_before_damage_are_given() -> None:
    wrong_crc = bytearray(small_log({}, {}, {}))
    wrong_crc[2 * len(RECORD) + 88] ^= 1
    wrong_length = bytearray(small_log({}, {}, {}))
    wrong_length[2 * len(RECORD) + 87] += 1
    elsewhere = small_log({}, {}, {"physical_offset": 7})
    for bad, check in (
        (wrong_crc, True),
        (wrong_length, False),
        (records(2) + b"\xff" * 100, False),
        (elsewhere, False),
    ):
        batches = scan_batches(bytes(bad) + RECORD, check_crc=check)
        assert next(batches).num_rows == 2
        with pytest.raises(CorruptionError) as caught:
            next(batches)
        assert caught.value.position == 2 * len(RECORD)


def test_nothing_to_scan() -> None:
    assert list(scan_batches(b"")) == []
    assert list(scan_batches(bytes(1000))) == []
    none = np.zeros(0, dtype=np.int64)
    for encoded in (False, True):
        assert to_arrow(RECORD, none, none, encoded=encoded).num_rows == 0


@pytest.mark.parametrize("size", [-1, 1, 90, len(RECORD) - 1, len(RECORD) + 1, 2 * len(RECORD) - 1, 10**6])
def test_records_of_other_sizes(size: int) -> None:
    data = records(2)
    with pytest.raises(CorruptionError):
        to_arrow(data, np.array([0]), np.array([size]))


@pytest.mark.parametrize("position", [-1, 1, 2 * len(RECORD), 10**6])
def test_records_at_other_positions(position: int) -> None:
    with pytest.raises(CorruptionError):
        to_arrow(records(2), np.array([0, position]), np.array([len(RECORD)] * 2))


def test_records_in_any_order() -> None:
    data = records(3)
    places = np.array([2, 0, 0, 1]) * len(RECORD)
    assert (
        to_arrow(data, places, np.array([len(RECORD)] * 4))["commit_log_offset"].to_pylist()
        == places.tolist()
    )


@pytest.mark.parametrize("encoded", [False, True])
def test_a_batch_does_not_change_with_the_next(encoded: bool) -> None:
    bodies = b"one", b"two" * 999
    data = small_log(*({"body": body, "properties": b"KEYS\x01" + body} for body in bodies))
    positions, sizes = spans_of(data)
    records = RecordsAt(data, encoded=encoded)
    found = [records.batch(positions[at : at + 1], sizes[at : at + 1]) for at in range(2)]
    assert [row for batch in found for row in rows_of(batch.cast(schema()))] == decoded(data)


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_texts_of_a_column_that_are_in_a_set(kind: pa.DataType) -> None:
    column = pa.array(["a", None, "b", "a"]).cast(kind)
    assert is_in(column, {"a", "c"}).to_pylist() == [True, False, False, True]
