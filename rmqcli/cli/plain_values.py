"""Converts the values of simple options without typer's validator, which is slow to build.

Some versions of typer build a pydantic adapter for every parameter of a command that runs; this takes longer
than most commands. Strings, numbers, paths and lists of these need none; a path is on this machine, and may
be a `file:` URI. A value that is not plainly valid (not a number, out of range, missing) is passed to typer,
which raises its usual error.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple

import typer

from rmqcli.grammar.values import GrammarError, local_path

_NAMES = frozenset({"TOPIC", "TOPIC...", "GROUP", "FROM", "TO", "KEY", "ID"})
"""Metavars of strings that are never empty: "" comes from an unset shell variable."""
_CONVERT: Mapping[object, Callable[[Any], Any]] = {
    str: str,
    int: int,
    float: float,
    bool: bool,
    Path: lambda value: local_path(value) if isinstance(value, str) else value,
}


class Plain(NamedTuple):
    """The conversion of one parameter's values, which must be between `low` and `high` (None: no bound)."""

    kind: type
    many: bool = False
    low: float | None = None
    high: float | None = None

    def accept(self, value: Any) -> Any:
        """Return the converted value; raise ValueError if typer should decide."""
        if not self.many:
            return self._one(value)
        if isinstance(value, str):
            raise ValueError("not a list")
        return [self._one(item) for item in value]

    def _one(self, value: Any) -> Any:
        if not isinstance(value, (str, self.kind)) or (self.kind is bool and not isinstance(value, bool)):
            raise ValueError("not of this kind")
        found = _CONVERT[self.kind](value)
        if (self.low is not None and found < self.low) or (self.high is not None and found > self.high):
            raise ValueError("out of range")
        return found


def plain_values(parameters: Iterable[inspect.Parameter]) -> dict[str, Plain]:
    """Return the parameters of a command whose annotation is plain."""
    found = ((parameter.name, _plain(parameter.annotation)) for parameter in parameters)
    return {name: plain for name, plain in found if plain is not None}


def _plain(annotation: Any) -> Plain | None:
    if typing.get_origin(annotation) is not typing.Annotated:
        return None
    kind, info = typing.get_args(annotation)[:2]
    kind, many = _without_none(kind), False
    if typing.get_origin(kind) is list:
        (kind,), many = typing.get_args(kind), True
    if kind not in _CONVERT or getattr(info, "callback", None) is not None:
        return None
    return Plain(kind, many, getattr(info, "min", None), getattr(info, "max", None))


def _without_none(kind: Any) -> Any:
    if isinstance(kind, types.UnionType):
        rest = [part for part in typing.get_args(kind) if part is not types.NoneType]
        return rest[0] if len(rest) == 1 else kind
    return kind


def install(parameters: Iterable[Any], plain: Mapping[str, Plain]) -> None:
    """Insert the fast conversion before typer's in Click's parameter objects."""
    for parameter in parameters:
        if parameter.name in plain:
            parameter.process_value = _processor(plain[parameter.name], parameter, parameter.process_value)


def _processor(
    plain: Plain, parameter: Any, otherwise: Callable[[Any, Any], Any]
) -> Callable[[Any, Any], Any]:
    def process_value(context: Any, value: Any) -> Any:
        if value is None or value == ():
            return otherwise(context, value) if parameter.required else (() if plain.many else None)
        try:
            found = plain.accept(value)
        except GrammarError as error:
            raise typer.BadParameter(str(error), ctx=context, param=parameter) from None
        except ValueError:
            return otherwise(context, value)
        if (reason := _refused(found, parameter.metavar)) is not None:
            raise typer.BadParameter(reason, ctx=context, param=parameter)
        return found

    return process_value


def _refused(value: Any, metavar: str | None) -> str | None:
    """Return the reason for refusing a value that typer would accept."""
    if isinstance(value, float) and isnan(value):  # passes every bound
        return "nan is not a number"
    texts = value if isinstance(value, list) else [value]
    if metavar in _NAMES and any(isinstance(text, str) and not text.strip() for text in texts):
        return "must not be empty"
    return None


def skip_when_absent(parameter: Any) -> None:
    """Skip conversion and callback of one of typer's options (`--help`) unless it was given."""
    if parameter is None or "process_value" in vars(parameter):
        return
    otherwise = parameter.process_value
    parameter.process_value = lambda context, value: None if value is None else otherwise(context, value)
