"""The explanation of a record agrees with its readers, and names the damage of a damaged one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqcli.codec.errors import CodecError, CorruptionError
from rmqcli.codec.records.encoding import encode_filler, encode_record
from rmqcli.codec.records.reading import decode_record, explain_fixed, explain_record
from rmqcli.codec.store.consume_queue import ENTRY
from tests.codec.samples import make_record, record_fields


@given(record_fields(), st.integers(0, 3))
def test_the_fields_are_the_whole_record(fields: dict[str, Any], before: int) -> None:
    data = encode_record(**fields)
    explanation = explain_record(bytes(before) + data + b"next", before)
    assert explanation.problem is None
    assert b"".join(field.data for field in explanation.fields) == data
    values = {field.name: field.value for field in explanation.fields}
    assert values["topic"] == fields["topic"]
    assert values["store_timestamp"] == fields["store_timestamp"]
    assert [field.offset for field in explanation.fields][:4] == [0, 4, 8, 12]


def test_filler() -> None:
    explanation = explain_record(encode_filler(100) + bytes(92))
    assert [field.name for field in explanation.fields] == ["total_size", "magic"]
    assert explanation.problem is None


@pytest.mark.parametrize(
    ("place", "last", "problem"),
    [
        (0, "properties", "contradict each other"),
        (4, "body_length", "contradict each other"),
        (84, "body_length", "body at byte 88: a field of"),
        (94, "topic_length", "topic at byte 95: a field of -"),
    ],
)
def test_what_is_wrong(place: int, last: str, problem: str) -> None:
    data = bytearray(make_record())
    data[place] ^= 0x80
    explanation = explain_record(data)
    assert explanation.fields[-1].name == last
    assert explanation.problem is not None
    assert problem in explanation.problem


def test_cut_at_every_byte() -> None:
    data = make_record()
    for length in range(8, len(data)):
        assert explain_record(data[:length]).problem is not None
    for length in range(8):
        with pytest.raises(CorruptionError):
            explain_record(data[:length])


def test_a_layout_without_texts() -> None:
    data = b"before" + ENTRY.pack(4096, 107, -5)
    explained = explain_fixed(ENTRY, data, 6)
    assert [(field.name, field.offset, field.value) for field in explained] == [
        ("commit_log_offset", 0, 4096),
        ("size", 8, 107),
        ("tags_code", 12, -5),
    ]
    assert b"".join(field.data for field in explained) == data[6:]
    with pytest.raises(CorruptionError, match="19 bytes where 20 are needed"):
        explain_fixed(ENTRY, data[:-1], 6)


@given(record_fields(), st.data())
def test_it_finds_a_problem_where_the_readers_do(fields: dict[str, Any], data: st.DataObject) -> None:
    record = bytearray(encode_record(**fields))
    record[data.draw(st.integers(0, len(record) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        decode_record(record)
    except CodecError:
        refused = True
    else:
        refused = False
    assert (explain_record(record).problem is not None) is refused
