"""Stored records as Arrow record batches: the schema of every export.

One row is one record, with the values that `codec.record.decode_record` gives. Times are microseconds in UTC (Spark takes
no other unit), clamped where milliseconds do not fit. Bodies are plain unless asked for as stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from codec.compression import COMPRESSED
from codec.compression import decompress as decompress_body
from codec.errors import CorruptionError
from codec.ids import host_text, offset_msg_id
from codec.properties import PropertyName
from codec.record_layout import STORE_HOST_V6
from codec.scan.columns import SPANS, find_bad_crc, fixed_columns, host_widths
from codec.scan.properties import PropertyColumns, split_properties
from codec.scan.walk import StopReason, Walk, scan_positions

__all__ = ["BATCH_BYTES", "BATCH_ROWS", "scan_batches", "schema", "to_arrow"]

Buffer = bytes | bytearray | memoryview
Array = np.ndarray[Any, np.dtype[Any]]

BATCH_ROWS = 16384
BATCH_BYTES = 32 * 1024 * 1024
"""Bytes of records in one batch; a batch ends with the record that reaches it."""

_MAX_MS = (2**63 - 1) // 1000
_HEX = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), dtype="V2")


@cache
def schema() -> pa.Schema:
    """Names, order and types of the columns; `msg_id` is the UNIQ_KEY, else the offset message id."""
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


def scan_batches(
    buffer: Buffer,
    start: int = 0,
    end: int | None = None,
    *,
    broker_name: str | None = None,
    check_crc: bool = False,
    decompress: bool = True,
    batch_rows: int = BATCH_ROWS,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """The records that start in start:end, in batches, up to a BLANK record or zeros; memory is bounded by one batch.

    The last record may reach behind `end`, the buffer must hold it whole. CorruptionError where a record is damaged, after
    the batch of those before it.
    """
    while True:
        walk = scan_positions(buffer, start, end, max_rows=batch_rows, max_bytes=batch_bytes)
        rows, damage = _good_rows(buffer, walk, check_crc)
        if len(rows):
            yield _to_arrow(buffer, rows, broker_name, decompress)
        if damage is not None:
            raise damage
        if walk.reason is not StopReason.LIMIT:
            return
        start = walk.end


def to_arrow(
    buffer: Buffer, positions: Array, *, broker_name: str | None = None, decompress: bool = True
) -> pa.RecordBatch:
    """The records at these ascending positions, one row each. CorruptionError when one is damaged (CRCs are not looked at)."""
    if (np.diff(positions) <= 0).any():
        raise ValueError("the positions of the records must ascend")
    return _to_arrow(buffer, fixed_columns(buffer, positions), broker_name, decompress)


def _to_arrow(buffer: Buffer, rows: Array, broker_name: str | None, decompress: bool) -> pa.RecordBatch:
    if len(rows) == 0:
        return pa.RecordBatch.from_pylist([], schema=schema())
    bodies, topics, texts = _variable_columns(buffer, rows)
    properties = split_properties(texts)
    ids = _offset_msg_ids(rows)
    born_widths, store_widths = host_widths(rows)
    columns = {
        "topic": _texts(topics),
        "broker_name": pa.array([broker_name], pa.string()).take(pa.array(np.zeros(len(rows), np.int8))),
        "commit_log_offset": _plain(rows["physical_offset"]),
        "msg_id": pc.coalesce(properties.column(PropertyName.UNIQ_KEY), ids),
        "offset_msg_id": ids,
        "tags": properties.column(PropertyName.TAGS),
        "keys": _keys(properties),
        "properties": properties.map_array(),
        "born_timestamp": _moments(rows["born_timestamp"]),
        "born_host": _hosts(rows["born_host"], born_widths),
        "store_timestamp": _moments(rows["store_timestamp"]),
        "store_host": _hosts(rows["store_host"], store_widths),
        "store_size": _plain(rows["total_size"]),
        "body": _decompressed(bodies, rows) if decompress else bodies,
    }
    arrays = [columns[name] if name in columns else _plain(rows[name]) for name in schema().names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema())


def _good_rows(buffer: Buffer, walk: Walk, check_crc: bool) -> tuple[Array, CorruptionError | None]:
    """The records of a walk before the first damage, and that damage."""
    damage = None
    if walk.reason.is_damage:
        damage = CorruptionError(f"no whole record ({walk.reason})", walk.end)
    try:
        rows = fixed_columns(buffer, walk.positions)
    except CorruptionError as error:
        damage = error
        rows = fixed_columns(buffer, walk.positions[walk.positions < (error.position or 0)])
    bad = find_bad_crc(buffer, rows) if check_crc else []
    if bad:
        damage = CorruptionError("the CRC of a body is wrong", int(walk.positions[bad[0]]))
        rows = rows[: bad[0]]
    return rows, damage


def _variable_columns(buffer: Buffer, rows: Array) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Bodies, topics and properties texts as binary arrays.

    The buffer itself serves as the data of an array of seven values a record: head, body, length, topic, length, properties
    and what is between this record and the next. Arrow then copies the ones that are wanted.
    """
    cuts = np.empty((len(rows), 7), dtype=np.int64)
    cuts[:, 0] = rows["body_start"]
    for column, name in enumerate(SPANS, 1):
        cuts[:, column] = rows[name]
    offsets = pa.py_buffer(np.append(cuts.ravel(), cuts[-1:, -1]))
    everything = pa.Array.from_buffers(pa.large_binary(), cuts.size, [None, offsets, pa.py_buffer(buffer)])
    firsts = np.arange(0, cuts.size, 7)
    bodies, topics, texts = (
        everything.take(pa.array(firsts + value)).cast(pa.binary()) for value in (1, 3, 5)
    )
    return bodies, topics, texts


