"""Bodies that are JSON objects, read by PyArrow's reader of JSON lines.

A body is one line of what the reader gets: it is checked to be one whole object first, so that no body can
become two rows, or a part of its neighbour's. Members that the schema does not have are ignored; a missing
member is null, and so is a null; both are wrong for a required one. Texts are UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from rmqcli.export.transform.decoder import Undecodable
from rmqcli.export.transform.json_schema import MOMENT, fields_of
from rmqcli.export.transform.nested import on_leaves

MAX_DEPTH = 512
"""Levels of objects and arrays: what the interpreter's stack bears, wherever a body is decoded."""
_TIMES = (MOMENT, pa.date32())
_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")
_WHOLE = msgspec.json.Decoder(msgspec.Raw)
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_BELOW_MICROSECONDS = r"(\.\d{6})\d+"
_REASONS = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"Column\(/(.*)\) changed from (\w+) to (\w+)", r"\1: expected \2, found \3"),
        (r"Column\(/(.*)\) was specified twice", r"\1: is there twice"),
        (r"required field was", "a required member is missing or null"),
        (r"Failed to convert JSON to (\S+),", r"a number is not \1"),
        (r"as a scalar of type timestamp", "a text is not a date-time with a zone (RFC 3339)"),
        (r"as a scalar of type date", "a text is not a date (RFC 3339)"),
    )
)
"""Patterns of PyArrow's errors, and reasons for them: PyArrow quotes values, which may be masked."""


class JsonBodies:
    """The decoder of a JSON Schema."""

    def __init__(self, schema: bytes) -> None:
        fields = fields_of(schema)
        self.type = _nullable(pa.struct(fields))
        self._read = pa.schema([_as_read(field, is_there=True) for field in fields])

    def parse(self, body: bytes) -> bytes:
        """Return the object in one line: line ends can only be between its parts."""
        if _depth(body) > MAX_DEPTH:
            raise Undecodable(f"nested in more than {MAX_DEPTH} levels")
        try:
            body.decode()
            _WHOLE.decode(body)
        except UnicodeDecodeError:
            raise Undecodable("not UTF-8") from None
        except msgspec.DecodeError as error:
            raise Undecodable(f"not JSON: {error}") from None
        line = body.translate(_LINE_ENDS).strip()
        if not line.startswith(b"{"):
            raise Undecodable("not a JSON object")
        return line

    def to_array(self, values: Sequence[bytes]) -> Any:
        text = b"\n".join(values)
        try:
            table = arrow_json.read_json(
                pa.BufferReader(text),
                arrow_json.ReadOptions(use_threads=False, block_size=len(text) + 1),
                arrow_json.ParseOptions(explicit_schema=self._read, unexpected_field_behavior="ignore"),
            )
            columns = [table[name].combine_chunks() for name in self._read.names]
            return on_leaves(pa.StructArray.from_arrays(columns, self._read.names), _typed, self.type)
        except pa.ArrowInvalid as error:
            raise Undecodable(_reason(str(error))) from None


def _depth(body: bytes) -> int:
    """Return the greatest depth of brackets outside of texts, or a bound of it that is not above MAX_DEPTH."""
    opening = body.count(b"{") + body.count(b"[")
    if opening <= MAX_DEPTH:
        return opening
    marks = np.frombuffer(_TEXT.sub(b"", body), np.uint8) | 0x20  # [ and { differ in this bit, as do ] and }
    return int(np.cumsum((marks == ord("{")).astype(np.int32) - (marks == ord("}"))).max(initial=0))


def _typed(column: Any, kind: Any) -> Any:
    """Return times of their texts."""
    if kind not in _TIMES:
        return column
    return pc.replace_substring_regex(column, _BELOW_MICROSECONDS, r"\1").cast(kind)


def _reason(said: str) -> str:
    for pattern, text in _REASONS:
        match = pattern.search(said)
        if match is not None:
            return match.expand(text)
    return "it does not fit the schema"


def _as_read(field: pa.Field, *, is_there: bool) -> pa.Field:
    """Return the field as the reader is to have it: times as texts, and what is required as not nullable.

    The reader cannot have a null object whose members are required, so those of an optional one are not.
    """
    field, kind = field.with_nullable(field.nullable or not is_there), field.type
    if pa.types.is_struct(kind):
        members = [_as_read(inner, is_there=not field.nullable) for inner in kind]
        return field.with_type(pa.struct(members))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_as_read(kind.value_field, is_there=True)))
    return field.with_type(pa.string()) if kind in _TIMES else field


def _nullable(kind: pa.DataType) -> pa.DataType:
    """Return the type with nullable fields: a body that does not decode is a null."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(inner.name, _nullable(inner.type)) for inner in kind])
    return pa.list_(_nullable(kind.value_type)) if pa.types.is_list(kind) else kind
