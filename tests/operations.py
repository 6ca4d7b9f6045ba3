"""All operations by request code, from every module of `codec.operations`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Final

import codec.operations
from codec.codes import RequestCode
from codec.operations.operation import AnyOperation, Operation

ENTRIES: Final[tuple[tuple[str, AnyOperation], ...]] = tuple(
    (name, value)
    for area in iter_modules(codec.operations.__path__)
    for name, value in vars(import_module(f"codec.operations.{area.name}")).items()
    if isinstance(value, Operation)
)
"""Each entry of the table with its name."""

OPERATIONS: Final[Mapping[RequestCode, AnyOperation]] = MappingProxyType(
    {code: Operation(code) for code in RequestCode} | {entry.code: entry for _, entry in ENTRIES}
)
"""A code that no server of RocketMQ processes has an operation without a direction."""
