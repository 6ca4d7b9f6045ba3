"""Bodies that are Avro records in binary encoding, read by fastavro, and Avro schemas as Arrow types."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from functools import partial
from io import BytesIO
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType, fingerprint, to_parsing_canonical_form

from rmqcli.export.errors import SchemaError
from rmqcli.export.transform.columns import canonical, paths
from rmqcli.export.transform.decoder import Undecodable, array_of

# Avro schemas (.avsc) as Arrow types, and the conversion of values read by fastavro to those that Arrow
# accepts.
#
# Logical types in the table are converted; others are their underlying types, as Avro 1.11 specifies for
# unknown ones. A record that contains itself has no columns, nor does a union of several types; an array of
# items without bytes is refused, since a body of a few bytes could have 2^63 of them.

MOMENT = pa.timestamp("us", tz="UTC")
TYPES: Mapping[tuple[str, str], pa.DataType] = {
    ("boolean", ""): pa.bool_(),
    ("int", ""): pa.int32(),
    ("int", "date"): pa.date32(),
    ("long", ""): pa.int64(),
    ("long", "timestamp-millis"): MOMENT,
    ("long", "timestamp-micros"): MOMENT,
    ("float", ""): pa.float32(),
    ("double", ""): pa.float64(),
    ("bytes", ""): pa.binary(),
    ("fixed", ""): pa.binary(),
    ("string", ""): pa.string(),
    ("enum", ""): pa.string(),
}
"""(type, logicalType) → the Arrow type. `decimal` of bytes and fixed is a decimal128 of up to 38 digits."""

_DIGITS = 38
_DECIMAL_BYTES = 16
_DECIMALS = Context(prec=_DIGITS)
Convert = Callable[[Any], Any]


class Typed(NamedTuple):
    """An Arrow type, the conversion of a value for Arrow (None: none needed), the least size in bytes, and
    whether values may be null.
    """

    kind: pa.DataType
    convert: Convert | None = None
    least: int = 1
    is_nullable: bool = False


def typed(schema: Any) -> Typed:
    """Return the type of a schema that fastavro has parsed. Raises SchemaError."""
    found = _Reader().of(schema, "#", ())
    if not pa.types.is_struct(found.kind):
        raise SchemaError(f"#: is {found.kind}: bodies are records")
    return found


class _Reader:
    """Walks a schema in document order, in which a name is defined before it is used."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}

    def of(self, schema: Any, place: str, above: tuple[str, ...]) -> Typed:
        if isinstance(schema, list):
            return self._union(schema, place, above)
        if isinstance(schema, str):
            schema = self._named.get(schema, {"type": schema})
        kind = schema["type"]
        if not isinstance(kind, str) or kind in self._named:
            return self.of(kind, place, above)
        name = schema.get("name")
        if name is not None:
            if name in above:
                raise SchemaError(f"{place}: {name} contains itself: such a type has no columns")
            self._named[name], above = schema, (*above, name)
        make = {"record": self._record, "array": self._array, "map": self._map}.get(kind)
        return make(schema, place, above) if make is not None else _simple(schema, place)

    def _union(self, choices: list[Any], place: str, above: tuple[str, ...]) -> Typed:
        rest = [choice for choice in choices if choice not in ("null", {"type": "null"})]
        if len(rest) != 1:
            raise SchemaError(f"{place}: a column has one type: expected a union of null and one other")
        found = self.of(rest[0], place, above)
        convert = found.convert
        return found._replace(
            convert=convert and partial(_unless_null, convert), least=1, is_nullable=len(choices) > 1
        )

    def _record(self, schema: Any, place: str, above: tuple[str, ...]) -> Typed:
        fields = {
            one["name"]: self.of(one["type"], f"{place}/{one['name']}", above) for one in schema["fields"]
        }
        if not fields:
            raise SchemaError(f"{place}: a record without fields has no columns")
        kind = pa.struct([pa.field(name, one.kind, one.is_nullable) for name, one in fields.items()])
        converts = {name: one.convert for name, one in fields.items() if one.convert is not None}
        least = sum(one.least for one in fields.values())
        return Typed(kind, partial(_record, converts) if converts else None, least)

    def _array(self, schema: Any, place: str, above: tuple[str, ...]) -> Typed:
        item = self.of(schema["items"], f"{place}/items", above)
        if not item.least:
            raise SchemaError(f"{place}: an array of items that take no bytes can have any number of them")
        return Typed(pa.list_(item.kind), item.convert and partial(_each, item.convert))

    def _map(self, schema: Any, place: str, above: tuple[str, ...]) -> Typed:
        value = self.of(schema["values"], f"{place}/values", above)
        return Typed(pa.map_(pa.string(), value.kind), partial(_pairs, value.convert))


