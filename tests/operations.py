"""All operations by request code, from every module of `rmqcli.codec.operations`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Final

import rmqcli.codec.operations
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.operations.operation import AnyOperation, Operation

ENTRIES: Final[tuple[tuple[str, AnyOperation], ...]] = tuple(
    (name, value)
    for area in iter_modules(rmqcli.codec.operations.__path__)
    for name, value in vars(import_module(f"rmqcli.codec.operations.{area.name}")).items()
    if isinstance(value, Operation)
)
"""Each entry of the table with its name."""

OPERATIONS: Final[Mapping[RequestCode, AnyOperation]] = MappingProxyType(
    {code: Operation(code) for code in RequestCode} | {entry.code: entry for _, entry in ENTRIES}
)
"""A code that no server of RocketMQ processes has an operation without a direction."""
