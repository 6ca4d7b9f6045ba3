"""One record or entry field by field, with its bytes: what construct's declaration says of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import construct

from codec.consume_queue import ENTRY
from codec.errors import CorruptionError
from codec.ids import host_text
from codec.properties import decode_properties
from codec.record_layout import RECORD
from rmqcli.store.consume_queue import QueueEntry

__all__ = ["FieldBytes", "explain_entry", "explain_record"]


class FieldBytes(NamedTuple):
    """A field at byte `position` of the record: its raw bytes and what they mean."""

    name: str
    position: int
    raw: bytes
    value: str


def explain_record(data: bytes | memoryview, position: int = 0) -> list[FieldBytes]:
    """The fields of the record at a position, in the order of the layout. CorruptionError when it is none."""
    fields: list[FieldBytes] = []
    context = construct.Container()
    at = position
    try:
        for subcon in RECORD.subcons:
            stream = construct.io.BytesIO(bytes(data[at : at + _room(data, position, at)]))
            value = subcon._parsereport(stream, context, "record") if subcon.name else None
            if subcon.name is None:
                continue
            context[subcon.name] = value
            raw = stream.getvalue()[: stream.tell()]
            fields.append(FieldBytes(subcon.name, at - position, raw, _meaning(subcon.name, value)))
            at += len(raw)
    except construct.ConstructError as error:
        raise CorruptionError(f"field {len(fields) + 1} of the record: {error}", at) from None
    return fields


def _room(data: bytes | memoryview, position: int, at: int) -> int:
    total = int.from_bytes(bytes(data[position : position + 4]), "big")
    return max(4, min(len(data), position + total) - at)


def _meaning(name: str, value: Any) -> str:
    if name == "magic":
        return f"0x{value:08X}"
    if name in ("born_host", "store_host"):
        return host_text(value)
    if name == "properties":
        return " ".join(f"{key}={text}" for key, text in decode_properties(value).items())
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


def explain_entry(entry: QueueEntry) -> list[FieldBytes]:
    """The fields of a consume queue entry."""
    values = entry[1:4]
    raw = ENTRY.pack(*values)
    return [
        FieldBytes(field.name, field.offset, raw[field.offset :][: field.size], str(value))
        for field, value in zip(ENTRY.fields, values, strict=True)
    ]
