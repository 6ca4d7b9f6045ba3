"""JSON Schema as Arrow types: the part of it that says what members an object has, and of what types.

Keywords that limit values (`minimum`, `pattern`, `enum` …) are accepted and not checked: a schema says here
how to read bodies, not whether they are valid. A keyword that is unknown, or would need a choice between
types, is refused. Only `$ref` into the same file is followed. (JSON Schema 2020-12; `definitions` as in draft
7.)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from rmqcli.export.errors import SchemaError

MOMENT = pa.timestamp("us", tz="UTC")
TYPES: Mapping[tuple[str, str], pa.DataType] = {
    ("string", ""): pa.string(),
    ("string", "date-time"): MOMENT,
    ("string", "date"): pa.date32(),
    ("integer", ""): pa.int64(),
    ("number", ""): pa.float64(),
    ("boolean", ""): pa.bool_(),
}
"""(`type`, `format`) → the Arrow type of a value; other formats are those of their type."""

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
    """Return the members of the objects that a schema describes, those that are required as not nullable.

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
    """Return the alternative of `anyOf` or `oneOf` that is not null, and whether null is one."""
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
    """Return the one type of a schema that is not null, and whether null is another."""
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
