"""Checks a value against a JSON schema, for the keywords that rmqcli/render/output.schema.json uses; raises on others."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
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
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
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
    return _at(f"#/$defs/{name}")


def _at(reference: str) -> Any:
    found = SCHEMA
    for name in reference.removeprefix("#/").split("/"):
        found = found[name]
    return found


COMMANDS: Mapping[str, Any] = definition("commands/properties")
"""The definitions of documents by the words of their command."""


def command_of(words: Sequence[str]) -> str | None:
    """Return the command of a line as COMMANDS names it; options without values may stand anywhere."""
    path: tuple[str, ...] = ()
    for word in words:
        longer = " ".join((*path, word))
        if any(name == longer or name.startswith(f"{longer} ") for name in COMMANDS):
            path = (*path, word)
    name = " ".join(path)
    return next((one for one in (name, f"{name} run") if one in COMMANDS), None)


@cache
def strict_definition(command: str) -> Any:
    """Return the definition of a command that refuses members which it does not name."""
    return _strict(COMMANDS[command])


def _strict(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return [_strict(one) for one in schema] if isinstance(schema, list) else schema
    if "$ref" in schema:
        return _strict(_at(schema["$ref"]))
    known = {"properties": {name: _strict(one) for name, one in schema.get("properties", {}).items()}}
    found = {name: _strict(one) for name, one in schema.items() if name != "properties"}
    closed = {"additionalProperties": False} if "properties" in schema else {}
    return closed | found | (known if "properties" in schema else {})


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


def _any_of(value: Any, wanted: Any, schema: Any, path: str) -> Iterator[str]:
    found: list[list[str]] = []
    for one in wanted:
        found.append(list(faults(value, one, path)))
        if not found[-1]:
            return
    yield f"{path}: fits none of {len(wanted)}; the nearest: {min(found, key=len)}"


def _ref(value: Any, wanted: Any, schema: Any, path: str) -> Iterator[str]:
    return faults(value, _at(wanted), path)


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
    "anyOf": _any_of,
    "$ref": _ref,
}
