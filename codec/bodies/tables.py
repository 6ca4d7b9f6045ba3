"""Files of tables, which are read more strictly than bodies: a damaged name is not the same as a missing
member.

In a body, a missing member takes its default, and unknown names are ignored. In a file, this would result in
an empty table, or in wrong settings of a topic. Java writes every member whose default is not null, and other
versions may have more members; a file with both a missing and an unknown member is therefore damaged. So is a
file without the member that is its table. A file may begin with the byte order mark of an editor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from rmqcli.codec.bodies.base import decode_plain, reader_of
from rmqcli.codec.bodies.config import SubscriptionGroupWrapper, TopicConfigSerializeWrapper
from rmqcli.codec.edited import unmarked
from rmqcli.codec.errors import BodyError

T = TypeVar("T")

_NEVER_EMPTY: dict[Any, str] = {
    TopicConfigSerializeWrapper: "topicConfigTable",
    SubscriptionGroupWrapper: "subscriptionGroupTable",
}
"""Every broker, including Java's, has built-in topics and groups, so none ever writes a table without any."""


def decode_table(cls: Callable[..., T], data: bytes) -> T | None:
    """Decode the content of a file of type `cls`, a body class, as `decode_body` does. Raises BodyError.

    Returns None for a file without content: a blank one, `{}`, or one without the topics or groups that every
    broker has.
    """
    try:
        data = unmarked(data)
    except ValueError as error:
        raise BodyError(str(error)) from None
    if not data.strip():
        return None
    plain = decode_plain(data)
    if plain == {}:
        return None
    _check_tables(cls, plain)
    _check_names(cls, plain)
    table: T | None = reader_of(cls)(plain)
    if table is None:
        raise BodyError(f"no {getattr(cls, '__name__', cls)} in a JSON null")
    return table if plain.get(_NEVER_EMPTY.get(cls), "others may be empty") else None


def _check_tables(cls: Any, plain: Any) -> None:
    """Raise BodyError if a file has no table."""
    for field in msgspec.structs.fields(cls):
        is_table = field.default_factory is dict and isinstance(plain, dict)
        if is_table and field.encode_name not in plain:
            raise BodyError(f"no table {field.encode_name} in it")


class _Names(NamedTuple):
    known: frozenset[str]
    written: frozenset[str]
    """The names that are always written."""
    parts: tuple[tuple[str, Any], ...]
    """The members that contain structs, with their types."""


@cache
def _names_of(cls: Any) -> _Names:
    hints = get_type_hints(cls, include_extras=True)
    fields = msgspec.structs.fields(cls)
    return _Names(
        frozenset(field.encode_name for field in fields) | frozenset(cls.ALIASES),
        frozenset(field.encode_name for field in fields if field.default is not None),
        tuple(
            (field.encode_name, hints[field.name]) for field in fields if _holds_structs(hints[field.name])
        ),
    )


_FORMER = frozenset(["timestatmp"])
"""Names in tables that brokers before 4.1 wrote (Java `DataVersion`)."""


@cache
def _holds_structs(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return True
    return any(map(_holds_structs, get_args(hint)))


def _check_names(hint: Any, value: Any) -> None:
    """Raise BodyError for the first damaged name in a plain value of a type that contains structs."""
    if isinstance(hint, type) and get_origin(hint) is None:
        if isinstance(value, dict):
            _check_struct(hint, value)
        return
    part = next(filter(_holds_structs, get_args(hint)))
    for item in _items(value) if get_origin(hint) in {dict, list, tuple} else (value,):
        _check_names(part, item)


def _items(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _check_struct(cls: Any, value: dict[str, Any]) -> None:
    names = _names_of(cls)
    unknown = value.keys() - names.known - _FORMER
    missing = names.written - value.keys()
    if unknown and missing:
        raise BodyError(
            f"{cls.__name__} has no member {', '.join(sorted(missing))}, but {', '.join(sorted(unknown))!r}"
        )
    for name, hint in names.parts:
        if name in value:
            _check_names(hint, value[name])
