"""Bodies that are JSON objects, read by PyArrow's reader of JSON lines, and JSON Schema as Arrow types."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from rmqcli.export.errors import SchemaError
from rmqcli.export.transform.columns import canonical, paths
from rmqcli.export.transform.decoder import Undecodable
from rmqcli.export.transform.masking import on_leaves

# JSON Schema as Arrow types: the part of it that defines the members of an object and their types.
#
# Keywords that limit values (`minimum`, `pattern`, `enum` …) are accepted and not checked: here, a schema
# defines how to read bodies, not whether they are valid. A keyword that is unknown, or would need a choice
# between types, is refused. Only `$ref` into the same file is followed. (JSON Schema 2020-12; `definitions`
# as in draft 7.)

MOMENT = pa.timestamp("us", tz="UTC")
TYPES: Mapping[tuple[str, str], pa.DataType] = {
    ("string", ""): pa.string(),
    ("string", "date-time"): MOMENT,
    ("string", "date"): pa.date32(),
    ("integer", ""): pa.int64(),
    ("number", ""): pa.float64(),
    ("boolean", ""): pa.bool_(),
}
"""(`type`, `format`) → the Arrow type of a value.

Other formats are treated as their type without a format.
"""

_UNDERSTOOD = frozenset(
    [
        "type",
        "format",
        "properties",
        "required",
        "items",
        "additionalProperties",
        "$ref",
        "$defs",
        "definitions",
        "anyOf",
        "oneOf",
    ]
)
_NOTES = frozenset(
    [
        "$schema",
        "$id",
        "$comment",
        "$anchor",
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
    ]
)
_LIMITS = frozenset(
    [
        "enum",
        "const",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minProperties",
        "maxProperties",
        "contentEncoding",
        "contentMediaType",
    ]
)
_NULL = {"type": "null"}


def fields_of(text: bytes) -> list[pa.Field]:
    """Return the members of the objects that a schema describes; required ones are not nullable.

    Raises SchemaError, which names the place in the schema.
    """
    try:
        root = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"not JSON: {error}") from None
    found = _Reader(root).field("value", root, "#", ()).type
    if not pa.types.is_struct(found):
        raise SchemaError(f"#: describes {found}: bodies are objects with properties")
    return list(found)


class _Reader:
    def __init__(self, root: Any) -> None:
        self._root = root

    def field(self, name: str, schema: Any, place: str, above: tuple[str, ...]) -> pa.Field:
        """Return the field of a schema at `place`; `above` are the places of references that led to it."""
        schema, place, above = self._resolved(schema, place, above)
        one, is_nullable = _without_null(schema, place)
        if one is not schema:
            inner = self.field(name, one, place, above)
            return inner.with_nullable(is_nullable or inner.nullable)
        unknown = sorted(schema.keys() - _UNDERSTOOD - _NOTES - _LIMITS)
        if unknown:
            known = ", ".join(sorted(_UNDERSTOOD))
            raise SchemaError(f"{place}: keyword {unknown[0]} is not understood, only {known}")
        kind, is_nullable = _kind(schema, place)
        if kind == "object":
            return pa.field(name, self._struct(schema, place, above), is_nullable)
        if kind == "array":
            item = self.field("item", _member(schema, "items", place), f"{place}/items", above)
            return pa.field(name, pa.list_(item), is_nullable)
        return pa.field(name, _simple(kind, schema, place), is_nullable)

    def _struct(self, schema: Mapping[str, Any], place: str, above: tuple[str, ...]) -> pa.DataType:
        members = _member(schema, "properties", place)
        required = schema.get("required", [])
        if not isinstance(required, list):
            raise SchemaError(f"{place}/required: expected a list of names")
        fields = []
        for name, member in members.items():
            found = self.field(name, member, f"{place}/properties/{name}", above)
            fields.append(found.with_nullable(found.nullable or name not in required))
        if not fields:
            raise SchemaError(f"{place}: an object without properties has no columns: leave it out")
        return pa.struct(fields)

    def _resolved(
        self, schema: Any, place: str, above: tuple[str, ...]
    ) -> tuple[Mapping[str, Any], str, tuple[str, ...]]:
        while isinstance(schema, dict) and "$ref" in schema:
            place = schema["$ref"]
            if not isinstance(place, str) or not place.startswith("#/"):
                raise SchemaError(
                    f"$ref {place}: only references into the same file are followed, as #/$defs/…"
                )
            if place in above:
                raise SchemaError(f"{place}: contains itself: such a type has no columns")
            above = (*above, place)
            schema = self._at(place)
        if not isinstance(schema, dict):
            raise SchemaError(f"{place}: expected a schema, an object")
        return schema, place, above

    def _at(self, place: str) -> Any:
        found = self._root
        for part in place.removeprefix("#/").split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                raise SchemaError(f"$ref {place}: there is no such place in the file")
            found = found[name]
        return found


def _without_null(schema: Mapping[str, Any], place: str) -> tuple[Mapping[str, Any], bool]:
    """Return the alternative of `anyOf` or `oneOf` that is not null, and whether null is another."""
    for keyword in ("anyOf", "oneOf"):
        choices = schema.get(keyword)
        if choices is None:
            continue
        rest = [choice for choice in choices if choice != _NULL] if isinstance(choices, list) else []
        if len(rest) != 1 or schema.keys() & {"type", "properties", "items"}:
            raise SchemaError(f"{place}/{keyword}: a column has one type: expected one schema, and null")
        return rest[0], len(choices) > 1
    return schema, False


def _kind(schema: Mapping[str, Any], place: str) -> tuple[str, bool]:
    """Return the only type of a schema apart from null, and whether null is another."""
    said = schema.get("type", "object" if "properties" in schema else None)
    kinds = said if isinstance(said, list) else [said]
    rest = [kind for kind in kinds if kind != "null"]
    if len(rest) != 1 or not isinstance(rest[0], str):
        shown = "none" if said is None else json.dumps(said)
        raise SchemaError(f"{place}/type: is {shown}: a column has one type, and null perhaps")
    return rest[0], len(kinds) > 1


def _simple(kind: str, schema: Mapping[str, Any], place: str) -> pa.DataType:
    found = TYPES.get((kind, str(schema.get("format", "")))) or TYPES.get((kind, ""))
    if found is None:
        names = ", ".join(dict.fromkeys([name for name, _ in TYPES] + ["array", "object"]))
        raise SchemaError(f"{place}/type: {kind} is none of {names}")
    return found


def _member(schema: Mapping[str, Any], name: str, place: str) -> Mapping[str, Any]:
    found = schema.get(name)
    if not isinstance(found, dict):
        raise SchemaError(f"{place}/{name}: is missing, or no object: without it there are no columns")
    return found


# Bodies that are JSON objects, read by PyArrow's reader of JSON lines.
#
# A body is one line of what the reader gets: it is checked to be one whole object first, so that no body can
# become two rows, or a part of its neighbour's. Members that the schema does not have are ignored; a missing
# member is null, and so is a null; both are wrong for a required one. Texts are UTF-8.

MAX_DEPTH = 512
"""Levels of objects and arrays that fit on the interpreter's stack wherever a body is decoded."""
_TIMES = (MOMENT, pa.date32())
_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")
_WHOLE = msgspec.json.Decoder(msgspec.Raw)
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_BELOW_MICROSECONDS = r"(\.\d{6})\d+"
_REASONS = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"Column\(/(.*)\) changed from (\w+) to (\w+)", r"\1: expected \2, found \3"),
        (r"Column\(/(.*)\) was specified twice", r"\1: occurs twice"),
        (r"required field was", "a required member is missing or null"),
        (r"Failed to convert JSON to (\S+),", r"a number is not \1"),
        (r"as a scalar of type timestamp", "a text is not a date-time with a zone (RFC 3339)"),
        (r"as a scalar of type date", "a text is not a date (RFC 3339)"),
    )
)
"""Patterns of PyArrow's errors with our reasons: PyArrow quotes values, which may be masked."""


