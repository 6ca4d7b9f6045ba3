"""Requests that differ in a few values only, read by layouts that the general readers have taught.

A layout says where the texts of the varying values (`varying`) are in a header of one kind and length.
All bytes between them must equal those of a header that the general reader has read, so that nothing is
accepted that it would refuse; `teaching` finds the places. What a layout cannot read, such as a negative
queue id, is left to the general reader.

At most `MOST` headers are kept; then all are learned again. Learning takes ten times as long as reading:
it is paid from a credit that headers read in the general way add to.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import itemgetter, lt
from typing import Any, Final, NamedTuple

import msgspec

from codec.codes import SerializeType
from codec.headers.base import Header
from codec.headers.signed import SIGNATURE
from codec.remoting.binary_header import OPAQUE
from codec.remoting.command import RemotingCommand
from codec.remoting.json_header import read_json_text
from codec.remoting.teaching import KEY_END, KEY_START, Lesson, Span, teach
from codec.remoting.varying import Varying

MOST: Final = 2048
MOST_ALIKE: Final = 8
"""Layouts of headers that have kind, length and beginning in common; the oldest gives way."""
COST: Final = 8
CREDIT: Final = 256
"""The credit at the beginning, and what one lesson takes of it."""

_SIGNED: Final = SIGNATURE.encode()
_replace: Final = msgspec.structs.replace
_Spans = tuple[Span, ...]
_Constants = tuple[bytes, ...]
_Known = dict[_Constants, RemotingCommand]
_Fill = Callable[..., Header]
_Read = Callable[[bytes, int, int, int], RemotingCommand | None]
"""From the data, and where header, body and frame begin and end; None for what the general reader must
read."""


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "replace")


class Layouts:
    """The learned layouts of the requests of some codes.

    A request with ext fields that its header class does not have is not learned. One that is read here has
    a typed header in place of ext fields; that of a signed request tells its ext fields to the letter.
    """

    def __init__(self, varying: Mapping[int, Varying]) -> None:
        self._varying = varying
        self._count = 0
        self._credit = CREDIT
        self.alike: dict[tuple[int, bytes], list[Layout]] = {}
        """By the mark of a frame, and the bytes of its header at `KEY_START` to `KEY_END`."""

    def learn(self, mark: int, header: bytes, code: int) -> None:
        """Learns from a header that was read in the general way, if the credit allows it."""
        varying = self._varying.get(code)
        if varying is not None and _SIGNED in header:
            varying = varying.signed
        if varying is None:
            return
        self._credit += 1
        if self._credit < COST:
            return
        self._credit -= COST
        lesson = teach(SerializeType(mark >> 24), header, varying)
        if lesson is not None:
            self._keep((mark, header[KEY_START:KEY_END]), header, lesson, varying)

    def _keep(self, key: tuple[int, bytes], header: bytes, lesson: Lesson, varying: Varying) -> None:
        if self._count >= MOST:
            self.alike.clear()
            self._count = 0
        alike = self.alike.setdefault(key, [])
        layout = next((one for one in alike if one.has_places_of(lesson)), None)
        if layout is None:
            layout = Layout(lesson, len(header), varying)
            alike.insert(0, layout)
            del alike[MOST_ALIKE:]
        layout.learn(header, lesson.command)
        self._count += 1


class Layout:
    """The headers with slots in the same places: commands by the bytes between the slots."""

    __slots__ = ("_constants", "_known", "_places", "read")

    def __init__(self, lesson: Lesson, size: int, varying: Varying) -> None:
        self._places = lesson.spans, lesson.fields
        self._known: _Known = {}
        self._constants = _constants_of(size, lesson.spans)
        make = _binary_reader if lesson.command.serialize_type else _json_reader
        self.read = make(self._known, self._constants, lesson.spans, _filling(varying, lesson))

    def has_places_of(self, lesson: Lesson) -> bool:
        """True if the slots of a lesson are in the same places."""
        return self._places == (lesson.spans, lesson.fields)

    def learn(self, header: bytes, command: RemotingCommand) -> None:
        """Adds a header."""
        self._known[self._constants(header)] = command


@lru_cache(maxsize=512)
def _constants_of(size: int, spans: _Spans) -> Callable[..., _Constants]:
    """Reads the bytes between the slots of a header."""
    codes, position = ">", 0
    for start, end in sorted(spans):
        codes += f"{start - position}s{end - start}x"
        position = end
    return struct.Struct(f"{codes}{size - position}s").unpack_from


@lru_cache(maxsize=512)
def _slots_of(spans: _Spans, opaque: str) -> Callable[..., tuple[Any, ...]]:
    """Reads the slots in the order of the header; `opaque` is the struct character of that number."""
    codes, position = ">", 0
    for span in sorted(spans):
        code = opaque if span is spans[0] else f"{span.end - span.start}s"
        codes += f"{span.start - position}x{code}"
        position = span.end
    return struct.Struct(codes).unpack_from


class _Filling(NamedTuple):
    """The making of a typed header from the values of slots: `pick` puts them into the order opaque, then that
    of `fill`. Up to `numbers` they are whole numbers, those behind the opaque no less than `least`."""

    fill: Callable[..., Header]
    pick: Callable[[Any], tuple[Any, ...]]
    numbers: int
    least: tuple[int, ...] | None


def _filling(varying: Varying, lesson: Lesson) -> _Filling:
    spans = lesson.spans[0], *(lesson.spans[1 + lesson.fields.index(name)] for name in varying.fields)
    on_wire = sorted(spans)
    least = None
    if varying.is_signed:  # over the text "1", not "01"
        least = tuple(_least(span.end - span.start) for span in spans[1 : 1 + len(varying.numbers)])
    return _Filling(varying.fill, itemgetter(*map(on_wire.index, spans)), 1 + len(varying.numbers), least)


def _least(digits: int) -> int:
    """The least whole number of so many digits."""
    return 10 ** (digits - 1) if digits > 1 else 0


def _binary_reader(
    known: _Known, constants: Callable[..., _Constants], spans: _Spans, filling: _Filling
) -> _Read:
    find, slots = known.get, _slots_of(spans, OPAQUE.format[1:])
    fill, pick, numbers, least = filling

    def read(data: bytes, header_at: int, body_at: int, end: int) -> RemotingCommand | None:
        command: Any = find(constants(data, header_at))
        if command is None:
            return None
        values = pick(slots(data, header_at))
        if not b"".join(values[1:numbers]).isdigit():
            return None
        if least is not None and any(map(lt, map(int, values[1:numbers]), least)):
            return None
        header = fill(command.header, _decode, *values[1:])
        return _replace(command, body=data[body_at:end], opaque=values[0], header=header)  # type: ignore[no-any-return]

    return read


def _json_reader(
    known: _Known, constants: Callable[..., _Constants], spans: _Spans, filling: _Filling
) -> _Read:
    digits = spans[0].end - spans[0].start
    least_opaque = _least(digits)  # JSON has no leading zeros
    find, slots = known.get, _slots_of(spans, f"{digits}s")
    fill, pick, numbers, least = filling

    def read(data: bytes, header_at: int, body_at: int, end: int) -> RemotingCommand | None:
        command: Any = find(constants(data, header_at))
        if command is None:
            return None
        values = pick(slots(data, header_at))
        if not b"".join(values[:numbers]).isdigit():
            return None
        opaque = int(values[0])
        if opaque < least_opaque:
            return None
        if least is not None and any(map(lt, map(int, values[1:numbers]), least)):
            return None
        try:
            header = fill(command.header, read_json_text, *values[1:])
        except ValueError:  # a text that the general reader may tolerate
            return None
        return _replace(command, body=data[body_at:end], opaque=opaque, header=header)  # type: ignore[no-any-return]

    return read
