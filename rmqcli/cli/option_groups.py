"""Options declared together once, as a frozen dataclass whose fields are annotated as options and have
defaults.

A command with a parameter of such a type offers these options and receives an instance made of their values.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any, get_type_hints


class OptionGroup:
    """Base class of these dataclasses."""

    __slots__ = ()


def keyword(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """Return a parameter to add to a command's signature."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def expand(parameters: Iterable[inspect.Parameter]) -> Iterator[inspect.Parameter]:
    """Yield the parameters, with the fields of each group in its place."""
    for parameter in parameters:
        group = _group_of(parameter)
        if group is None:
            yield parameter
            continue
        hints = get_type_hints(group, include_extras=True)
        for field in fields(group):  # type: ignore[arg-type]
            yield keyword(field.name, hints[field.name], field.default)


def gather(parameters: Iterable[inspect.Parameter], values: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a command with these parameters, given values by the names of `expand`."""
    left = dict(values)
    made: dict[str, Any] = {}
    for parameter in parameters:
        group: Any = _group_of(parameter)
        if group is not None:
            made[parameter.name] = group(**{field.name: left.pop(field.name) for field in fields(group)})
    return left | made


def _group_of(parameter: inspect.Parameter) -> type[OptionGroup] | None:
    kind = parameter.annotation
    return kind if isinstance(kind, type) and issubclass(kind, OptionGroup) else None
