"""Stored records as Arrow record batches, one row each, with the columns of `schema`. Needs PyArrow.

Times that do not fit microseconds are clamped. Bodies are decompressed unless requested as stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmqcli.codec.compression import COMPRESSED
from rmqcli.codec.compression import decompress as decompress_body
from rmqcli.codec.errors import BodyError, CorruptionError
from rmqcli.codec.ids import host_text, offset_msg_id
from rmqcli.codec.inner_batch import NOT_INNER, WRAPPED
from rmqcli.codec.layout import Buffer
from rmqcli.codec.message_batch import BatchItem, decode_batch
from rmqcli.codec.properties import decode_properties
from rmqcli.codec.property_names import PropertyName, split_keys
from rmqcli.codec.scan.arrow_arrays import VIEWS_ARE_WRITTEN, always, dictionary, of_one_width, pieces, views
from rmqcli.codec.scan.columns import Array, FixedColumns, ends_of, find_bad_crc, fixed_columns, host_widths
from rmqcli.codec.scan.properties import PropertyColumns, split_properties
from rmqcli.codec.scan.walk import StopReason, scan_positions
from rmqcli.codec.store.record_layout import BORN_HOST_V6, STORE_HOST_V6

# The Arrow and Parquet schema of every export. Needs PyArrow.
#
# A row has the values of `rmqcli.codec.records.reading.decode_record`. Times are UTC microseconds, as Spark
# needs.

_ENCODED = ("topic", "broker_name", "tags", "born_host", "store_host")


@cache
def schema(*, encoded: bool = False, views: bool = False) -> pa.Schema:
    """Return the columns of an export; `msg_id` is the UNIQ_KEY, or else the offset message id.

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


_HEX = np.frombuffer(b"".join(b"%04X" % pair for pair in range(1 << 16)), dtype=np.uint32)
"""The four hexadecimal digits of every pair of bytes."""
_LOW = 0xFFFFFFFF


def hosts(rows: FixedColumns, name: str, *, encoded: bool = False) -> pa.Array:
    """Return the `ip:port` texts of `born_host` or `store_host`; equal hosts are formatted once."""
    packed = _packed_v4(rows, name)
    if packed is None:
        widths = host_widths(rows)[name == "store_host"]
        pairs = zip(rows[name].tolist(), widths.tolist(), strict=True)
        texts = pa.array([host_text(bytes(host)[:width]) for host, width in pairs], pa.string())
        return texts.dictionary_encode() if encoded else texts
    if _is_one(packed):
        text = host_text(int(packed[0]).to_bytes(8, "big"))
        return always(text, len(rows)) if encoded else always(text, len(rows)).dictionary_decode()
    found = pa.array(packed).dictionary_encode()
    names = pa.array([host_text(host.to_bytes(8, "big")) for host in found.dictionary.to_pylist()])
    return pa.DictionaryArray.from_arrays(found.indices, names) if encoded else names.take(found.indices)


def offset_msg_ids(rows: FixedColumns) -> pa.Array:
    """Return the packed store host and commit-log offset of each record in hexadecimal digits."""
    packed = _packed_v4(rows, "store_host")
    if packed is None:
        return _mixed_offset_msg_ids(rows)
    offsets = rows["physical_offset"]
    parts = (packed >> 32, packed & _LOW, offsets >> 32, offsets & _LOW)
    # All rows begin as copies of the first one; only parts that differ are overwritten.
    digits = np.tile(np.concatenate([_digits(part[:1]) for part in parts]), (len(rows), 1))
    for column, part in enumerate(parts):
        if not _is_one(part):
            digits[:, column] = _digits(part)
    return of_one_width(digits.view("V32").ravel(), pa.string())


def _is_one(numbers: Array) -> bool:
    return len(numbers) > 0 and bool((numbers == numbers[0]).all())


