"""Headers as typed values, and their conversion from and to ext fields (Java `CommandCustomHeader`,
`makeCustomHeaderToNet`).

Rules (4.9.8 `RemotingCommand.decodeCommandCustomHeader`):
* The wire name of a field is its Python name in camelCase, with a few exceptions (`clientID`, `classCRC`, the
  letters of V2 sends).
* A value that cannot be parsed counts as missing. A missing field takes its default; without a default,
  HeaderError is raised.
* A bool is true if its text is "true" in any case, and false otherwise.
* Integers are decimal, int32 or int64; one outside its range cannot be parsed. A string such as "5.0" or
  "1e3", which Java refuses, is read as the integer that it denotes.
* Ext fields that a header does not know are ignored (`AccessKey`, `Signature`, `MSG_REGION`, …).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import Parameter, signature
from typing import Annotated, Any, Final, NamedTuple, TypeVar, get_args, get_type_hints

import msgspec

from rmqcli.codec.core.heads import BOOL, INT32, INT64, TEXT
from rmqcli.codec.errors import HeaderError

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

# The longest decimal text of an int64 with its sign; longer ones are not tried.
_MAX_INT_TEXT: Final = 20


class Header(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Base of all request and reply headers."""


class RpcRequestHeader(Header, frozen=True, kw_only=True):
    """Fields of most requests to a broker, which ignores them for ordinary topics. 4.9.8 sends `bname`, and
    its pull consumers send `ReqT` (`StreamTypeRPCHook`).
    """

    bname: str | None = None  # broker name
    request_type: str | None = msgspec.field(name="ReqT", default=None)  # "0" for a stream
    ns: str | None = None  # namespace (5.x)
    nsd: bool | None = None  # names already carry the namespace (5.x)
    oway: bool | None = None  # one-way (5.x)


class TopicRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    """Requests about a topic; `lo` is true for a logical (static) one (5.x)."""

    lo: bool | None = None


class GroupQueueRequestHeader(TopicRequestHeader, frozen=True, kw_only=True):
    """Requests of a group about one queue."""

    consumer_group: str
    topic: str
    queue_id: Int32


HeaderT = TypeVar("HeaderT", bound=Header)
_ABSENT: Final = object()
_convert: Final = msgspec.convert


class _Field(NamedTuple):
    name: str
    wire: str
    parse: Callable[[str], Any]
    required: bool


def _parse_bool(text: str) -> bool:
    return text.lower() == "true"


def _parse_int(bits: int) -> Callable[[str], Any]:
    bound = 1 << (bits - 1)

    def parse(text: str) -> Any:
        if len(text) > _MAX_INT_TEXT or not text.isascii():
            return _ABSENT
        sign = text[:1] in {"-", "+"}
        if not text[sign:].isdecimal():  # `sign` is a bool, so 0 or 1
            return _ABSENT
        value = int(text)
        return value if -bound <= value < bound else _ABSENT

    return parse


_PARSERS: Final[dict[Any, Callable[[str], Any]]] = {
    str: str,
    bool: _parse_bool,
    Int32: _parse_int(32),
    Int64: _parse_int(64),
}


def _parser_of(hint: Any) -> Callable[[str], Any]:
    if hint in _PARSERS:
        return _PARSERS[hint]
    return next(_PARSERS[part] for part in get_args(hint) if part in _PARSERS)


@cache
def _fields(cls: type[Header]) -> tuple[_Field, ...]:
    hints = get_type_hints(cls, include_extras=True)
    return tuple(
        _Field(field.name, field.encode_name, _parser_of(hints[field.name]), field.required)
        for field in msgspec.structs.fields(cls)
    )


@cache
def bool_names(cls: type[Header]) -> frozenset[str]:
    """Return the wire names of the bool fields of a class."""
    return frozenset(field.wire for field in _fields(cls) if field.parse is _parse_bool)


def bool_attributes(cls: type[Header]) -> tuple[str, ...]:
    """Return the names of the bool fields of a class."""
    return tuple(field.name for field in _fields(cls) if field.parse is _parse_bool)


_KINDS: Final[dict[Any, int]] = {str: TEXT, bool: BOOL, Int32: INT32, Int64: INT64}


