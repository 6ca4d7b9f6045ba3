"""The places of the varying values in the header of a request, found with the general readers and writers.

The bytes that a value is written as are looked up in the header. The places count if the general reader finds
other values there, and nothing else changed, when they are overwritten with others of the same length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from codec.codes import SerializeType
from codec.errors import HeaderError, RemoteProtocolError
from codec.headers.base import from_ext, to_ext
from codec.remoting.binary_header import OPAQUE, OPAQUE_AT, binary_entry, decode_binary_header
from codec.remoting.command import RemotingCommand
from codec.remoting.json_header import decode_json_header, write_json
from codec.remoting.varying import INT32_DIGITS, Varying

LONGEST: Final = 1024
"""Bytes of a header without its slots."""
KEY_START: Final = OPAQUE_AT + OPAQUE.size
KEY_END: Final = 57
"""A header is looked up by these bytes, so that slots of ext fields are behind them."""
_OTHER_DIGITS: Final = (("1", "4"), ("2", "5"), ("3", "6"), ("7", "8"))
_OTHER_TEXTS: Final = (("x", "y"), ("v", "w"))
"""Characters of other values, by the places of the numbers and of the texts; the second one where a value
consists of the first."""


class Span(NamedTuple):
    start: int
    end: int


class Lesson(NamedTuple):
    """A command with a typed header and without a body, and the places of its varying values: of the opaque
    number, which is no text in a binary header, and of the varying `fields` in the order of the header."""

    command: RemotingCommand
    spans: tuple[Span, ...]
    fields: tuple[str, ...]


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


class _Slot(NamedTuple):
    """A varying value, how it is written, and where."""

    name: str
    value: Any
    written: bytes
    span: Span


def teach(kind: SerializeType, header: bytes, varying: Varying) -> Lesson | None:
    """The lesson of a header; None if its values are missing, or written in an unusual way."""
    command = _read(kind, header, varying)
    if command is None or not _are_usual(command, varying):
        return None
    opaque, slots = _opaque_slot(kind, header, command.opaque), _slots(kind, header, command, varying)
    if opaque is None or slots is None:
        return None
    slots.sort(key=lambda slot: slot.span)
    if not _are_apart(kind, header, opaque, slots):
        return None
    lesson = Lesson(
        command, (opaque.span, *(slot.span for slot in slots)), tuple(slot.name for slot in slots)
    )
    others = _other_values(kind, (opaque, *slots))
    changed = _read(kind, _overwritten(kind, header, lesson.spans, others), varying)
    return lesson if changed == _with(lesson, others) else None


def _read(kind: SerializeType, header: bytes, varying: Varying) -> RemotingCommand | None:
    """The command as the general reader makes it, with a typed header; None if ext fields would be lost, or
    if a signature covers texts that the header does not tell."""
    header_class = varying.header
    try:
        command = _KINDS[kind].decode(header, b"")
        ext_fields = command.ext_fields or {}
        typed = from_ext(header_class, ext_fields)
    except (RemoteProtocolError, HeaderError):
        return None
    if not ext_fields.keys() <= set(header_class.__struct_encode_fields__):
        return None
    if varying.is_signed and to_ext(typed) != ext_fields:
        return None
    command.ext_fields, command.header = None, typed
    return command


def _are_usual(command: RemotingCommand, varying: Varying) -> bool:
    values = {name: getattr(command.header, name) for name in varying.fields}
    if None in values.values():
        return False
    digits = {name: str(values[name]) for name in varying.numbers}
    return all(text.isdigit() and len(text) <= varying.numbers[name] for name, text in digits.items()) and (
        0 <= command.opaque < 10**INT32_DIGITS
    )


def _slots(
    kind: SerializeType, header: bytes, command: RemotingCommand, varying: Varying
) -> list[_Slot] | None:
    wire = {field.name: field.encode_name for field in msgspec.structs.fields(varying.header)}
    slots: list[_Slot] = []
    try:
        for name in varying.fields:
            value = getattr(command.header, name)
            entry, written = _KINDS[kind].entry(wire[name], str(value)), _written(kind, value)
            span = _place(header, entry, written)
            if span is None:
                return None
            slots.append(_Slot(name, value, written, span))
    except UnicodeEncodeError:
        return None
    return slots


def _opaque_slot(kind: SerializeType, header: bytes, opaque: int) -> _Slot | None:
    written = _KINDS[kind].opaque(opaque)
    if kind:
        span: Span | None = Span(OPAQUE_AT, OPAQUE_AT + OPAQUE.size)
    else:
        span = _place(header, _json_entry("opaque", opaque), written)
    return None if span is None else _Slot("opaque", opaque, written, span)


def _place(header: bytes, entry: bytes, written: bytes) -> Span | None:
    """The place of a value at the end of its entry; None unless the header has one such entry."""
    if header.count(entry) != 1:
        return None
    start = header.index(entry) + entry.rindex(written)
    return Span(start, start + len(written))


def _written(kind: SerializeType, value: int | str) -> bytes:
    return _KINDS[kind].text(value) if isinstance(value, str) else str(value).encode()


def _are_apart(kind: SerializeType, header: bytes, opaque: _Slot, slots: Sequence[_Slot]) -> bool:
    """True if the slots are in the usual order and behind the key, and not too much is between them."""
    spans = [slot.span for slot in (slots if kind else (*slots, opaque))]
    ends = [KEY_END, *(span.end for span in spans)]
    is_usual = all(span.start >= end for span, end in zip(spans, ends, strict=False))
    return is_usual and len(header) - sum(end - start for start, end in spans) <= LONGEST


def _other_values(kind: SerializeType, slots: Iterable[_Slot]) -> list[Any]:
    """Other values that are written in as many bytes each."""
    digits, texts = iter(_OTHER_DIGITS), iter(_OTHER_TEXTS)
    others: list[Any] = []
    for slot in slots:
        if isinstance(slot.value, str):
            others.append(_other(slot.value, len(slot.written) - _KINDS[kind].quotes, *next(texts)))
        else:
            text = str(slot.value)
            others.append(int(_other(text, len(text), *next(digits))))
    return others


def _other(text: str, size: int, first: str, second: str) -> str:
    return (second if text == first * size else first) * size


def _overwritten(kind: SerializeType, header: bytes, spans: Sequence[Span], others: Sequence[Any]) -> bytes:
    changed, (opaque, *values) = bytearray(header), others
    written = [_KINDS[kind].opaque(opaque), *(_written(kind, value) for value in values)]
    for (start, end), text in zip(spans, written, strict=True):
        changed[start:end] = text
    return bytes(changed)


def _with(lesson: Lesson, others: Sequence[Any]) -> RemotingCommand:
    header: Any = lesson.command.header
    typed = dict(zip(lesson.fields, others[1:], strict=True))
    return msgspec.structs.replace(
        lesson.command, opaque=others[0], header=msgspec.structs.replace(header, **typed)
    )
