"""JSON bodies by JSON Schema: types, wrong bodies beside right ones, hostile ones, and schemas that are refused."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqcli.export.errors import SchemaError
from rmqcli.export.transform import decoder
from rmqcli.export.transform.decoder import decoded
from rmqcli.export.transform.json import MAX_DEPTH, JsonBodies
from tests.seeds import times

ORDER = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "string", "minLength": 1},
        "count": {"type": "integer"},
        "price": {"type": "number"},
        "paid": {"type": ["boolean", "null"]},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "buyer": {"$ref": "#/$defs/Buyer"},
        "lines": {"type": "array", "items": {"properties": {"sku": {"type": "string"}}, "required": ["sku"]}},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "$defs": {
        "Buyer": {
            "type": "object",
            "properties": {
                "email": {"type": "string", "format": "email"},
                "born": {"type": "string", "format": "date"},
            },
            "required": ["email"],
        }
    },
}


def made(schema: Any) -> JsonBodies:
    return JsonBodies(json.dumps(schema).encode())


def values(schema: Any, *bodies: bytes) -> tuple[list[Any], dict[int, str]]:
    found, reasons = decoded(made(schema), bodies)
    found.validate(full=True)
    return found.to_pylist(), reasons


def of(kind: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": kind}}


WHOLE = b"""{"id": "o-1", "count": 3, "price": 19.5, "paid": true, "at": "2026-11-23T12:00:00.123456789+02:00",
 "day": "2026-11-23", "buyer": {"email": "\\u00fc@x", "born": "1970-01-02", "more": [1]}, "lines": [{"sku": "s"}],
 "note": null, "unknown": {"id": 1}}"""


def test_every_type() -> None:
    found, reasons = values(ORDER, WHOLE, b'\r\n{"id":"o-2","lines":[]}\n', b'{"id":"o-3","buyer":null}')
    assert not reasons
    nothing = dict.fromkeys(ORDER["properties"])
    assert found[0] == {
        "id": "o-1",
        "count": 3,
        "price": 19.5,
        "paid": True,
        "at": datetime(2026, 11, 23, 10, 0, 0, 123456, UTC),
        "day": date(2026, 11, 23),
        "buyer": {"email": "ü@x", "born": date(1970, 1, 2)},
        "lines": [{"sku": "s"}],
        "note": None,
    }
    assert found[1:] == [nothing | {"id": "o-2", "lines": []}, nothing | {"id": "o-3"}]
    kind = made(ORDER).type
    assert all(field.nullable for field in kind)
    assert kind.field("at").type == pa.timestamp("us", tz="UTC")
    assert kind.field("lines").type == pa.list_(pa.struct([("sku", pa.string())]))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not JSON: Input data was truncated"),
        (b"[]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b'{"id":"a"}{"id":"b"}', "not JSON: JSON is malformed: trailing characters (byte 11)"),
        (b'{"id":"a"', "not JSON: Input data was truncated"),
        (b'{"id":"\xff"}', "not UTF-8"),
        (b'{"id":"\\ud800"}', "not JSON: Input data was truncated"),
        (b'{"id":"\\udc00"}', "not JSON: JSON is malformed: invalid utf-16 surrogate pair (byte 13)"),
        (b"{}", "a required member is missing or null"),
        (b'{"id":null}', "a required member is missing or null"),
        (b'{"id":5}', "id: expected string, found number"),
        (b'{"id":"a","id":"b"}', "id: occurs twice"),
        (b'{"id":"a","count":1.5}', "a number is not int64"),
        (b'{"id":"a","count":9223372036854775808}', "a number is not int64"),
        (b'{"id":"a","count":' + b"9" * 100_000 + b"}", "a number is not int64"),
        (b'{"id":"a","lines":[{"sku":1}]}', "lines/[]/sku: expected string, found number"),
        (b'{"id":"a","lines":[{}]}', "a required member is missing or null"),
        (b'{"id":"a","at":"2026-11-23T12:00:00"}', "a text is not a date-time with a zone (RFC 3339)"),
        (b'{"id":"a","buyer":{"email":"e","born":"secret"}}', "a text is not a date (RFC 3339)"),
        (b'{"id":"a","x":' + b"[" * 600 + b"]" * 600 + b"}", "nested in more than 512 levels"),
        (b'{"id":"a","x":' + b"[" * 3_000_000, "nested in more than 512 levels"),
    ],
    ids=lambda value: repr(value[:24]),
)
def test_a_wrong_body_between_right_ones(body: bytes, reason: str) -> None:
    found, reasons = values(ORDER, b'{"id":"before"}', body, b'{"id":"behind"}')
    assert [one and one["id"] for one in found] == ["before", None, "behind"]
    assert reasons == {1: reason}


def test_bodies_are_not_joined() -> None:
    """Two rows of one body do not make up for a body without any, nor for two halves."""
    found, reasons = values(ORDER, b'{"id":"a"}\n{"id":"b"}', b"", b'{"id":', b'"c"}', b'{"id":"d"}')
    assert [one and one["id"] for one in found] == [None, None, None, None, "d"]
    assert sorted(reasons) == [0, 1, 2, 3]


def test_brackets_in_texts_are_no_depth() -> None:
    deep = b"[" * MAX_DEPTH + b'"\\"]["' + b"]" * MAX_DEPTH
    found, reasons = values(
        of({"type": "string"}), b'{"a":"' + b"[{" * 9000 + b'\\""}', b'{"b":[' + deep[1:-1] + b"]}"
    )
    assert (len(found[0]["a"]), found[1], reasons) == (18001, None, {1: "nested in more than 512 levels"})
    assert not values(of({"type": "string"}), b'{"b":' + deep[1:-1] + b"}")[1]


def test_many_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tenth body is wrong, in one way or another."""
    monkeypatch.setattr(decoder, "RUN_BYTES", 400)
    bodies = [b'{"a":"%s"}' % (b"x" * (number % 90)) for number in range(200)]
    bodies[::20], bodies[10::20] = [b'{"a":1}'] * 10, [b"x"] * 10
    found, reasons = values(of({"type": "string"}), *bodies)
    assert [one and len(one["a"]) for one in found] == [
        number % 90 if number % 10 else None for number in range(200)
    ]
    assert [reasons.pop(row)[:8] for row in range(0, 200, 10)] == ["a: expec", "not JSON"] * 10
    assert not reasons


