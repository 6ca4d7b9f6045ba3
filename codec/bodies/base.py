"""JSON bodies as typed values, and their conversion from and to bytes (Java `RemotingSerializable`).

* A member has its Java name in snake_case. A missing or null member takes its default, which for a collection
  is empty; without a default, BodyError is raised.
* Members that only 5.x has default to None and are then not written, so that bodies for 4.x are those that
  4.x writes.
* Unknown members are ignored. Numbers in quotes, bools as 0 and 1, and numbers in place of text are read as
  fastjson reads them.
* An enum matches in any case, or by ordinal; unknown text is None, as in Java.
* Integers are int32 or int64; BodyError is raised outside their range.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    NamedTuple,
    NoReturn,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from rmqcli.codec.errors import BodyError
from rmqcli.codec.message_queue import MessageQueue

if TYPE_CHECKING:
    from rmqcli.codec.fastjson import JsonDialect

# Conversion of plain JSON values to typed ones, as tolerant as fastjson: one reader for each type, made on
# first use.
#
# A reader returns None where Java reads null; the caller then uses the member's default or drops the item.
# Types are str, int (with bounds), float, bool, StrEnum, Struct, `list`, `tuple[X, ...]`, `dict` with keys
# of str, int or MessageQueue, and `X | None`.

Reader = Callable[[Any], Any]

BAD_JSON: Final = (msgspec.MsgspecError, RecursionError, ValueError)
"""The errors that msgspec raises for JSON that it cannot read as a type."""
_MAX_INT_TEXT: Final = 40
_INT32: Final = (-(1 << 31), (1 << 31) - 1)


def read_json(data: bytes | bytearray | memoryview | str) -> Any:
    """Read plain values from standard JSON or fastjson's. Raises BodyError."""
    try:
        return msgspec.json.decode(data)
    except BAD_JSON:
        return _read_fastjson(data)


def _read_fastjson(data: bytes | bytearray | memoryview | str) -> Any:
    from rmqcli.codec.fastjson import loads_finite  # few bodies need it

    return loads_finite(data)


def _mismatch(expected: str, value: Any) -> NoReturn:
    raise BodyError(f"expected {expected}, got {type(value).__name__} {str(value)[:32]!r}")


# ---- scalars


def _text(value: Any) -> str | None:
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else _mismatch("text", value)


def _whole(value: Any) -> int | None:
    """Read an integer of any size; null and empty text result in None."""
    if isinstance(value, str):
        text = value.strip()
        if text in {"", "null"}:
            return None
        try:
            return int(text) if len(text) <= _MAX_INT_TEXT else _mismatch("an integer", text)
        except ValueError:
            _mismatch("an integer", text)
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return int(value) if isinstance(value, int | float) else _mismatch("an integer", value)


def _integer(low: int, high: int) -> Reader:
    def read(value: Any) -> int | None:
        number = _whole(value)
        if number is None or low <= number <= high:
            return number
        return _mismatch(f"an integer from {low} to {high}", value)

    return read


def _real(value: Any) -> float | None:
    if isinstance(value, str):
        if value.strip() in {"", "null"}:
            return None
        try:
            value = float(value)
        except ValueError:
            _mismatch("a number", value)
    if value is None:
        return None
    if not isinstance(value, int | float):
        return _mismatch("a number", value)
    try:
        number = float(value)
    except OverflowError:
        _mismatch("a number", value)
    return number if math.isfinite(number) else None


_BOOL_TEXTS: Final = {
    "true": True,
    "1": True,
    "y": True,
    "t": True,
    "false": False,
    "0": False,
    "n": False,
    "f": False,
}


def _truth(value: Any) -> bool | None:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value == 1
    return _BOOL_TEXTS.get(value.lower()) if isinstance(value, str) else _mismatch("true or false", value)


def _member_of(enum: type[StrEnum]) -> Reader:
    ordinals = list(enum)
    names = {member.value.upper(): member for member in ordinals}

    def read(value: Any) -> StrEnum | None:
        if isinstance(value, int) and not isinstance(value, bool):
            return ordinals[value] if 0 <= value < len(ordinals) else None
        return names.get(value.upper()) if isinstance(value, str) else None

    return read


# A bare int is the queue id of a MessageQueue; members of bodies state their bounds.
_SCALARS: Final[dict[Any, Reader]] = {str: _text, int: _integer(*_INT32), float: _real, bool: _truth}


# ---- collections


def _items(item: Reader, make: Callable[[Iterable[Any]], Any]) -> Reader:
    def read(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, list):
            return _mismatch("an array", value)
        return make(found for found in map(item, value) if found is not None)

    return read


def _queue_key(key: Any) -> MessageQueue:
    """Read a MessageQueue from the text of a key, or from the object itself in an array of pairs."""
    queue: MessageQueue | None = reader_of(MessageQueue)(read_json(key) if isinstance(key, str) else key)
    return _mismatch("a message queue", key) if queue is None else queue