def _simple(schema: Mapping[str, Any], place: str) -> Typed:
    kind, logical = schema["type"], str(schema.get("logicalType", ""))
    if logical == "decimal" and kind in ("bytes", "fixed"):
        return _decimal(schema, place)
    found = TYPES.get((kind, logical)) or TYPES.get((kind, ""))
    if found is None:
        raise SchemaError(
            f"{place}: {kind} has no columns: leave the field out, or make it a union with a type"
        )
    convert = _micros if logical == "timestamp-millis" and kind == "long" else None
    sizes = {"float": 4, "double": 8, "fixed": schema.get("size", 0)}
    return Typed(found, convert, sizes.get(kind, 1))


def _decimal(schema: Mapping[str, Any], place: str) -> Typed:
    precision, scale = schema.get("precision", 0), schema.get("scale", 0)
    if not 0 < precision <= _DIGITS or not 0 <= scale <= precision:
        raise SchemaError(
            f"{place}: decimal of {precision} digits, {scale} of them behind the point: at most 38"
        )
    least = schema["size"] if schema["type"] == "fixed" else 1
    return Typed(pa.decimal128(precision, scale), partial(_number, scale), least)


def _number(scale: int, data: bytes) -> Decimal:
    if len(data) > _DECIMAL_BYTES:
        raise Undecodable("a decimal is too long")
    return Decimal(int.from_bytes(data, signed=True)).scaleb(-scale, _DECIMALS)


def _micros(milliseconds: int) -> int:
    return milliseconds * 1000


def _unless_null(convert: Convert, value: Any) -> Any:
    return None if value is None else convert(value)


def _each(convert: Convert, values: list[Any]) -> list[Any]:
    return [convert(value) for value in values]


def _pairs(convert: Convert | None, values: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(name, convert(value) if convert else value) for name, value in values.items()]


def _record(converts: Mapping[str, Convert], value: dict[str, Any]) -> dict[str, Any]:
    return value | {name: convert(value[name]) for name, convert in converts.items()}


# Bodies that are Avro records in binary encoding, read by fastavro with the schema that they were written with.
#
# A framing precedes the record: none; that of a single object (Avro 1.11, "Single-object encoding"): C3 01 and
# the CRC-64-AVRO of the schema, little-endian; or Confluent's: 00 and the number of a schema in a registry,
# big-endian, which is not looked up.

_SINGLE = b"\xc3\x01"
_MARK_BYTES = 8
_CONFLUENT_BYTES = 5


class AvroBodies:
    """The decoder of an Avro schema."""

    def __init__(self, schema: bytes, framing: str = "") -> None:
        given = _parsed(schema)
        found = typed(given)
        self.type = canonical(found.kind)
        self.required = frozenset(paths(found.kind, required=True))
        self._convert = found.convert
        # fastavro reads the underlying types only: its decimals take quadratic time for a long body, and
        # times outside Python's range would be lost.
        self._plain = fastavro.parse_schema(_without_logical(json.loads(schema)))
        mark = fingerprint(to_parsing_canonical_form(given), "CRC-64-AVRO")
        self._mark = bytes.fromhex(mark)
        self._start = _FRAMINGS[framing]

    def parse(self, body: bytes) -> Any:
        stream = BytesIO(body)
        stream.seek(self._start(body, self._mark))
        try:
            value = fastavro.schemaless_reader(stream, self._plain)
        except Undecodable:
            raise
        except Exception as error:  # fastavro raises many types for bytes that are not a record
            raise Undecodable(f"not a record of this schema ({type(error).__name__})") from None
        rest = len(body) - stream.tell()
        if rest:
            raise Undecodable(f"{rest} bytes follow the record")
        return value if self._convert is None else self._convert(value)

    def to_array(self, values: Sequence[Any]) -> Any:
        return array_of(values, self.type)


def _parsed(schema: bytes) -> Any:
    try:
        return fastavro.parse_schema(json.loads(schema))
    except UnknownType as error:
        raise SchemaError(f"type {error.name} is not defined in the file") from None
    except (SchemaParseException, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SchemaError(f"not an Avro schema: {error}") from None


def _without_logical(schema: Any) -> Any:
    """Return the schema of the underlying types."""
    if isinstance(schema, list):
        return [_without_logical(one) for one in schema]
    if isinstance(schema, dict):
        return {name: _without_logical(one) for name, one in schema.items() if name != "logicalType"}
    return schema


def _raw(body: bytes, mark: bytes) -> int:
    return 0


def _single(body: bytes, mark: bytes) -> int:
    if body[:2] != _SINGLE:
        raise Undecodable("not Avro's single-object encoding, which begins with C3 01")
    if body[2 : 2 + _MARK_BYTES] != mark:
        raise Undecodable(f"written with another schema, {body[2 : 2 + _MARK_BYTES].hex()}, not {mark.hex()}")
    return 2 + _MARK_BYTES


def _confluent(body: bytes, mark: bytes) -> int:
    if len(body) < _CONFLUENT_BYTES or body[0]:
        raise Undecodable("without Confluent's header, 00 and four bytes")
    return _CONFLUENT_BYTES


_FRAMINGS: Mapping[str, Callable[[bytes, bytes], int]] = {
    "": _raw,
    "single": _single,
    "confluent": _confluent,
}
"""Functions that return the byte where the record begins."""