def test_nothing() -> None:
    assert values(ORDER) == ([], {})


@settings(max_examples=times(10))
@given(
    st.lists(st.binary(max_size=40) | st.sampled_from([b'{"a":1}', b'{"a":1', b"}", b'{"a":[1]}', b"\n{}"]))
)
def test_any_bodies(bodies: list[bytes]) -> None:
    found, reasons = values(of({"type": "integer"}), *bodies)
    assert {row for row, one in enumerate(found) if one is None} == set(reasons)
    assert [row for row, one in enumerate(bodies) if one == b'{"a":1}'] == [
        row for row, one in enumerate(found) if one == {"a": 1} and bodies[row] == b'{"a":1}'
    ]


CYCLE = of({"$ref": "#"}) | {"$ref": "#/$defs/A", "$defs": {"A": of({"$ref": "#/$defs/A"})}}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (
            of({"type": "string", "if": {}}),
            "#/properties/a: keyword if is not understood, only $defs, $ref, addit",
        ),
        (of({"allOf": []}), "#/properties/a: keyword allOf is not understood"),
        (
            of({"type": ["string", "integer"]}),
            '#/properties/a/type: is ["string", "integer"]: a column has one type',
        ),
        (of({}), "#/properties/a/type: is none: a column has one type"),
        (
            of({"type": "text"}),
            "#/properties/a/type: text is none of string, integer, number, boolean, array, object",
        ),
        (of({"type": "array"}), "#/properties/a/items: is missing"),
        (of({"type": "object"}), "#/properties/a/properties: is missing"),
        (
            of({"type": "object", "properties": {}}),
            "#/properties/a: an object without properties has no columns",
        ),
        (
            of({"oneOf": [{"type": "string"}, {"type": "integer"}]}),
            "#/properties/a/oneOf: a column has one type",
        ),
        (of({"$ref": "other.json#/A"}), "$ref other.json#/A: only references into the same file"),
        (of({"$ref": "#/$defs/None"}), "$ref #/$defs/None: there is no such place in the file"),
        (CYCLE, "#/$defs/A: contains itself"),
        (of(True), "#/properties/a: expected a schema, an object"),
        ({"type": "string"}, "#: describes string: bodies are objects with properties"),
        ([], "#: expected a schema, an object"),
    ],
)
def test_refused_schemas(schema: Any, said: str) -> None:
    with pytest.raises(SchemaError) as error:
        made(schema)
    assert str(error.value).startswith(said)


@pytest.mark.parametrize("text", [b"{", b"\xff", b"[" * 100_000], ids=["half", "not text", "deep"])
def test_a_schema_that_is_no_json(text: bytes) -> None:
    with pytest.raises(SchemaError, match="not JSON"):
        JsonBodies(text)
