"""Bodies that are Avro records in binary encoding, read by fastavro with the schema that they were written with.

A framing precedes the record: none; that of a single object (Avro 1.11, "Single-object encoding"): C3 01 and
the CRC-64-AVRO of the schema, little-endian; or Confluent's: 00 and the number of a schema in a registry,
big-endian, which is not looked up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException, UnknownType, fingerprint, to_parsing_canonical_form

from rmqcli.export.errors import SchemaError
from rmqcli.export.transform.avro_schema import typed
from rmqcli.export.transform.decoder import Undecodable, array_of

_SINGLE = b"\xc3\x01"
_MARK_BYTES = 8
_CONFLUENT_BYTES = 5


class AvroBodies:
    """The decoder of an Avro schema."""

    def __init__(self, schema: bytes, framing: str = "") -> None:
        given = _parsed(schema)
        found = typed(given)
        self.type = found.kind
        self._convert = found.convert
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
        except Exception as error:  # fastavro raises many types for bytes that are no record
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
