"""JSON bodies as typed values, and their conversion from and to bytes (Java `RemotingSerializable`).

* A member has its Java name in snake_case. A missing or null one takes its default, a collection is
  empty; without a default BodyError is raised.
* Members that only 5.x has default to None and are then not written, so that bodies for 4.x are those
  that 4.x writes.
* Unknown members are ignored. Numbers in quotes, bools as 0 and 1, and text where a number is meant are
  read as fastjson reads them.
* An enum matches in any case, or by ordinal; unknown text is None, as in Java.
* Integers are int32 or int64; beyond their range BodyError is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec

from codec.bodies.reading import BAD_JSON, is_plain, read_json, reader_of
from codec.errors import BodyError
from codec.fastjson import STANDARD, JsonDialect, dumps, loads_finite

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Body(msgspec.Struct, frozen=True, rename="camel"):
    """Base of all bodies and their parts. `ALIASES` maps other wire names that are read to Python names."""

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
    Raises BodyError."""
    decoder = None if _refers(data) else _DECODERS[cls]
    if decoder is not None:
        try:
            value: T = decoder.decode(data)
            return value
        except BAD_JSON:
            pass
    result: T | None = reader_of(cls)(decode_plain(data))
    if result is None:
        raise BodyError(f"no {getattr(cls, '__name__', cls)} in a JSON null")
    return result


def decode_plain(data: bytes | bytearray | memoryview) -> Any:
    """Decode standard JSON or fastjson's to plain values. Raises BodyError."""
    return loads_finite(data) if _refers(data) else read_json(data)


def _refers(data: bytes | bytearray | memoryview) -> bool:
    return b"$ref" in bytes(data)


def encode_body(value: Any, *, dialect: JsonDialect = STANDARD, pretty: bool = False) -> bytes:
    """Encode a body as UTF-8 JSON; `pretty` as Java writes its config files, which use the FASTJSON
    dialect."""
    return dumps(value, dialect=dialect, pretty=pretty).encode()
