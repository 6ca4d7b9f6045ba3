"""The fixed fields of many records as one structured array, gathered with the dtypes derived from the declaration.

Every length is checked for all records at once; the first record that does not add up raises CorruptionError. The array
has the fields of the prefix in native byte order (hosts in 20 bytes, an IPv4 one in the first 8), the start and the end of
body, topic and properties as positions in the buffer.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from codec.errors import CorruptionError
from codec.hashing import CRC_BITS, crc32_whole
from codec.layout import FixedLayout
from codec.record_layout import BORN_HOST_V6, HOST_BITS, MAGIC_V1, MAGIC_V2, PREFIXES, STORE_HOST_V6

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
_ROWS_AT_ONCE = 2048
"""So many prefixes and rows stay in the processor's cache while they are taken apart."""
_LONGEST = 32767
_LONGEST_V1_TOPIC = 127


def fixed_columns(buffer: Buffer, positions: Array) -> Array:
    """One row for each position, as `scan_positions` gives them. CorruptionError with the position of the first bad record."""
    data = np.frombuffer(buffer, dtype=np.uint8)
    rows = np.zeros(len(positions), dtype=_dtype())
    if len(positions) == 0:
        return rows
    for begin in range(0, len(positions), _ROWS_AT_ONCE):
        part = slice(begin, begin + _ROWS_AT_ONCE)
        _fill(data, positions[part], rows[part])
    return rows


def _fill(data: Array, positions: Array, rows: Array) -> None:
    _refuse(positions, (positions < 0) | (positions > len(data) - PREFIXES[0].size), "a record is cut short")
    prefix = _gather(
        data, positions, PREFIXES[0]
    )  # the sys flag is before the first host, so it is right in any case
    bits = prefix["sys_flag"].astype(np.int32) & HOST_BITS
    if bits.any():
        _fill_prefixes(data, positions, rows, bits)
    else:
        _fill_prefix(positions, rows, slice(None), PREFIXES[0], prefix)
    _fill_spans(data, positions, rows)


def host_widths(rows: Array) -> tuple[Array, Array]:
    """Bytes of the packed born hosts and store hosts: 8 or 20."""
    flags = rows["sys_flag"]
    return np.where(flags & BORN_HOST_V6, 20, 8), np.where(flags & STORE_HOST_V6, 20, 8)


def find_bad_crc(buffer: Buffer, rows: Array) -> list[int]:
    """The row numbers whose body does not have the stored CRC; the CRC of an empty body is not looked at, as in Java."""
    bodies = map(slice, rows["body_start"].tolist(), rows["body_end"].tolist())
    crcs = map(crc32_whole, map(memoryview(buffer).__getitem__, bodies))
    found = np.fromiter(crcs, dtype=np.int64, count=len(rows)) & CRC_BITS
    bad: list[int] = np.flatnonzero((found != rows["body_crc"]) & (rows["body_length"] > 0)).tolist()
    return bad


@cache
def _dtype() -> Any:
    widest = PREFIXES[HOST_BITS].dtype().newbyteorder("=")
    fields = [(name, widest[name]) for name in widest.names]
    return np.dtype(fields + [(name, np.dtype(np.int64)) for name in SPANS])


def _gather(data: Array, positions: Array, layout: FixedLayout) -> Array:
    """The bytes of a layout at each position, as a structured array in the byte order of the file."""
    # A window of that size starts at every byte; taking one is one copy of its bytes.
    windows = np.ndarray(len(data) - layout.size + 1, f"V{layout.size}", data, strides=(1,))
    return windows[positions].view(layout.dtype())


def _fill_prefixes(data: Array, positions: Array, rows: Array, bits: Array) -> None:
    for value in np.unique(bits).tolist():
        layout = PREFIXES[value]
        chosen = np.flatnonzero(bits == value)
        places = positions[chosen]
        _refuse(places, places > len(data) - layout.size, "a record is cut short")
        _fill_prefix(places, rows, chosen, layout, _gather(data, places, layout))


def _fill_prefix(
    places: Array, rows: Array, chosen: Array | slice, layout: FixedLayout, prefix: Array
) -> None:
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
    lengths = _short(data, body_ends)
    lengths = np.where(is_v2, lengths, lengths >> 8)
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
    pairs = np.ndarray(len(data) - 1, "V2", data, strides=(1,))
    values: Array = pairs[places].view(">u2").astype(np.int64)
    return values


def _refuse(positions: Array, wrong: Array, message: str) -> None:
    if wrong.any():
        raise CorruptionError(message, int(positions[np.flatnonzero(wrong)[0]]))
