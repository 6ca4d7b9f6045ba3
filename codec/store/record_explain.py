"""Fields of a stored record with their bytes. They are read with the declaration: slowly, and as far as
possible."""

from __future__ import annotations

from typing import Any, NamedTuple

import construct

from codec.errors import CorruptionError
from codec.layout import Buffer, FixedLayout
from codec.store.record import peek_record
from codec.store.record_layout import HEAD, MAGIC_FILLER, RECORD

LONGEST_FIELD = 64 * 1024 * 1024


class ExplainedField(NamedTuple):
    """A field; `offset` counts from the start of the record, `value` is a number, or bytes for hosts and
    texts."""

    name: str
    offset: int
    data: bytes
    value: int | bytes


class Explanation(NamedTuple):
    """Fields of a record; `problem` is the reason why they end early, None for a whole record."""

    fields: list[ExplainedField]
    problem: str | None


def explain_record(buffer: Buffer, position: int = 0) -> Explanation:
    """Explain a record up to the first impossible field. Raises CorruptionError for fewer than 8 bytes."""
    declaration = HEAD.declaration if peek_record(buffer, position).magic == MAGIC_FILLER else RECORD
    fields: list[ExplainedField] = []
    known: dict[str, Any] = {}
    offset = 0
    view = memoryview(buffer)
    for part in declaration.subcons:
        try:
            size = _size(part, known)
            data = bytes(view[position + offset : position + offset + size])
            value = part.parse(data, **known)
        except construct.CheckError:
            return Explanation(fields, f"the fields up to byte {offset} contradict each other")
        except (construct.ConstructError, CorruptionError) as error:
            return Explanation(fields, f"{part.name} at byte {offset}: {str(error).splitlines()[0]}")
        if part.name:
            known[part.name] = value
            fields.append(ExplainedField(part.name, offset, data, value))
            offset += size
    return Explanation(fields, None)


def explain_fixed(layout: FixedLayout, buffer: Buffer, position: int = 0) -> list[ExplainedField]:
    """Explain a layout of fixed size. Raises CorruptionError when the buffer is too short."""
    data = bytes(buffer[position : position + layout.size])
    if len(data) < layout.size:
        raise CorruptionError(f"{len(data)} bytes where {layout.size} are needed", position)
    return [
        ExplainedField(field.name, field.offset, data[field.offset :][: field.size], value)
        for field, value in zip(layout.fields, layout.unpack(data), strict=True)
    ]


def _size(part: Any, known: dict[str, Any]) -> int:
    size = int(part.sizeof(**known)) if part.name else 0
    if not 0 <= size <= LONGEST_FIELD:
        raise CorruptionError(f"a field of {size} bytes")
    return size