def kinds_of(cls: type[Header]) -> dict[bytes, tuple[int, int]]:
    """Return the index and the kind (`rmqcli.codec.core.heads`) of each field of a class, by wire name."""
    kinds = {parse: _KINDS[hint] for hint, parse in _PARSERS.items()}
    return {field.wire.encode(): (place, kinds[field.parse]) for place, field in enumerate(_fields(cls))}


def defaults_of(cls: type[Header]) -> tuple[list[object], int]:
    """Return the default of each field of a class, and the bits of those without a default."""
    fields = list(enumerate(msgspec.structs.fields(cls)))
    required = sum(1 << place for place, field in fields if field.required)
    return [None if field.required else field.default for _, field in fields], required


def maker_of(cls: type[HeaderT]) -> Callable[..., HeaderT]:
    """Return a function that creates a header from the values of all fields in order: the class itself, if
    its fields may be positional.
    """
    names = [field.name for field in _fields(cls)]
    kinds = {parameter.kind for parameter in signature(cls).parameters.values()}
    if Parameter.KEYWORD_ONLY not in kinds:
        return cls
    # A call with a dict of keyword arguments would take twice as long.
    values = ", ".join(f"{name}={name}" for name in names)
    # Only the field names of our own classes are evaluated.
    maker: Callable[..., HeaderT] = eval(f"lambda {', '.join(names)}: cls({values})", {"cls": cls})
    return maker


def _from_ext_slowly(cls: type[HeaderT], ext: dict[str, str]) -> HeaderT:
    values: dict[str, Any] = {}
    for name, wire, parse, required in _fields(cls):
        text = ext.get(wire)
        value = _ABSENT if text is None else parse(text)
        if value is not _ABSENT:
            values[name] = value
        elif required:
            problem = "is missing" if text is None else f"cannot be {text[:64]!r}"
            raise HeaderError(f"{cls.__name__}: {wire} {problem}", wire)
    return cls(**values)


def from_ext(cls: type[HeaderT], ext: dict[str, str] | None) -> HeaderT:
    """Return the header of type `cls` from the ext fields of a command. Raises HeaderError, which names the
    wire field at fault.
    """
    if ext is None:
        ext = {}
    bools = bool_names(cls)
    # msgspec reads "1" as true, Java as false.
    if not bools.isdisjoint(ext) and any(ext.get(name) == "1" for name in bools):
        return _from_ext_slowly(cls, ext)
    try:
        return _convert(ext, cls, strict=False)
    except (msgspec.ValidationError, UnicodeEncodeError):
        pass
    if cls.__struct_config__.forbid_unknown_fields:
        # msgspec refuses unknown fields for these classes, but here they must be ignored.
        known = {name: ext[name] for name in cls.__struct_encode_fields__ if name in ext}
        if len(known) < len(ext):
            return from_ext(cls, known)
    return _from_ext_slowly(cls, ext)


def _text_of(value: Any) -> str:
    """Return the text of a bool, or of an IntEnum or StrEnum by its value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return int.__repr__(value) if isinstance(value, int) else str.__str__(value)


@cache
def ext_encoder(cls: type[Header]) -> Callable[[Header], dict[str, str]]:
    """Compile `to_ext` for one class: a loop over its fields takes three times as long."""
    lines = ["def encode(header):", " ext = {}"]
    for field in _fields(cls):
        kind, text = ("str", "value") if field.parse is str else ("int", "f'{value}'")
        lines += [
            f" value = header.{field.name}",
            " if value is not None:",
            f"  ext[{field.wire!r}] = {text} if type(value) is {kind} else _text_of(value)",
        ]
    # The compiled text contains only names from our own classes.
    names: dict[str, Any] = {"_text_of": _text_of}
    exec("\n".join([*lines, " return ext"]), names)
    encoder: Callable[[Header], dict[str, str]] = names["encode"]
    return encoder


def to_ext(header: Header) -> dict[str, str]:
    """Return the ext fields of a header: None is omitted, integers are decimal, bools are `true` or
    `false`.
    """
    return ext_encoder(type(header))(header)
