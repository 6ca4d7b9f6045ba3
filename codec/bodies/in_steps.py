"""Long JSON bodies, decoded in steps: a list that is a member of the body is decoded a piece at a time.

A piece ends where an item seems to end. That it does is known when the piece is a list by itself, as the same
bytes cannot be both a whole list and the beginning of one whose last item goes on.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, TypeVar, get_args, get_origin

import msgspec

from codec.bodies.base import decode_body
from codec.bodies.reading import BAD_JSON, is_plain
from codec.errors import BodyError

PIECE: Final = 16 * 1024
"""Bytes of a list that are decoded in one step."""
_ENDS: Final = 8
"""Ends of items that are tried for one piece."""
_ITEM_END: Final = b"},"

T = TypeVar("T")


class NotPlainJson(BodyError):
    """The body is no object of standard JSON without references."""


def decode_body_in_steps(cls: type[T], data: bytes) -> Generator[None, None, T]:
    """As `decode_body`; it yields after each step. NotPlainJson, BodyError.

    What cannot be split is one step: an item, or a list of scalars.
    """
    lists: dict[str, list[Any]] = {}
    if b"$ref" in data:
        raise NotPlainJson("a reference of fastjson")
    try:
        members = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except BAD_JSON as error:
        raise NotPlainJson(str(error)) from None
    yield
    try:
        for name, wire, item in _lists(cls):
            if len(bytes(members.get(wire, b""))) > PIECE:
                lists[name] = yield from _list(item, bytes(members[wire]))
                members[wire] = msgspec.Raw(b"[]")
    except BAD_JSON:
        return decode_body(cls, data)
    value = decode_body(cls, msgspec.json.encode(members) if lists else data)
    return msgspec.structs.replace(value, **lists) if lists else value  # type: ignore[type-var]


def _lists(cls: Any) -> list[tuple[str, str, Any]]:
    """The names, wire names and item types of members that are lists; none where msgspec reads `cls`
    differently."""
    if not (issubclass(cls, msgspec.Struct) and is_plain(cls)):
        return []
    fields = msgspec.structs.fields(cls)
    return [
        (field.name, field.encode_name, get_args(field.type)[0])
        for field in fields
        if get_origin(field.type) is list
    ]


def _list(item: Any, data: bytes) -> Generator[None, None, list[Any]]:
    """The items of a list; msgspec's errors where it is none of these."""
    decode = msgspec.json.Decoder(list[item], strict=False).decode
    found: list[Any] = []
    start, last = 1, len(data) - 1
    while last - start > PIECE:
        end = start + PIECE
        for attempt in range(_ENDS):
            end = data.rfind(_ITEM_END, start, end) + 1
            if not end:
                raise ValueError("no end of an item")
            try:
                found += decode(b"[%b]" % data[start:end])
                break
            except BAD_JSON:
                if attempt == _ENDS - 1:
                    raise
        start = end + 1
        yield
    found += decode(b"[%b]" % data[start:last])
    yield
    return found
