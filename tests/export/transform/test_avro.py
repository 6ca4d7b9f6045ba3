"""Avro bodies: types, framings, wrong and hostile bodies, and schemas that are refused."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqcli.export.errors import SchemaError
from rmqcli.export.transform.avro import AvroBodies
from rmqcli.export.transform.decoder import decoded
from tests.seeds import times


def record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": kind} for field, kind in fields],
    }


LINE = record(
    "Line",
    ("sku", "string"),
    ("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
)
ORDER = record(
    "shop.Order",
    ("id", "long"),
    ("count", "int"),
    ("paid", "boolean"),
    ("note", ["null", "string"]),
    ("state", {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}),
    ("before", ["State", "null"]),
    ("at", {"type": "long", "logicalType": "timestamp-millis"}),
    ("day", {"type": "int", "logicalType": "date"}),
    ("mark", {"type": "fixed", "name": "Mark", "size": 2}),
    ("lines", {"type": "array", "items": LINE}),
    ("best", ["null", "Line"]),
    ("more", {"type": "map", "values": ["null", {"type": "long", "logicalType": "timestamp-micros"}]}),
    ("ratio", "float"),
    ("uid", {"type": "string", "logicalType": "uuid"}),
    ("clock", {"type": "int", "logicalType": "time-millis"}),
)
VALUE: dict[str, Any] = {
    "id": 1 << 62,
    "count": -7,
    "paid": True,
    "note": None,
    "state": "PAID",
    "before": "OPEN",
    "at": datetime(2026, 11, 23, 12, 0, 0, 5000, UTC),
    "day": date(2026, 11, 23),
    "mark": b"\0\xff",
    "lines": [{"sku": "ü", "price": Decimal("-19.50")}],
    "best": None,
    "more": {"a": None, "b": datetime(1970, 1, 1, 0, 0, 0, 7, UTC)},
    "ratio": 0.5,
    "uid": "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
    "clock": 1500,
}


def written(schema: Any, value: Any) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def made(schema: Any, framing: str = "") -> AvroBodies:
    return AvroBodies(json.dumps(schema).encode(), framing)


def values(decoder: AvroBodies, *bodies: bytes) -> tuple[list[Any], dict[int, str]]:
    found, reasons = decoded(decoder, bodies)
    found.validate(full=True)
    return found.to_pylist(), reasons


PLAIN = json.loads(json.dumps(ORDER).replace('"time-millis"', '"other"'))
BODY = written(PLAIN, VALUE)


def test_every_type() -> None:
    found, reasons = values(made(ORDER), BODY)
    assert reasons == {}
    assert found == [VALUE | {"more": list(VALUE["more"].items())}]
    kind = made(ORDER).type
    assert kind.field("lines").type.value_type.field("price").type == pa.decimal128(9, 2)
    assert (kind.field("clock").type, kind.field("uid").type) == (pa.int32(), pa.string())


A = record("A", ("a", "int"), ("b", "bytes"))
GOOD = written(A, {"a": 1, "b": b"x"})
DECIMAL = record("A", ("a", {"type": "bytes", "logicalType": "decimal", "precision": 4}))
ITEMS = record("A", ("a", {"type": "array", "items": "int"}), ("m", {"type": "map", "values": "int"}))


@pytest.mark.parametrize(
    ("schema", "body", "reason"),
    [
        (A, b"", "not a record of this schema (EOFError)"),
        (A, GOOD[:-1], "not a record of this schema (EOFError)"),
        (A, GOOD + b"12", "2 bytes follow the record"),
        (A, b"\x02" + b"\xff" * 9 + b"\x01", "not a record of this schema"),
        (A, b"\x02" + b"\xfe" * 8 + b"\x7f", "not a record of this schema (EOFError)"),
        (A, b"\xff" * 9, "not a record of this schema (IndexError)"),
        (A, b"\xfe\xff\xff\xff\xff\x01\x00", "a value does not fit its type"),
        (record("A", ("a", "string")), b"\x02\xff", "not a record of this schema (UnicodeDecodeError)"),
        (record("A", ("a", ["null", "int"])), b"\x04", "not a record of this schema (IndexError)"),
        (
            record("A", ("a", {"type": "long", "logicalType": "timestamp-millis"})),
            b"\xfe" + b"\xff" * 8 + b"\x01",
            "a value does not fit its type",
        ),
        (DECIMAL, b"\x06\x7f\xff\xff", "a value does not fit its type"),
        (DECIMAL, b"\x80\x89\x7a" + b"\x7f" * 1_000_000, "a decimal is too long"),
        (ITEMS, b"\xfe" + b"\xff" * 8 + b"\x01", "not a record of this schema (EOFError)"),
        (ITEMS, b"\x00" + b"\xfe" + b"\xff" * 8 + b"\x01", "not a record of this schema (EOFError)"),
    ],
    ids=lambda value: repr(value[:20]) if isinstance(value, (bytes, str)) else value["fields"][0]["name"],
)
def test_a_wrong_body(schema: Any, body: bytes, reason: str) -> None:
    found, reasons = values(made(schema), body)
    assert found == [None]
    assert list(reasons) == [0] and reasons[0].startswith(reason)


def test_wrong_bodies_between_right_ones() -> None:
    found, reasons = values(made(A), GOOD, b"", GOOD, b"\xfe\xff\xff\xff\xff\x01\x00", GOOD)
    right = {"a": 1, "b": b"x"}
    assert (found, sorted(reasons)) == ([right, None, right, None, right], [1, 3])


@settings(max_examples=times(10))
@given(st.binary(max_size=60))
def test_any_body(body: bytes) -> None:
    found, reasons = values(made(ORDER), body, BODY)
    assert found[1] is not None
    assert (found[0] is None) == (0 in reasons)


def test_single_objects() -> None:
    decoder = made(A, "single")
    mark = bytes.fromhex(
        fastavro.schema.fingerprint(fastavro.schema.to_parsing_canonical_form(A), "CRC-64-AVRO")
    )
    found, reasons = values(decoder, b"\xc3\x01" + mark + GOOD, GOOD, b"\xc3\x01" + bytes(8) + GOOD)
    assert found == [{"a": 1, "b": b"x"}, None, None]
    assert reasons[1] == "not Avro's single-object encoding, which begins with C3 01"
    assert reasons[2] == f"written with another schema, {bytes(8).hex()}, not {mark.hex()}"


def test_the_mark_of_a_schema() -> None:
    """A fingerprint that Avro's specification gives: of the schema "int", as Java's little-endian bytes."""
    assert fastavro.schema.fingerprint('"int"', "CRC-64-AVRO") == "8f5c393f1ad57572"


def test_confluent() -> None:
    found, reasons = values(made(A, "confluent"), b"\0\0\0\0\x07" + GOOD, b"\x01\0\0\0\x07" + GOOD, b"\0\0")
    assert found == [{"a": 1, "b": b"x"}, None, None]
    assert set(reasons.values()) == {"without Confluent's header, 00 and four bytes"}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("int", "#: is int32: bodies are records"),
        (record("A"), "#: a record without fields has no columns"),
        (record("A", ("a", ["null", "A"])), "#/a: A contains itself"),
        (
            record("A", ("a", ["int", "string"])),
            "#/a: a column has one type: expected a union of null and one other",
        ),
        (record("A", ("a", "null")), "#/a: null has no columns"),
        (
            record("A", ("a", {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}})),
            "#/a: an array of",
        ),
        (record("A", ("a", "B")), "type B is not defined in the file"),
        (
            record("A", ("a", {"type": "bytes", "logicalType": "decimal", "precision": 39})),
            "#/a: decimal of 39 digits",
        ),
        ({"type": "record"}, "not an Avro schema"),
        ({"fields": []}, "not an Avro schema"),
        (7, "not an Avro schema"),
    ],
    ids=str,
)
def test_refused_schemas(schema: Any, said: str) -> None:
    with pytest.raises(SchemaError) as error:
        made(schema)
    assert str(error.value).startswith(said)


@pytest.mark.parametrize("text", [b"{", b"\xff", b"[" * 100_000], ids=["half", "not text", "deep"])
def test_a_schema_that_is_no_json(text: bytes) -> None:
    with pytest.raises(SchemaError, match="not an Avro schema"):
        AvroBodies(text)