def _plain(column: Array) -> pa.Array:
    return pa.array(np.ascontiguousarray(column))


def _moments(milliseconds: Array) -> pa.Array:
    micros = np.clip(milliseconds, -_MAX_MS, _MAX_MS) * 1000
    return pa.array(micros).view(pa.timestamp("us", tz="UTC"))


def _texts(data: pa.Array) -> pa.Array:
    try:
        return data.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([str(piece, "utf-8", "replace") for piece in data.to_pylist()], pa.string())


def _hosts(packed: Array, widths: Array) -> pa.Array:
    """`ip:port` texts; equal hosts are made to text once."""
    size = packed.itemsize
    if widths.max() > 8:
        pairs = zip(packed.tolist(), widths.tolist(), strict=True)
        return pa.array([host_text(bytes(host)[:width]) for host, width in pairs], pa.string())
    data = pa.py_buffer(np.ascontiguousarray(packed))
    hosts = pa.Array.from_buffers(pa.binary(size), len(packed), [None, data]).dictionary_encode()
    return pa.array([host_text(host[:8]) for host in hosts.dictionary.to_pylist()]).take(hosts.indices)


def _offset_msg_ids(rows: Array) -> pa.Array:
    if (rows["sys_flag"] & STORE_HOST_V6).any():
        return _mixed_offset_msg_ids(rows)
    size = 16
    raw = np.empty((len(rows), size), dtype=np.uint8)
    raw[:, :8] = np.ascontiguousarray(rows["store_host"]).view(np.uint8).reshape(len(rows), -1)[:, :8]
    raw[:, 8:] = rows["physical_offset"].astype(">i8").view(np.uint8).reshape(len(rows), 8)
    offsets = np.arange(0, (len(rows) + 1) * size * 2, size * 2, dtype=np.int32)
    return pa.StringArray.from_buffers(len(rows), pa.py_buffer(offsets), pa.py_buffer(_HEX[raw].tobytes()))


def _mixed_offset_msg_ids(rows: Array) -> pa.Array:
    widths = host_widths(rows)[1].tolist()
    hosts = [bytes(host)[:width] for host, width in zip(rows["store_host"].tolist(), widths, strict=True)]
    ids = [
        offset_msg_id(host[:-4], int.from_bytes(host[-4:], "big"), offset)
        for host, offset in zip(hosts, rows["physical_offset"].tolist(), strict=True)
    ]
    return pa.array(ids, pa.string())


def _keys(properties: PropertyColumns) -> pa.Array:
    """The blank-separated keys of each record, empty ones dropped; no key at all is an empty list."""
    parts = pc.split_pattern(pc.fill_null(properties.column(PropertyName.KEYS), ""), " ")
    full = pc.not_equal(parts.values, "")
    counts = np.concatenate(([0], np.cumsum(full.to_numpy(zero_copy_only=False)))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(counts[parts.offsets.to_numpy()]), parts.values.filter(full))


def _decompressed(bodies: pa.Array, rows: Array) -> pa.Array:
    flags = rows["sys_flag"]
    compressed = np.flatnonzero(flags & COMPRESSED).tolist()
    if not compressed:
        return bodies
    pieces = bodies.to_pylist()
    for row in compressed:
        pieces[row] = decompress_body(pieces[row], int(flags[row]))
    return pa.array(pieces, pa.binary())
