"""Hypothesis strategies made from the types of headers and bodies, and the classes to try."""

from __future__ import annotations

import types
from enum import StrEnum
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st

import rmqcli.codec.bodies
import rmqcli.codec.headers
from rmqcli.codec.bodies.base import Body
from rmqcli.codec.bodies.registration import RegisterBrokerBody
from rmqcli.codec.headers.base import Header
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.name_server import REGISTER_BROKER
from rmqcli.codec.operations.operation import AnyOperation


def public_classes(package: types.ModuleType, base: type) -> list[type]:
    """The classes below `base` that the modules of a package define, by name."""
    modules = [import_module(f"{package.__name__}.{found.name}") for found in iter_modules(package.__path__)]
    found = {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, base) and value.__module__ == module.__name__
    }
    return [cls for _, cls in sorted(found.items())]


HEADERS = public_classes(rmqcli.codec.headers, Header)
BODIES = public_classes(rmqcli.codec.bodies, Body)

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
_SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    MessageQueue: st.builds(MessageQueue, TEXT, TEXT, st.integers(-(2**31), 2**31 - 1)),
}


def integers(bounds: msgspec.Meta) -> st.SearchStrategy[int]:
    assert isinstance(bounds.ge, int)
    assert isinstance(bounds.le, int)
    return st.integers(bounds.ge, bounds.le)


@cache
def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of the type of one member."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return integers(hint.__metadata__[0])
    if origin in {Union, types.UnionType}:
        return st.none() | values_of(next(part for part in args if part is not type(None)))
    if origin is dict:
        return st.dictionaries(values_of(args[0]), values_of(args[1]), max_size=3)
    if origin in {list, tuple}:
        return st.lists(values_of(args[0]), max_size=3).map(origin)
    if hint in _SCALARS:
        return _SCALARS[hint]
    return st.sampled_from(hint) if issubclass(hint, StrEnum) else structs(hint)


@cache
def structs(cls: type[Any]) -> st.SearchStrategy[Any]:
    """Values of a header or body class, each member given or left to its default."""
    hints = get_type_hints(cls, include_extras=True)
    required = {field.name for field in msgspec.structs.fields(cls) if field.required}
    parts = {name: values_of(hints[name]) for name in cls.__struct_fields__}
    return st.fixed_dictionaries(
        {name: part for name, part in parts.items() if name in required},
        optional={name: part for name, part in parts.items() if name not in required},
    ).map(lambda members: cls(**members))


def body_form(operation: AnyOperation, *, of_reply: bool) -> Any:
    """The form of a body: its class without `optional`, RegisterBrokerBody where the table says bytes."""
    if operation is REGISTER_BROKER and not of_reply:
        return RegisterBrokerBody
    form = operation.reply_body if of_reply else operation.request_body
    return form.__args__[0] if isinstance(form, types.UnionType) else form