class JsonBodies:
    """The decoder for a JSON Schema."""

    def __init__(self, schema: bytes) -> None:
        fields = fields_of(schema)
        self.type = canonical(pa.struct(fields))
        self.required = frozenset(paths(pa.struct(fields), required=True))
        self._read = pa.schema([_as_read(field, is_there=True) for field in fields])

    def parse(self, body: bytes) -> bytes:
        """Return the object on one line. In valid JSON, line ends can occur only between its parts."""
        if _depth(body) > MAX_DEPTH:
            raise Undecodable(f"nested in more than {MAX_DEPTH} levels")
        try:
            # A body must be one whole object: otherwise the reader of lines could make two rows of it, or
            # join it with the next one.
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
    """Return the greatest depth of brackets outside of strings, or an upper bound up to MAX_DEPTH."""
    opening = body.count(b"{") + body.count(b"[")
    if opening <= MAX_DEPTH:
        return opening
    marks = np.frombuffer(_TEXT.sub(b"", body), np.uint8) | 0x20  # [ and { differ in this bit, as do ] and }
    return int(np.cumsum((marks == ord("{")).astype(np.int32) - (marks == ord("}"))).max(initial=0))


def _typed(column: Any, kind: Any) -> Any:
    """Convert strings to times."""
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
    """Return the field as the reader needs it: times as texts, and required members as not nullable.

    The reader cannot represent a null object whose members are required, so those of an optional object are
    nullable.
    """
    field, kind = field.with_nullable(field.nullable or not is_there), field.type
    if pa.types.is_struct(kind):
        members = [_as_read(inner, is_there=not field.nullable) for inner in kind]
        return field.with_type(pa.struct(members))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_as_read(kind.value_field, is_there=True)))
    return field.with_type(pa.string()) if kind in _TIMES else field
