"""Stored records as Arrow record batches, one row each, with the columns of `schema`. Needs PyArrow.

Times that do not fit microseconds are clamped. Bodies are decompressed unless requested as stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from librt.strings import BytesWriter

from rmqcli.codec.core.columns import PLACE_BITS, Codes, Columns, Texts
from rmqcli.codec.core.walk import Walk
from rmqcli.codec.errors import BodyError, CorruptionError
from rmqcli.codec.ids import host_text
from rmqcli.codec.inner_batch import NOT_INNER, WRAPPED
from rmqcli.codec.layout import Buffer
from rmqcli.codec.message_batch import BatchItem, decode_batch
from rmqcli.codec.properties import decode_properties
from rmqcli.codec.property_names import PropertyName, split_keys
from rmqcli.codec.scan.arrow_arrays import VIEWS_ARE_WRITTEN, Array, always

# The Arrow and Parquet schema of every export. Needs PyArrow.
#
# A row has the values of `rmqcli.codec.records.reading.decode_record`. Times are UTC microseconds, as Spark
# needs.

_ENCODED = ("topic", "broker_name", "tags", "born_host", "store_host")


@cache
def schema(*, encoded: bool = False, views: bool = False) -> pa.Schema:
    """Return the columns of an export; `msg_id` is the UNIQ_KEY, otherwise the offset message id.

    With `encoded`, columns with few distinct texts and the names of properties are dictionary arrays. With
    `views`, bodies are views of the scanned buffer.
    """
    if views:
        plain = schema(encoded=encoded)
        return plain.set(plain.get_field_index("body"), pa.field("body", pa.binary_view()))
    if encoded:
        return _encoded(schema())
    moment = pa.timestamp("us", tz="UTC")
    return pa.schema(
        [
            ("topic", pa.string()),
            ("broker_name", pa.string()),
            ("queue_id", pa.int32()),
            ("queue_offset", pa.int64()),
            ("commit_log_offset", pa.int64()),
            ("msg_id", pa.string()),
            ("offset_msg_id", pa.string()),
            ("tags", pa.string()),
            ("keys", pa.list_(pa.string())),
            ("properties", pa.map_(pa.string(), pa.string())),
            ("born_timestamp", moment),
            ("born_host", pa.string()),
            ("store_timestamp", moment),
            ("store_host", pa.string()),
            ("flag", pa.int32()),
            ("sys_flag", pa.int32()),
            ("reconsume_times", pa.int32()),
            ("prepared_transaction_offset", pa.int64()),
            ("store_size", pa.int32()),
            ("body_crc", pa.int32()),
            ("body", pa.binary()),
        ]
    )


def _encoded(plain: pa.Schema) -> pa.Schema:
    few = pa.dictionary(pa.int32(), pa.string())
    for name in _ENCODED:
        plain = plain.set(plain.get_field_index(name), pa.field(name, few))
    return plain.set(plain.get_field_index("properties"), pa.field("properties", pa.map_(few, pa.string())))


BATCH_ROWS = 16384
BATCH_BYTES = 32 * 1024 * 1024
"""The maximum number of bytes in one batch, exceeded only by its last record."""

_LARGE_BODY = 512
"""The mean body length from which a view beats a copy."""


def scan_batches(
    buffer: Buffer,
    start: int = 0,
    end: int | None = None,
    *,
    base: int | None = None,
    broker_name: str | None = None,
    check_crc: bool = False,
    decompress: bool = True,
    encoded: bool = False,
    batch_rows: int = BATCH_ROWS,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the records that start in start:end, up to a filler record or zeros; memory is bounded by one
    batch.

    `base` is the commit-log offset of the first byte; None takes it from the first record. With `encoded`,
    batches have the encoded schema, and large bodies are views that keep the buffer alive. The last record
    may extend past `end`, but not past the buffer. Raises CorruptionError at a damaged record, after the
    batch of the records before it.
    """
    walk = Walk(buffer, -1 if base is None else base, start, -1 if end is None else end, check_crc=check_crc)
    in_place, damage, goes_on = encoded and VIEWS_ARE_WRITTEN, None, True
    columns = Columns(buffer, in_place, decompress)
    while goes_on:
        columns.clear(in_place)
        try:
            goes_on = columns.add_all(walk, batch_rows, batch_bytes)
        except CorruptionError as error:
            damage, goes_on = error, False
        if columns.count:
            yield _batch(columns, buffer, broker_name, encoded)
            in_place = in_place and _are_large(columns)
    if damage is not None:
        raise damage


