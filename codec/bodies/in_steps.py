"""Long JSON bodies, decoded in steps: a list that is a member of the body is decoded piece by piece.

A piece ends where an item seems to end. This is confirmed if the piece is a list by itself, because the same
bytes cannot be both a whole list and the beginning of one whose last item continues. An item longer than a
piece is decoded like a body.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from functools import cache, partial
from typing import Any, Final, TypeVar, get_args, get_origin

import msgspec

from rmqcli.codec.bodies.base import BAD_JSON, decode_body, is_plain, read_json, reader_of
from rmqcli.codec.errors import BodyError

PIECE: Final = 16 * 1024
"""The number of bytes of a list that are decoded in one step."""
_ENDS: Final = 8
"""The number of possible ends of items that are tried for one piece."""
_ITEM_END: Final = b"},"
_ITEM_COST: Final = 256
"""The number of bytes that an item decoded by itself counts in addition to its own."""

T = TypeVar("T")


class NotPlainJson(BodyError):
    """Raised if the body is not an object of standard JSON without references."""


def decode_body_in_steps(cls: type[T], data: bytes) -> Generator[None, None, T]:
    """Like `decode_body`, but yields after each step. Raises NotPlainJson or BodyError.

    Anything that cannot be split is one step: a scalar, a table, or a list of lists.
    """
    if b"$ref" in data:
        raise NotPlainJson("a reference of fastjson")
    try:
        members = _members(data)
    except BAD_JSON as error:
        raise NotPlainJson(str(error)) from None
    yield
    return (yield from _value(cls, data, members, partial(decode_body, cls)))


def _members(data: bytes) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(data, type=dict[str, msgspec.Raw])


def _value(
    cls: type[T], data: bytes, members: dict[str, msgspec.Raw], decode: Callable[[bytes], T]
) -> Generator[None, None, T]:
    """Return an object; its long lists are decoded in steps, everything else by `decode`."""
    lists: dict[str, list[Any]] = {}
    for name, wire, item in _lists(cls):
        text = bytes(members.get(wire, b""))
        if len(text) > PIECE and text.startswith(b"["):
            try:
                lists[name] = yield from _list(item, text)
            except BodyError as error:
                raise BodyError(f"{cls.__name__}.{wire}: {error}") from None
            members[wire] = msgspec.Raw(b"[]")
    # The rest is decoded with these lists empty, and they are inserted afterwards.
    value = decode(msgspec.json.encode(members) if lists else data)
    return msgspec.structs.replace(value, **lists) if lists else value  # type: ignore[type-var]


def _lists(cls: Any) -> list[tuple[str, str, Any]]:
    """Return the names, wire names and item types of members that are lists; none if msgspec reads `cls`
    differently.
    """
    if not (issubclass(cls, msgspec.Struct) and is_plain(cls)):
        return []
    fields = msgspec.structs.fields(cls)
    return [
        (field.name, field.encode_name, get_args(field.type)[0])
        for field in fields
        if get_origin(field.type) is list
    ]


def _list(item: Any, data: bytes) -> Generator[None, None, list[Any]]:
    """Return the items of a list."""
    found: list[Any] = []
    start, last = 1, len(data) - 1
    while last - start > PIECE:
        end = _end_of_items(data, start, start + PIECE)
        if not end:
            yield
            found += yield from _long_items(item, b"[%b]" % data[start:last])
            return found
        found += _items(item, data[start:end])
        start = end + 1
        yield
    found += _items(item, data[start:last])
    yield
    return found


def _end_of_items(data: bytes, start: int, end: int) -> int:
    """Return a position between two others where an item ends, or 0 if none is found."""
    # The bytes of an end may also be in a text or inside of an item, so each is tried.
    for _ in range(_ENDS):
        end = data.rfind(_ITEM_END, start, end) + 1
        if not end:
            break
        with contextlib.suppress(*BAD_JSON):
            msgspec.json.decode(b"[%b]" % data[start:end], type=list[msgspec.Raw])
            return end
    return 0


def _long_items(item: Any, data: bytes) -> Generator[None, None, list[Any]]:
    """Return the items of a list, some of which are longer than a piece."""
    found: list[Any] = []
    has_lists, in_step = isinstance(item, type) and bool(_lists(item)), 0
    texts = msgspec.json.decode(data, type=list[msgspec.Raw])
    yield
    for text in map(bytes, texts):
        if has_lists and len(text) > PIECE and text.startswith(b"{"):
            members = _members(text)
            yield
            found.append((yield from _value(item, text, members, partial(_item, item))))
        else:
            found += _items(item, text)
            in_step += len(text) + _ITEM_COST
        if in_step >= PIECE:
            in_step = 0
            yield
    return found


def _items(item: Any, data: bytes) -> list[Any]:
    """Decode items at once, as tolerantly as `decode_body`."""
    text = b"[%b]" % data
    try:
        found: list[Any] = _decoder(item).decode(text)
    except BAD_JSON:
        found = reader_of(list[item])(read_json(text))
    return found


def _item(item: Any, data: bytes) -> Any:
    return _items(item, data)[0]


@cache
def _decoder(item: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(list[item], strict=False)
