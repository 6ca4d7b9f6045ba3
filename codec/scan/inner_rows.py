"""Rows of inner batches of 5.x: one for each message in place of one for the record. Needs PyArrow.

All columns are those of the record but the ones that `codec.inner_batch` takes from the message.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from codec.errors import BodyError
from codec.inner_batch import NOT_INNER, WRAPPED
from codec.message_batch import BatchItem, decode_batch
from codec.properties import PropertyName, decode_properties, split_keys

_DECODED = ("body", "properties", "tags", "keys", "msg_id")


def inner_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of all messages. A record whose body is no batch stays one row."""
    flags = batch["sys_flag"].to_numpy()
    items = {
        int(row): found
        for row in np.flatnonzero(flags & WRAPPED == WRAPPED)
        if (found := _items(batch["body"][int(row)].as_py()))
    }
    if not items:
        return batch
    counts = np.ones(batch.num_rows, dtype=np.int64)
    counts[list(items)] = [len(found) for found in items.values()]
    records = np.repeat(np.arange(batch.num_rows), counts)
    wide = batch.take(pa.array(records))
    columns = {name: wide[name].to_pylist() for name in _DECODED}
    offsets, sys_flags, own_flags = (
        wide[name].to_numpy().copy() for name in ("queue_offset", "sys_flag", "flag")
    )
    starts = np.cumsum(counts) - counts
    for record, found in items.items():
        for number, item in enumerate(found):
            row = int(starts[record]) + number
            offsets[row] += number
            sys_flags[row] &= NOT_INNER
            own_flags[row] = item.flag
            _decode(columns, row, item)
    columns |= {"queue_offset": offsets, "sys_flag": sys_flags, "flag": own_flags}
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else wide[field.name]
        for field in batch.schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _items(body: bytes) -> list[BatchItem]:
    try:
        return decode_batch(body)
    except BodyError:
        return []


def _decode(columns: dict[str, Any], row: int, item: BatchItem) -> None:
    properties = decode_properties(item.properties)
    columns["body"][row] = item.body
    columns["properties"][row] = list(properties.items())
    columns["tags"][row] = properties.get(PropertyName.TAGS)
    columns["keys"][row] = split_keys(properties.get(PropertyName.KEYS))
    columns["msg_id"][row] = properties.get(PropertyName.UNIQ_KEY) or columns["msg_id"][row]