def _packed_v4(rows: FixedColumns, name: str) -> Array | None:
    """Return the hosts as numbers; None if one of them is IPv6."""
    column = rows[name]
    if column.dtype.itemsize > 8:
        bit = STORE_HOST_V6 if name == "store_host" else BORN_HOST_V6
        if (rows["sys_flag"] & bit).any():
            return None
        # An IPv4 host is in the first 8 of the 20 bytes.
        column = np.ascontiguousarray(column.view(np.dtype("V8,V12"))["f0"])
    numbers: Array = column.view(">u8").astype(np.uint64).ravel()
    return numbers


def _digits(numbers: Array) -> Array:
    digits: Array = _HEX[numbers.astype(">u4").view(">u2").reshape(-1, 2)].view(np.uint64).ravel()
    return digits


def _mixed_offset_msg_ids(rows: FixedColumns) -> pa.Array:
    widths = host_widths(rows)[1].tolist()
    packed = [bytes(host)[:width] for host, width in zip(rows["store_host"].tolist(), widths, strict=True)]
    ids = [
        offset_msg_id(host[:-4], int.from_bytes(host[-4:], "big"), offset)
        for host, offset in zip(packed, rows["physical_offset"].tolist(), strict=True)
    ]
    return pa.array(ids, pa.string())


BATCH_ROWS = 16384
BATCH_BYTES = 32 * 1024 * 1024
"""The maximum number of bytes in one batch, exceeded only by its last record."""

_WALK_ROWS = 1 << 16
"""The number of records walked at a time; a longer walk costs less per record."""
_LARGE_BODY = 512
"""The mean body length from which a view beats a copy: 0.6 instead of 0.75 µs at 1 KB, but 0.07 µs more at
100 B.
"""
_MAX_MS = (2**63 - 1) // 1000


