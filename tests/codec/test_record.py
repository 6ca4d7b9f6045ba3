"""The readers of a stored record agree with its declaration, on sound and on damaged bytes."""

from __future__ import annotations

from typing import Any

import construct
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqcli.codec.errors import CodecError, CorruptionError, LocalProtocolError
from rmqcli.codec.ids import host_text
from rmqcli.codec.properties import decode_properties
from rmqcli.codec.records.encoding import encode_filler, encode_record, record_size
from rmqcli.codec.records.reading import (
    decode_record,
    decode_records,
    peek_record,
    scan_record,
    store_timestamp_at,
)
from rmqcli.codec.store.record_layout import HOST_BITS, MAGIC_FILLER, MAGIC_V1, MAGIC_V2, PREFIXES, RECORD
from tests.codec.samples import make_record, record_fields
from tests.seeds import times

# From a commit log of Java 4.9.8: the first message of a queue, before its properties.
JAVA_RECORD = bytes.fromhex(
    "0000006bdaa320a77036e99200000001000000000000000000000000000000000000000000000000"
    "000001a1fb99338a7f0000010000a6ce000001a1fb9933a47f00000100002a9f0000000000000000"
    "000000000000000668656c6c6f3006546f7069634100" + "04" + "61013002"
)

TEXTS = ("topic", "properties")
SAME = ("body_crc", "queue_id", "flag", "queue_offset", "sys_flag", "born_timestamp", "store_timestamp")
ATTRIBUTES = {
    "total_size": "store_size",
    "physical_offset": "commit_log_offset",
    **{name: name for name in (*SAME, "reconsume_times", "prepared_transaction_offset")},
}
"""The names in a message by those in a record."""


def by_construct(data: bytes) -> dict[str, Any]:
    parsed = RECORD.parse(data)
    return {name: value for name, value in parsed.items() if not name.startswith("_")}


def by_struct(data: bytes) -> dict[str, Any]:
    scan = scan_record(data)
    message = decode_record(data)
    layout = PREFIXES[message.sys_flag & HOST_BITS]
    values = dict(zip(layout.names, layout.unpack_from(data), strict=True))
    assert message.properties == decode_properties(scan.properties)
    assert message.topic == scan.topic.decode("utf-8", "replace")
    assert (message.born_host, message.store_host) == (
        host_text(values["born_host"]),
        host_text(values["store_host"]),
    )
    assert decode_record(b"before" + data + b"after", 6) == message
    assert decode_record(memoryview(b"before" + data + b"after"), 6) == message
    return {**values, "body": message.body, "topic": scan.topic, "properties": scan.properties} | {
        name: getattr(message, attribute) for name, attribute in ATTRIBUTES.items()
    }


def outcome(reader: Any, data: bytes) -> dict[str, Any] | None:
    """Returns None when the reader refuses; errors other than the codec's own propagate."""
    try:
        values: dict[str, Any] = reader(data)
    except (CodecError, construct.ConstructError):
        return None
    return {
        name: value for name, value in values.items() if name not in ("topic_length", "properties_length")
    }


@given(record_fields())
def test_the_readers_agree_on_any_record(fields: dict[str, Any]) -> None:
    data = encode_record(**fields)
    expected = outcome(by_construct, data)
    assert expected is not None
    assert by_struct(data) == expected
    assert {name: expected[name] for name in fields if name not in ("sys_flag", "version")} == {
        name: value for name, value in fields.items() if name not in ("sys_flag", "version")
    }
    assert expected["sys_flag"] & ~HOST_BITS == fields["sys_flag"] & ~HOST_BITS


@settings(max_examples=times(125))
@given(record_fields(), st.data())
def test_the_readers_agree_on_hostile_bytes(fields: dict[str, Any], data: st.DataObject) -> None:
    record = bytearray(encode_record(**fields))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, min(len(record) - 1, 130)))
        record[place] = data.draw(st.integers(0, 255))
    hostile = bytes(record)
    expected = outcome(by_construct, hostile)
    assert outcome(by_struct, hostile) == expected


@settings(max_examples=times(13))
@given(record_fields())
def test_a_record_is_refused_when_cut_at_any_byte(fields: dict[str, Any]) -> None:
    data = encode_record(**fields)
    for length in range(len(data)):
        cut = data[:length]
        assert outcome(by_construct, cut) is None
        assert outcome(by_struct, cut) is None


@given(record_fields())
def test_construct_builds_what_the_encoder_builds(fields: dict[str, Any]) -> None:
    data = encode_record(**fields)
    assert RECORD.build(RECORD.parse(data)) == data
    size = record_size(
        len(fields["body"]),
        len(fields["topic"]),
        len(fields["properties"]),
        decode_record(data).sys_flag,
        fields["version"],
    )
    assert size == len(data)


@given(record_fields())
def test_fields_before_the_hosts_are_read_alike_for_every_kind_of_host(fields: dict[str, Any]) -> None:
    data = encode_record(**fields)
    assert {layout.offsets["born_host"] for layout in PREFIXES.values()} == {48}
    for layout in PREFIXES.values():
        head = dict(zip(layout.names, layout.unpack_from(data.ljust(layout.size)), strict=True))
        assert all(head[name] == fields[name] for name in ("queue_id", "queue_offset", "born_timestamp"))
    assert store_timestamp_at(data) == fields["store_timestamp"]
    assert peek_record(data) == (len(data), MAGIC_V1 if fields["version"] == 1 else MAGIC_V2)


