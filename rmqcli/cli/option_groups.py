"""Options that belong together, declared once: a frozen dataclass whose fields are annotated as options, with their defaults.

A command with a parameter of such a type has these options in its place, and gets the value made of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any, get_type_hints

__all__ = ["OptionGroup", "expand", "gather", "keyword"]


class OptionGroup:
    """Base of those dataclasses."""

    __slots__ = ()


def keyword(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """A parameter to be added to a command's signature."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def expand(parameters: Iterable[inspect.Parameter]) -> Iterator[inspect.Parameter]:
    """The parameters, for each group those of its fields."""
    for parameter in parameters:
        group = _group_of(parameter)
        if group is None:
            yield parameter
            continue
        hints = get_type_hints(group, include_extras=True)
        for field in fields(group):  # type: ignore[arg-type]
            yield keyword(field.name, hints[field.name], field.default)


def gather(parameters: Iterable[inspect.Parameter], values: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a command with these parameters, from values by the names of `expand`."""
    left = dict(values)
    made = {
        parameter.name: group(**{field.name: left.pop(field.name) for field in fields(group)})  # type: ignore[arg-type]
        for parameter in parameters
        if (group := _group_of(parameter)) is not None
    }
    return left | made


def _group_of(parameter: inspect.Parameter) -> type[OptionGroup] | None:
    kind = parameter.annotation
    return kind if isinstance(kind, type) and issubclass(kind, OptionGroup) else None
