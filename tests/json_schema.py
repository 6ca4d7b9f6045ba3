"""Checks a value against a JSON schema, for the keywords that rmqcli/render/output.schema.json uses; raises on others."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

SCHEMA = json.loads(
    (Path(__file__).parents[1] / "rmqcli" / "render" / "output.schema.json").read_text("utf-8")
)

_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "null": lambda value: value is None,
}
_NOTES = frozenset(("$schema", "$id", "$defs", "title", "description"))


def faults(value: Any, schema: Any, path: str = "") -> Iterator[str]:
    """Yield what is wrong with a value."""
    if schema is False:
        yield f"{path}: not expected"
    for keyword, wanted in ({} if isinstance(schema, bool) else schema).items():
        if keyword not in _NOTES:
            yield from _KEYWORDS[keyword](value, wanted, schema, path)


def definition(name: str) -> Any:
    return SCHEMA["$defs"][name]


def _type(value: Any, wanted: Any, schema: Any, path: str) -> Iterator[str]:
    kinds = [wanted] if isinstance(wanted, str) else wanted
    if not any(_TYPES[kind](value) for kind in kinds):
        yield f"{path}: {value!r} is no {' or '.join(kinds)}"


def _enum(value: Any, wanted: Any, schema: Any, path: str) -> Iterator[str]:
    if value not in wanted:
        yield f"{path}: {value!r} is not in {wanted}"


def _required(value: Any, wanted: Any, schema: Any, path: str) -> Iterator[str]:
    yield from (f"{path}: no {name}" for name in wanted if isinstance(value, dict) and name not in value)


def _properties(value: Any, wanted: Any, schema: Any, path: str) -> Iterator[str]:
    for name, inner in wanted.items():
        if isinstance(value, dict) and name in value:
            yield from faults(value[name], inner, f"{path}.{name}")


def _additional(value: Any, wanted: Any, schema: Any, path: str) -> Iterator[str]:
    for name in value if isinstance(value, dict) else ():
        if name not in schema.get("properties", {}):
            yield from faults(value[name], wanted, f"{path}.{name}")


def _names(value: Any, wanted: Any, schema: Any, path: str) -> Iterator[str]:
    for name in value if isinstance(value, dict) else ():
        if not re.search(wanted["pattern"], name):
            yield f"{path}: the name {name!r}"


def _items(value: Any, wanted: Any, schema: Any, path: str) -> Iterator[str]:
    for place, item in enumerate(value if isinstance(value, list) else ()):
        yield from faults(item, wanted, f"{path}[{place}]")


def _one_of(value: Any, wanted: Any, schema: Any, path: str) -> Iterator[str]:
    found = [list(faults(value, one, path)) for one in wanted]
    if found.count([]) != 1:
        yield f"{path}: fits {found.count([])} of {len(wanted)}: {found}"


def _ref(value: Any, wanted: Any, schema: Any, path: str) -> Iterator[str]:
    return faults(value, definition(wanted.removeprefix("#/$defs/")), path)


_KEYWORDS: Mapping[str, Callable[[Any, Any, Any, str], Iterator[str]]] = {
    "type": _type,
    "const": lambda value, wanted, schema, path: _enum(value, [wanted], schema, path),
    "enum": _enum,
    "required": _required,
    "properties": _properties,
    "additionalProperties": _additional,
    "propertyNames": _names,
    "items": _items,
    "oneOf": _one_of,
    "$ref": _ref,
}
