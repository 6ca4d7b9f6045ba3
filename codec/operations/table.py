"""All operations by request code."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from codec.codes import RequestCode
from codec.operations import (
    acl,
    brokers,
    clients,
    controller,
    groups,
    messages,
    name_server,
    offsets,
    pop,
    routes,
    topics,
    unserved,
)
from codec.operations.operation import AnyOperation, Operation

_AREAS: Final = (
    messages,
    topics,
    groups,
    offsets,
    clients,
    brokers,
    routes,
    name_server,
    pop,
    acl,
    controller,
    unserved,
)

OPERATIONS: Final[Mapping[RequestCode, AnyOperation]] = MappingProxyType(
    {found.code: found for area in _AREAS for found in vars(area).values() if isinstance(found, Operation)}
)