class RecordsAt:
    """Makes rows of the records at given positions of a buffer; its memory is kept from one batch to the next.

    The arguments are those of `scan_batches`.
    """

    def __init__(
        self,
        buffer: Buffer,
        *,
        base: int | None = None,
        broker_name: str | None = None,
        check_crc: bool = False,
        decompress: bool = True,
        encoded: bool = False,
    ) -> None:
        self._walk = Walk(buffer, -1 if base is None else base, check_crc=check_crc)
        self._in_place = encoded and VIEWS_ARE_WRITTEN
        self._columns = Columns(buffer, self._in_place, decompress)
        self._rows = buffer, broker_name, encoded

    def batch(self, positions: Array, sizes: Array) -> pa.RecordBatch:
        """Return the records at these positions, which have these sizes.

        Raises CorruptionError at a damaged record, or if records of other sizes are there.
        """
        ends = positions + sizes
        # Adjacent records are read together.
        first = np.append(True, positions[1:] != ends[:-1])[: len(positions)]
        self._columns.clear(self._in_place)
        # Shifted by one, the mask of the first records of ranges is that of the last ones.
        self._columns.add_runs(self._walk, positions[first].tolist(), ends[np.roll(first, -1)].tolist())
        return _batch(self._columns, *self._rows)


def _are_large(columns: Columns) -> bool:
    return columns.body_size >= _LARGE_BODY * columns.count


def _batch(columns: Columns, buffer: Buffer, broker_name: str | None, encoded: bool) -> pa.RecordBatch:
    """Return the records of some columns as rows."""
    bodies = _bodies(columns, buffer)
    wanted = schema(encoded=encoded, views=bodies.type == pa.binary_view())
    names = _coded(columns.names, _text)
    found = {
        "topic": _coded(columns.topic, _text),
        "broker_name": always(broker_name, columns.count),
        "msg_id": _texts(columns.msg_id),
        "offset_msg_id": _texts(columns.offset_msg_id),
        "tags": _coded(columns.tags, _text),
        "keys": pa.ListArray.from_arrays(_ends(columns.key_ends), _texts(columns.keys)),
        "properties": pa.MapArray.from_arrays(
            _ends(columns.pair_ends), names if encoded else names.dictionary_decode(), _texts(columns.values)
        ),
        "born_host": _coded(columns.born_host, host_text),
        "store_host": _coded(columns.store_host, host_text),
        "body": bodies,
    }
    if not encoded:
        found |= {name: found[name].dictionary_decode() for name in _ENCODED}
    arrays = [
        found[field.name]
        if field.name in found
        else _array(field.type, columns.count, getattr(columns, field.name))
        for field in wanted
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _array(kind: pa.DataType, count: int, *data: BytesWriter) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, *(pa.py_buffer(one.getvalue()) for one in data)])


def _texts(texts: Texts, kind: pa.DataType = pa.string()) -> pa.Array:  # noqa: B008
    return _array(kind, texts.count, texts.ends, texts.data)


def _ends(ends: BytesWriter) -> pa.Array:
    return _array(pa.int32(), len(ends) // 4, ends)


def _text(text: bytes) -> str:
    return str(text, "utf-8", "replace")


def _coded(codes: Codes, text: Callable[[bytes], str]) -> pa.DictionaryArray:
    numbers = _array(pa.int32(), len(codes.numbers) // 4, codes.numbers)
    if codes.missing:
        numbers = pc.if_else(pc.less(numbers, 0), None, numbers)
    return pa.DictionaryArray.from_arrays(numbers, pa.array(map(text, codes.texts), pa.string()))


def _bodies(columns: Columns, buffer: Buffer) -> pa.Array:
    if len(columns.views) == 0:
        return _texts(columns.bodies, pa.binary())
    data = pa.py_buffer(buffer)
    parts = [data.slice(number << PLACE_BITS) for number in range(columns.buffers)]
    plain = pa.py_buffer(columns.bodies.data.getvalue())
    views = [None, pa.py_buffer(columns.views.getvalue()), *parts, plain]
    found = pa.Array.from_buffers(pa.binary_view(), columns.count, views)
    return found if _are_large(columns) else found.cast(pa.binary())


# Rows of inner batches of 5.x: one for each message in place of one for the record. Needs PyArrow.
#
# All columns are those of the record, except those that `rmqcli.codec.inner_batch` takes from the message.

_DECODED = ("body", "properties", "tags", "keys", "msg_id")


def inner_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return one row for each message of inner batches. A record whose body is not a batch stays one row."""
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
    # Copied, because NumPy's views of Arrow's memory are read-only.
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
