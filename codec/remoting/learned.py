"""Requests that differ in a few values only, read by layouts that the general readers have taught.

A layout says where the texts of the varying values are in a header of one kind and length. All bytes between
them must equal those of a header that the general reader has read, so that nothing is accepted that it would
refuse; `teaching` finds the places. What a layout cannot read, such as a negative queue id, is left to the
general reader.

At most `MOST` headers are kept; then all are learned again. Learning takes ten times as long as reading: it
is paid from a credit that headers read in the general way add to.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final

import msgspec

from codec.codes import SerializeType
from codec.headers.base import Header
from codec.remoting.command import RemotingCommand
from codec.remoting.json_header import read_json_text
from codec.remoting.teaching import KEY_END, Lesson, Spans, teach

MOST: Final = 2048
MOST_ALIKE: Final = 8
"""Layouts of headers that have kind, length and beginning in common; the oldest gives way."""
COST: Final = 8
CREDIT: Final = 256
"""The credit at the beginning, and what one lesson takes of it."""
_KEY_START: Final = 9
"""Behind the opaque number of a binary header."""

_replace: Final = msgspec.structs.replace
_Constants = tuple[bytes, ...]
_Known = dict[_Constants, RemotingCommand]
_Read = Callable[[bytes, int, int, int], RemotingCommand | None]
"""From the data, and where header, body and frame begin and end."""


class Layouts:
    """The learned layouts of the requests of some codes.

    Their header classes have `queue_id`, `born_timestamp` and `properties`. A request with ext fields that
    the class does not have, such as a signature, is not learned.
    """

    def __init__(self, headers: Mapping[int, type[Header]]) -> None:
        self._headers = headers
        self._layouts: dict[tuple[int, bytes], list[_Layout]] = {}
        self._count = 0
        self._credit = CREDIT

    def read(self, data: bytes, mark: int, header_at: int, body_at: int, end: int) -> RemotingCommand | None:
        """The request, with a typed header in place of ext fields; None if it is left to the general reader."""
        key = mark, data[header_at + _KEY_START : header_at + KEY_END]
        for layout in self._layouts.get(key, ()):
            command = layout.read(data, header_at, body_at, end)
            if command is not None:
                return command
        return None

    def learn(self, mark: int, header: bytes, code: int) -> None:
        """Learns from a header that was read in the general way, if the credit allows it."""
        header_class = self._headers.get(code)
        if header_class is None:
            return
        self._credit += 1
        if self._credit < COST:
            return
        self._credit -= COST
        lesson = teach(SerializeType(mark >> 24), header, header_class)
        if lesson is not None:
            self._keep((mark, header[_KEY_START:KEY_END]), header, lesson)

    def _keep(self, key: tuple[int, bytes], header: bytes, lesson: Lesson) -> None:
        if self._count >= MOST:
            self._layouts.clear()
            self._count = 0
        alike = self._layouts.setdefault(key, [])
        layout = next((one for one in alike if one.spans == lesson.spans), None)
        if layout is None:
            layout = _Layout(lesson, len(header))
            alike.insert(0, layout)
            del alike[MOST_ALIKE:]
        layout.learn(header, lesson.command)
        self._count += 1


class _Layout:
    """The headers with slots in the same places: commands by the bytes between the slots."""

    __slots__ = ("_constants", "_known", "read", "spans")

    def __init__(self, lesson: Lesson, size: int) -> None:
        self.spans = lesson.spans
        self._known: _Known = {}
        self._constants = _constants_of(size, self.spans)
        make = _binary_reader if lesson.command.serialize_type else _json_reader
        self.read = make(self._known, self._constants, self.spans)

    def learn(self, header: bytes, command: RemotingCommand) -> None:
        self._known[self._constants(header)] = command


@lru_cache(maxsize=512)
def _constants_of(size: int, spans: Spans) -> Callable[..., _Constants]:
    """Reads the bytes between the slots of a header."""
    codes, position = ">", 0
    for start, end in sorted(spans):
        codes += f"{start - position}s{end - start}x"
        position = end
    return struct.Struct(f"{codes}{size - position}s").unpack_from


@lru_cache(maxsize=512)
def _slots_of(spans: Spans, opaque: str) -> Callable[..., tuple[Any, ...]]:
    """Reads the slots in the order of the header; `opaque` is the struct character of the first of `spans`,
    or nothing."""
    codes, position = ">", 0
    for start, end in sorted(spans):
        code = opaque if opaque and start == spans.opaque.start else f"{end - start}s"
        codes += f"{start - position}x{code}"
        position = end
    return struct.Struct(codes).unpack_from


def _in_order(spans: Spans) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Brings the slots of a header into the order of `Spans`."""
    return itemgetter(*map(sorted(spans).index, spans))


def _binary_reader(known: _Known, constants: Callable[..., _Constants], spans: Spans) -> _Read:
    slots, in_order = _slots_of(spans, "i"), _in_order(spans)

    def read(data: bytes, header_at: int, body_at: int, end: int) -> RemotingCommand | None:
        command = known.get(constants(data, header_at))
        if command is None:
            return None
        opaque, queue_id, born, properties = in_order(slots(data, header_at))
        if not (queue_id.isdigit() and born.isdigit()):
            return None
        return _filled(
            command, data[body_at:end], opaque, queue_id, born, str(properties, "utf-8", "replace")
        )

    return read


def _json_reader(known: _Known, constants: Callable[..., _Constants], spans: Spans) -> _Read:
    slots, in_order = _slots_of(spans, ""), _in_order(spans)
    digits = spans.opaque.end - spans.opaque.start
    least = 10 ** (digits - 1) if digits > 1 else 0  # JSON has no leading zeros

    def read(data: bytes, header_at: int, body_at: int, end: int) -> RemotingCommand | None:
        command = known.get(constants(data, header_at))
        if command is None:
            return None
        number, queue_id, born, properties = in_order(slots(data, header_at))
        if not (number.isdigit() and queue_id.isdigit() and born.isdigit()):
            return None
        opaque = int(number)
        if opaque < least:
            return None
        try:
            text = read_json_text(properties)
        except ValueError:  # the general reader may be more tolerant
            return None
        return _filled(command, data[body_at:end], opaque, queue_id, born, text)

    return read


def _filled(
    command: RemotingCommand, body: bytes, opaque: int, queue_id: bytes, born: bytes, properties: str
) -> RemotingCommand:
    header: Any = command.header
    return _replace(
        command,
        body=body,
        opaque=opaque,
        header=_replace(header, queue_id=int(queue_id), born_timestamp=int(born), properties=properties),
    )
