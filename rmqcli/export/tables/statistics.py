"""The statistics of a data file in a Delta log, taken from its Parquet footer: numbers and times.

Readers leave out files by them. A time is a text with milliseconds, so a least value is rounded down and a
greatest up (Delta protocol, per-file statistics).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_000
"""The milliseconds of the years 1 to 9999: others have no text."""


class _Bounds(NamedTuple):
    name: str
    is_time: bool
    least: int
    greatest: int
    nulls: int


def statistics(footer: Any) -> str:
    """Return the JSON text of numRecords, minValues, maxValues and nullCount."""
    found = [bounds for bounds in _columns(footer) if not bounds.is_time or _has_text(bounds)]
    document = {
        "numRecords": footer.num_rows,
        "minValues": {
            one.name: _value(one, one.least // 1000 if one.is_time else one.least) for one in found
        },
        "maxValues": {
            one.name: _value(one, -(-one.greatest // 1000) if one.is_time else one.greatest) for one in found
        },
        "nullCount": {one.name: one.nulls for one in found},
    }
    return msgspec.json.encode(document).decode()


def _columns(footer: Any) -> Iterator[_Bounds]:
    """Yield the columns, none inside of others, of which every row group has bounds."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    for number in range(footer.num_columns if groups else 0):
        column = footer.schema.column(number)
        chunks = [group.column(number).statistics for group in groups]
        if column.physical_type not in ("INT32", "INT64") or "." in column.path:
            continue
        if all(chunk is not None and chunk.has_min_max and chunk.has_null_count for chunk in chunks):
            yield _Bounds(
                column.path,
                column.logical_type.type == "TIMESTAMP",
                min(chunk.min_raw for chunk in chunks),
                max(chunk.max_raw for chunk in chunks),
                sum(chunk.null_count for chunk in chunks),
            )


def _has_text(bounds: _Bounds) -> bool:
    return bounds.least >= _FIRST * 1000 and bounds.greatest <= _LAST * 1000


def _value(bounds: _Bounds, number: int) -> int | str:
    """`number` is milliseconds for a time."""
    if not bounds.is_time:
        return number
    moment = _EPOCH + timedelta(milliseconds=number)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
