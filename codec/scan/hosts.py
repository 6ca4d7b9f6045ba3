"""Hosts, and the offset message ids made from them, as Arrow columns. Needs PyArrow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from codec.ids import host_text, offset_msg_id
from codec.scan.arrays import Array
from codec.scan.arrow_arrays import always, of_one_width
from codec.scan.columns import FixedColumns, host_widths
from codec.store.record_layout import BORN_HOST_V6, STORE_HOST_V6

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
    """Return packed store host and commit-log offset in hexadecimal digits."""
    packed = _packed_v4(rows, "store_host")
    if packed is None:
        return _mixed_offset_msg_ids(rows)
    offsets = rows["physical_offset"]
    parts = (packed >> 32, packed & _LOW, offsets >> 32, offsets & _LOW)
    digits = np.tile(np.concatenate([_digits(part[:1]) for part in parts]), (len(rows), 1))
    for column, part in enumerate(parts):
        if not _is_one(part):
            digits[:, column] = _digits(part)
    return of_one_width(digits.view("V32").ravel(), pa.string())


def _is_one(numbers: Array) -> bool:
    return len(numbers) > 0 and bool((numbers == numbers[0]).all())


def _packed_v4(rows: FixedColumns, name: str) -> Array | None:
    """Return the hosts as numbers; None when one of them is IPv6."""
    column = rows[name]
    if column.dtype.itemsize > 8:
        bit = STORE_HOST_V6 if name == "store_host" else BORN_HOST_V6
        if (rows["sys_flag"] & bit).any():
            return None
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