def _pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the entries of an object, or of an array of pairs as the Go client writes it."""
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        return ((key, item) for key, item in value)
    return _mismatch("an object", value)


def _entries(key: Reader, item: Reader) -> Reader:
    def read(value: Any) -> dict[Any, Any] | None:
        if value is None:
            return None
        found = ((key(name), item(part)) for name, part in _pairs(value))
        return {name: part for name, part in found if name is not None and part is not None}

    return read


# ---- structs


class _Member(NamedTuple):
    wire: str
    name: str
    read: Reader


def _struct(cls: Any) -> Reader:
    hints = get_type_hints(cls, include_extras=True)
    wires = {field.encode_name: field.name for field in msgspec.structs.fields(cls)} | getattr(
        cls, "ALIASES", {}
    )
    members = [_Member(wire, name, reader_of(hints[name])) for wire, name in wires.items()]
    required = [field for field in msgspec.structs.fields(cls) if field.required]

    def read(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            return _mismatch(cls.__name__, value)
        found = {}
        for wire, name, read_member in members:
            if wire in value:
                try:
                    part = read_member(value[wire])
                except BodyError as error:
                    raise BodyError(f"{cls.__name__}.{wire}: {error}") from None
                if part is not None:
                    found[name] = part
        for field in required:
            if field.name not in found:
                raise BodyError(f"{cls.__name__}.{field.encode_name} is missing")
        return cls(**found)

    return read


@cache
def reader_of(hint: Any) -> Reader:
    """Return the reader of values of the type `hint`; the reader raises BodyError, and returns None
    for null.
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        bounds = hint.__metadata__[0]
        return _integer(bounds.ge, bounds.le)
    if origin in {Union, types.UnionType}:
        return reader_of(next(part for part in args if part is not type(None)))
    if origin is dict:
        return _entries(_queue_key if args[0] is MessageQueue else reader_of(args[0]), reader_of(args[1]))
    if origin in {list, tuple}:
        return _items(reader_of(args[0]), origin)
    if hint in _SCALARS:
        return _SCALARS[hint]
    return _member_of(hint) if issubclass(hint, StrEnum) else _struct(hint)


@cache
def is_plain(hint: Any) -> bool:
    """Return True if msgspec reads the type as this module does: it has no aliases and no message queues as
    keys.
    """
    if getattr(hint, "ALIASES", {}) or (get_origin(hint) is dict and get_args(hint)[0] is MessageQueue):
        return False
    if get_origin(hint) is not Annotated and get_args(hint):
        return all(map(is_plain, get_args(hint)))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        hints = get_type_hints(hint, include_extras=True)
        return all(is_plain(hints[name]) for name in hint.__struct_fields__)
    return True


Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Body(msgspec.Struct, frozen=True, rename="camel"):
    """Base of all bodies and their parts. `ALIASES` maps further wire names that are read to Python names."""

    ALIASES: ClassVar[dict[str, str]] = {}


T = TypeVar("T")


class _Decoders(dict[Any, "msgspec.json.Decoder[Any] | None"]):
    """The msgspec decoder of each type, or None for a type that msgspec reads differently."""

    def __missing__(self, cls: Any) -> msgspec.json.Decoder[Any] | None:
        decoder = self[cls] = msgspec.json.Decoder(cls, strict=False) if is_plain(cls) else None
        return decoder


_DECODERS = _Decoders()


def decode_body(cls: Callable[..., T], data: bytes | bytearray | memoryview) -> T:
    """Decode the body of type `cls`, a body class or `list[…]` of one, from standard JSON or fastjson's.
    Raises BodyError.
    """
    # msgspec would read a reference of fastjson as an ordinary object.
    decoder = None if _refers(data) else _DECODERS[cls]
    if decoder is not None:
        try:
            value: T = decoder.decode(data)
            return value
        except BAD_JSON:
            pass  # the tolerant reader decides, and reports the error
    result: T | None = reader_of(cls)(decode_plain(data))
    if result is None:
        raise BodyError(f"no {getattr(cls, '__name__', cls)} in a JSON null")
    return result


def decode_plain(data: bytes | bytearray | memoryview) -> Any:
    """Decode standard JSON or fastjson's to plain values. Raises BodyError."""
    return _read_fastjson(data) if _refers(data) else read_json(data)


def _refers(data: bytes | bytearray | memoryview) -> bool:
    return b"$ref" in bytes(data)


def encode_body(value: Any, *, dialect: JsonDialect | None = None, pretty: bool = False) -> bytes:
    """Encode a body as UTF-8 JSON, by default in the STANDARD dialect; `pretty` as Java writes its config
    files, which use the FASTJSON dialect.
    """
    from rmqcli.codec.fastjson import STANDARD, dumps

    return dumps(value, dialect=dialect or STANDARD, pretty=pretty).encode()
