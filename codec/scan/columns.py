"""The fixed fields of many records as one structured array, gathered with the dtypes derived from the declaration.

Every length is checked for all records at once; the first record that does not add up raises CorruptionError. The array
has the fields of the prefix in native byte order (hosts in 20 bytes, an IPv4 one in the first 8), the start and the end of
body, topic and properties as positions in the buffer.
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import Any

import numpy as np

from codec.errors import CorruptionError
from codec.record_layout import BORN_HOST_V6, HEAD, HOST_BITS, MAGIC_V1, MAGIC_V2, PREFIXES, STORE_HOST_V6

__all__ = ["SPANS", "find_bad_crc", "fixed_columns", "host_widths"]

Buffer = bytes | bytearray | memoryview
Array = np.ndarray[Any, np.dtype[Any]]

SPANS = (
    "body_start",
    "body_end",
    "topic_start",
    "topic_end",
    "properties_start",
    "properties_end",
)
_LONGEST = 32767
_LONGEST_V1_TOPIC = 127


def fixed_columns(buffer: Buffer, positions: Array) -> Array:
    """One row for each position, as `scan_positions` gives them. CorruptionError with the position of the first bad record."""
    data = np.frombuffer(buffer, dtype=np.uint8)
    rows = np.zeros(len(positions), dtype=_dtype())
    if len(positions) == 0:
        return rows
    _refuse(positions, (positions < 0) | (positions > len(data) - PREFIXES[0].size), "a record is cut short")
    bits = _gather(data, positions, HEAD)["sys_flag"] & HOST_BITS
    kinds = np.unique(bits).tolist()
    for value in kinds:
        chosen = slice(None) if len(kinds) == 1 else np.flatnonzero(bits == value)
        _fill_prefix(data, positions, rows, chosen, PREFIXES[value])
    _fill_spans(data, positions, rows)
    return rows


def host_widths(rows: Array) -> tuple[Array, Array]:
    """Bytes of the packed born hosts and store hosts: 8 or 20."""
    flags = rows["sys_flag"]
    return np.where(flags & BORN_HOST_V6, 20, 8), np.where(flags & STORE_HOST_V6, 20, 8)


def find_bad_crc(buffer: Buffer, rows: Array) -> list[int]:
    """The row numbers whose body does not have the stored CRC; the CRC of an empty body is not looked at, as in Java."""
    bodies = map(slice, rows["body_start"].tolist(), rows["body_end"].tolist())
    crcs = map(zlib.crc32, map(memoryview(buffer).__getitem__, bodies))
    found = np.fromiter(crcs, dtype=np.int64, count=len(rows)) & 0x7FFFFFFF
    bad: list[int] = np.flatnonzero((found != rows["body_crc"]) & (rows["body_length"] > 0)).tolist()
    return bad


@cache
def _dtype() -> Any:
    widest = PREFIXES[HOST_BITS].dtype().newbyteorder("=")
    fields = [(name, widest[name]) for name in widest.names]
    return np.dtype(fields + [(name, np.dtype(np.int64)) for name in SPANS])


def _gather(data: Array, positions: Array, layout: Any) -> Array:
    """The bytes of a layout at each position, as a structured array in the byte order of the file."""
    # A window of that size starts at every byte; taking one is one copy of its bytes.
    windows = np.ndarray(len(data) - layout.size + 1, f"V{layout.size}", data, strides=(1,))
    return windows[positions].view(layout.dtype())


def _fill_prefix(data: Array, positions: Array, rows: Array, chosen: Array | slice, layout: Any) -> None:
    places = positions[chosen]
    _refuse(places, places > len(data) - layout.size, "a record is cut short")
    prefix = _gather(data, places, layout)
    for field in layout.fields:
        if field.code.endswith("s"):
            packed = prefix[field.name].view(np.dtype((np.uint8, field.size)))
            rows[field.name].view(np.dtype((np.uint8, 20)))[chosen, : field.size] = packed
        else:
            rows[field.name][chosen] = prefix[field.name]
    rows["body_start"][chosen] = places + layout.size


def _fill_spans(data: Array, positions: Array, rows: Array) -> None:
    ends = positions + rows["total_size"]
    body_ends = rows["body_start"] + rows["body_length"]
    wrong = (rows["body_length"] < 0) | (body_ends > ends - 3) | (ends > len(data))
    _refuse(positions, wrong, "the body does not fit into the record")
    is_v2 = rows["magic"] == MAGIC_V2
    _refuse(positions, ~is_v2 & (rows["magic"] != MAGIC_V1), "unknown magic")
    lengths = np.where(is_v2, _short(data, body_ends), data[body_ends])
    topic_starts = body_ends + 1 + is_v2
    topic_ends = topic_starts + lengths
    wrong = (lengths > np.where(is_v2, _LONGEST, _LONGEST_V1_TOPIC)) | (topic_ends + 2 > ends)
    _refuse(positions, wrong, "the topic does not fit into the record")
    lengths = _short(data, topic_ends)
    wrong = (lengths > _LONGEST) | (topic_ends + 2 + lengths != ends)
    _refuse(positions, wrong, "the lengths in a record do not add up to its size")
    values = (rows["body_start"], body_ends, topic_starts, topic_ends, topic_ends + 2, ends)
    for name, value in zip(SPANS, values, strict=True):
        rows[name] = value


def _short(data: Array, places: Array) -> Array:
    values: Array = data[places].astype(np.int64) << 8 | data[places + 1]
    return values


def _refuse(positions: Array, wrong: Array, message: str) -> None:
    if wrong.any():
        raise CorruptionError(message, int(positions[np.flatnonzero(wrong)[0]]))