def scan_batches(
    buffer: Buffer,
    start: int = 0,
    end: int | None = None,
    *,
    broker_name: str | None = None,
    check_crc: bool = False,
    decompress: bool = True,
    encoded: bool = False,
    batch_rows: int = BATCH_ROWS,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the records that start in start:end, up to a filler record or zeros; memory is bounded by one
    batch.

    With `encoded`, batches have the encoded schema, and large bodies are views that keep the buffer alive.
    The last record may extend past `end`, but not past the buffer. Raises CorruptionError at a damaged
    record, after the batch of the records before it.
    """
    while True:
        # A multiple of `batch_rows`, so that a walk does not end with a short batch.
        walk = scan_positions(buffer, start, end, max_rows=-(-_WALK_ROWS // batch_rows) * batch_rows)
        for positions in _cut(walk.positions, batch_rows, batch_bytes):
            rows, damage = _good_rows(buffer, positions, check_crc)
            if len(rows):
                yield _to_arrow(buffer, rows, broker_name, decompress, encoded)
            if damage is not None:
                raise damage
        if walk.reason.is_damage:
            raise CorruptionError(f"no whole record ({walk.reason})", walk.end)
        if walk.reason is not StopReason.LIMIT:
            return
        start = walk.end


def _cut(positions: Array, rows: int, size: int) -> Iterator[Array]:
    begin = 0
    while begin < len(positions):
        reached = int(np.searchsorted(positions, positions[begin] + size))
        end = min(begin + rows, max(reached, begin + 1))
        yield positions[begin:end]
        begin = end


def to_arrow(
    buffer: Buffer,
    positions: Array,
    *,
    broker_name: str | None = None,
    check_crc: bool = False,
    decompress: bool = True,
    encoded: bool = False,
) -> pa.RecordBatch:
    """Return the records at these ascending positions as rows. Raises CorruptionError at a damaged record."""
    if (np.diff(positions) <= 0).any():
        raise ValueError("the positions of the records must ascend")
    rows, damage = _good_rows(buffer, positions, check_crc)
    if damage is not None:
        raise damage
    return _to_arrow(buffer, rows, broker_name, decompress, encoded)


def _to_arrow(
    buffer: Buffer, rows: FixedColumns, broker_name: str | None, decompress: bool, encoded: bool
) -> pa.RecordBatch:
    if len(rows) == 0:
        return pa.RecordBatch.from_pylist([], schema=schema(encoded=encoded))
    data = pa.py_buffer(buffer)
    in_place = encoded and VIEWS_ARE_WRITTEN and bool(rows["body_length"].mean() >= _LARGE_BODY)
    bodies = (views if in_place else pieces)(data, rows["body_start"], rows["body_end"])
    topics = pieces(data, rows["topic_start"], rows["topic_end"])
    properties = split_properties(data, rows["properties_start"], rows["properties_end"])
    ids = offset_msg_ids(rows)
    few = dictionary if encoded else _same
    broker = always(broker_name, len(rows))
    columns = {
        "topic": few(_texts(topics)),
        "broker_name": broker if encoded else broker.dictionary_decode(),
        "commit_log_offset": pa.array(rows["physical_offset"]),
        "msg_id": _coalesce(properties.column(PropertyName.UNIQ_KEY), ids),
        "offset_msg_id": ids,
        "tags": few(properties.column(PropertyName.TAGS)),
        "keys": _keys(properties),
        "properties": properties.map_array(encoded=encoded),
        "born_timestamp": _moments(rows["born_timestamp"]),
        "born_host": hosts(rows, "born_host", encoded=encoded),
        "store_timestamp": _moments(rows["store_timestamp"]),
        "store_host": hosts(rows, "store_host", encoded=encoded),
        "store_size": pa.array(rows["total_size"]),
        "body": _decompressed(bodies, rows) if decompress else bodies,
    }
    wanted = schema(encoded=encoded, views=in_place)
    arrays = [columns[name] if name in columns else pa.array(rows[name]) for name in wanted.names]
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _same(column: pa.Array) -> pa.Array:
    return column


def _coalesce(column: pa.Array, others: pa.Array) -> pa.Array:
    return pc.coalesce(column, others) if column.null_count else column


def _good_rows(
    buffer: Buffer, positions: Array, check_crc: bool
) -> tuple[FixedColumns, CorruptionError | None]:
    """Return the records before the first damage, and the error for that damage."""
    damage = None
    while True:
        try:
            rows = fixed_columns(buffer, positions)
            break
        except CorruptionError as error:  # raised by one check; others may fail for earlier records
            damage = error
            positions = positions[positions < (error.position or 0)]
    bad = find_bad_crc(buffer, rows) if check_crc else []
    if bad:
        damage = CorruptionError("the CRC of a body is wrong", int(positions[bad[0]]))
        rows = rows.first(bad[0])
    return rows, damage


def _moments(milliseconds: Array) -> pa.Array:
    micros = np.clip(milliseconds, -_MAX_MS, _MAX_MS) * 1000
    return pa.array(micros).view(pa.timestamp("us", tz="UTC"))


def _texts(data: pa.Array) -> pa.Array:
    try:
        return data.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([str(piece, "utf-8", "replace") for piece in data.to_pylist()], pa.string())


def _keys(properties: PropertyColumns) -> pa.Array:
    """Return the non-empty, blank-separated keys of each record; a record without keys has an empty list."""
    texts = properties.column(PropertyName.KEYS)
    # Without blanks, each text is a single key, and the column itself holds the values of the lists.
    if texts.null_count == 0 and b" " not in bytes(texts.buffers()[2] or b""):
        return pa.ListArray.from_arrays(pa.array(np.arange(len(texts) + 1, dtype=np.int32)), texts)
    parts = pc.split_pattern(pc.fill_null(texts, ""), " ")
    full = pc.not_equal(parts.values, "")
    counts = ends_of(full.to_numpy(zero_copy_only=False))
    return pa.ListArray.from_arrays(pa.array(counts[parts.offsets.to_numpy()]), parts.values.filter(full))


def _decompressed(bodies: pa.Array, rows: FixedColumns) -> pa.Array:
    flags = rows["sys_flag"]
    compressed = np.flatnonzero(flags & COMPRESSED).tolist()
    if not compressed:
        return bodies
    plain = bodies.to_pylist()
    for row in compressed:
        plain[row] = decompress_body(plain[row], int(flags[row]))
    return pa.array(plain, bodies.type)


# Rows of inner batches of 5.x: one for each message in place of one for the record. Needs PyArrow.
#
# All columns are those of the record but the ones that `rmqcli.codec.inner_batch` takes from the message.

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
