"""The places of the varying values in the header of a request, found with the general readers and writers.

The bytes that a value is written as are looked up in the header. The places count if the general reader finds
other values there, and nothing else changed, when they are overwritten with others of the same length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from codec.codes import SerializeType
from codec.errors import HeaderError, RemoteProtocolError
from codec.headers.base import Header, from_ext
from codec.remoting.binary_header import OPAQUE, OPAQUE_AT, binary_entry, decode_binary_header
from codec.remoting.command import RemotingCommand
from codec.remoting.json_header import decode_json_header, write_json

LONGEST: Final = 1024
"""Bytes of a header without its slots."""
KEY_START: Final = OPAQUE_AT + OPAQUE.size
KEY_END: Final = 57
"""A header is looked up by these bytes, so that slots of ext fields are behind them."""
_MOST_DIGITS: Final = {"opaque": 9, "queue_id": 9, "born_timestamp": 18}
"""Numbers of so many digits are in range."""
_OTHERS: Final = {
    "opaque": ("1", "4"),
    "queue_id": ("2", "5"),
    "born_timestamp": ("3", "6"),
    "properties": ("x", "y"),
}
"""Characters of other values, the second one where a value consists of the first."""


class Span(NamedTuple):
    start: int
    end: int


class Spans(NamedTuple):
    """The places of the texts in a header; the opaque number of a binary one is no text."""

    opaque: Span
    queue_id: Span
    born_timestamp: Span
    properties: Span


class Lesson(NamedTuple):
    """A command with a typed header and without a body, and the places of its varying values."""

    command: RemotingCommand
    spans: Spans


class _Kind(NamedTuple):
    """The general reader of a header, and how it is written: the opaque number, an ext field, the text in it;
    `quotes` are bytes of a text that are not its content."""

    decode: Callable[[bytes, bytes], RemotingCommand]
    opaque: Callable[[int], bytes]
    entry: Callable[[str, str], bytes]
    text: Callable[[str], bytes]
    quotes: int


def _json_entry(name: str, value: str | int) -> bytes:
    return write_json({name: value})[1:-1]


_KINDS: Final = {
    SerializeType.JSON: _Kind(decode_json_header, b"%d".__mod__, _json_entry, write_json, 2),
    SerializeType.ROCKETMQ: _Kind(decode_binary_header, OPAQUE.pack, binary_entry, str.encode, 0),
}
_Values = dict[str, Any]
"""Opaque number, queue id, time and properties, by their names in `Spans`."""


def teach(kind: SerializeType, header: bytes, header_class: type[Header]) -> Lesson | None:
    """The lesson of a header; None if its values are missing, or written in an unusual way."""
    command = _read(kind, header, header_class)
    if command is None:
        return None
    values = {"opaque": command.opaque, **{name: getattr(command.header, name) for name in Spans._fields[1:]}}
    if values["properties"] is None or not _are_usual(values):
        return None
    spans = _places(kind, header, header_class, values)
    if spans is None or not _are_apart(kind, header, spans):
        return None
    others = _other_values(kind, spans, values)
    changed = _read(kind, _overwritten(kind, header, spans, others), header_class)
    return Lesson(command, spans) if changed == _with(command, others) else None


def _read(kind: SerializeType, header: bytes, header_class: type[Header]) -> RemotingCommand | None:
    """The command as the general reader makes it, with a typed header; None if ext fields would be lost."""
    try:
        command = _KINDS[kind].decode(header, b"")
        ext_fields = command.ext_fields or {}
        typed = from_ext(header_class, ext_fields)
    except (RemoteProtocolError, HeaderError):
        return None
    if not ext_fields.keys() <= set(header_class.__struct_encode_fields__):
        return None
    command.ext_fields, command.header = None, typed
    return command


def _are_usual(values: _Values) -> bool:
    texts = {name: str(values[name]) for name in _MOST_DIGITS}
    return all(text.isdigit() and len(text) <= _MOST_DIGITS[name] for name, text in texts.items())


def _places(kind: SerializeType, header: bytes, header_class: type[Header], values: _Values) -> Spans | None:
    wire = {field.name: field.encode_name for field in msgspec.structs.fields(header_class)}
    found = [_opaque_place(kind, header, values["opaque"])]
    try:
        for name in Spans._fields[1:]:
            entry = _KINDS[kind].entry(wire[name], str(values[name]))
            found.append(_place(header, entry, _written(kind, name, values[name])))
    except UnicodeEncodeError:
        return None
    places = [place for place in found if place is not None]
    return Spans(*places) if len(places) == len(found) else None


def _opaque_place(kind: SerializeType, header: bytes, opaque: int) -> Span | None:
    if kind:
        return Span(OPAQUE_AT, OPAQUE_AT + OPAQUE.size)
    return _place(header, _json_entry("opaque", opaque), _written(kind, "opaque", opaque))


def _place(header: bytes, entry: bytes, written: bytes) -> Span | None:
    """The place of a value at the end of its entry; None unless the header has one such entry."""
    if header.count(entry) != 1:
        return None
    start = header.index(entry) + entry.rindex(written)
    return Span(start, start + len(written))


def _written(kind: SerializeType, name: str, value: Any) -> bytes:
    if name == "properties":
        return _KINDS[kind].text(value)
    return _KINDS[kind].opaque(value) if name == "opaque" else str(value).encode()


def _are_apart(kind: SerializeType, header: bytes, spans: Spans) -> bool:
    """True if the slots are in the usual order and behind the key, and not too much is between them."""
    opaque, *fields = spans
    ordered = fields if kind else [*fields, opaque]
    starts, ends = [span.start for span in ordered], [KEY_END, *(span.end for span in ordered)]
    is_usual = all(start >= end for start, end in zip(starts, ends, strict=False))
    return is_usual and len(header) - sum(end - start for start, end in spans) <= LONGEST


def _other_values(kind: SerializeType, spans: Spans, values: _Values) -> _Values:
    """Other values that are written in as many bytes."""
    others: _Values = {}
    for name, (first, second) in _OTHERS.items():
        text = str(values[name])
        size = len(text)
        if name == "properties":
            size = spans.properties.end - spans.properties.start - _KINDS[kind].quotes
        other = (second if text == first * size else first) * size
        others[name] = other if name == "properties" else int(other)
    return others


def _overwritten(kind: SerializeType, header: bytes, spans: Spans, others: _Values) -> bytes:
    changed = bytearray(header)
    for name, (start, end) in zip(Spans._fields, spans, strict=True):
        changed[start:end] = _written(kind, name, others[name])
    return bytes(changed)


def _with(command: RemotingCommand, others: _Values) -> RemotingCommand:
    header: Any = command.header
    typed = {name: others[name] for name in Spans._fields[1:]}
    return msgspec.structs.replace(
        command, opaque=others["opaque"], header=msgspec.structs.replace(header, **typed)
    )