def test_a_record_of_java() -> None:
    message = decode_record(JAVA_RECORD, check_crc=True)
    assert message.topic == "TopicA"
    assert message.body == b"hello0"
    assert (message.queue_id, message.queue_offset, message.commit_log_offset) == (1, 0, 0)
    assert (message.born_host, message.store_host) == ("127.0.0.1:42702", "127.0.0.1:10911")
    assert message.offset_msg_id == message.msg_id == "7F00000100002A9F0000000000000000"
    assert message.properties == {"a": "0"}


def test_hosts_of_both_families() -> None:
    v6 = bytes.fromhex("20010db8000000000000000000000001") + (10911).to_bytes(4, "big")
    message = decode_record(make_record(store_host=v6))
    assert message.store_host == "[2001:db8::1]:10911"
    assert message.born_host == "127.0.0.1:42702"
    assert message.sys_flag == 0x20
    assert message.offset_msg_id == "20010DB800000000000000000000000100002A9F0000000000001000"


@pytest.mark.parametrize("size", [91, 103, 115])
def test_the_smallest_records(size: int) -> None:
    hosts = {91: (8, 8), 103: (20, 8), 115: (20, 20)}[size]
    data = make_record(
        topic=b"", body=b"", properties=b"", born_host=bytes(hosts[0]), store_host=bytes(hosts[1])
    )
    assert len(data) == size
    assert decode_record(data, check_crc=True).properties == {}


@pytest.mark.parametrize(
    ("fields", "magic"),
    [
        ({"topic": b"t" * 127}, 0xDAA320A7),
        ({"topic": b"t" * 128, "version": 2}, 0xDAA320AB),
        ({"topic": b"t" * 32767, "version": 2}, 0xDAA320AB),
        ({"properties": b"k\x01" + b"v" * 300}, 0xDAA320A7),
        ({"properties": b"k\x01" + b"v" * 32765}, 0xDAA320A7),
    ],
)
def test_the_longest_texts(fields: dict[str, Any], magic: int) -> None:
    data = make_record(**fields)
    scan = scan_record(data, check_crc=True)
    assert (scan.magic, scan.total_size) == (magic, len(data))
    found = by_construct(data)
    assert all(getattr(scan, name) == found[name] == fields.get(name, found[name]) for name in TEXTS)
    assert decode_record(data).topic == scan.topic.decode()


def test_filler_record() -> None:
    assert encode_filler(100) == bytes.fromhex("00000064cbd43194")
    assert scan_record(encode_filler(8))[:2] == (8, MAGIC_FILLER)
    with pytest.raises(CorruptionError):
        scan_record(bytes.fromhex("00000007cbd43194"))
    filler = encode_filler(100) + bytes(92)
    assert scan_record(filler)[:2] == (100, MAGIC_FILLER)
    assert scan_record(filler, end=99)[:2] == (100, MAGIC_FILLER), "it is its eight bytes"
    with pytest.raises(CorruptionError, match="unknown magic"):
        decode_record(filler)


def test_zeros_are_no_record() -> None:
    with pytest.raises(CorruptionError):
        scan_record(bytes(200))


def test_the_end_that_is_given_is_kept() -> None:
    data = make_record()
    assert scan_record(data, 0, len(data)).total_size == len(data)
    with pytest.raises(CorruptionError):
        scan_record(data, 0, len(data) - 1)


def test_crc_is_checked_when_asked_for() -> None:
    data = bytearray(make_record())
    data[88] ^= 1
    assert decode_record(data).body == b"iello0"
    with pytest.raises(CorruptionError, match="CRC") as caught:
        decode_records(bytes(make_record()) + bytes(data), check_crc=True)
    assert caught.value.position == len(data)
    with pytest.raises(CorruptionError, match="CRC"):
        scan_record(data, check_crc=True)


def test_a_store_time_needs_a_prefix() -> None:
    with pytest.raises(CorruptionError):
        store_timestamp_at(make_record()[:87])
    with pytest.raises(CorruptionError):
        peek_record(b"1234567")


def test_crc_of_an_empty_body_is_not_looked_at() -> None:
    assert decode_record(make_record(body=b"", body_crc=5), check_crc=True).body_crc == 5


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_every_kind_of_buffer(kind: Any) -> None:
    data = kind(make_record() + make_record(body=b"two"))
    assert [message.body for message in decode_records(data, check_crc=True)] == [b"hello0", b"two"]
    assert scan_record(data).topic == b"TopicA"


@pytest.mark.parametrize(
    "changes",
    [
        {"topic": b"x" * 128},
        {"topic": b"x" * 32768, "version": 2},
        {"properties": b"x" * 32768},
        {"queue_id": 2**31},
        {"physical_offset": 2**63},
        {"store_host": b"1234567"},
    ],
)
def test_what_a_record_cannot_hold_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        make_record(**changes)


def test_a_negative_position_is_refused() -> None:
    data = make_record()
    with pytest.raises(CorruptionError):
        decode_record(data * 2, -len(data))
