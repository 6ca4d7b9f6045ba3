"""Hosts, and the offset message ids that are made of them, as Arrow columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from codec.ids import host_text, offset_msg_id
from codec.record_layout import BORN_HOST_V6, STORE_HOST_V6
from codec.scan.columns import FixedColumns, host_widths

__all__ = ["hosts", "offset_msg_ids"]

Array = np.ndarray[Any, np.dtype[Any]]

_HEX = np.frombuffer(b"".join(b"%04X" % pair for pair in range(1 << 16)), dtype=np.uint32)
"""The four digits of each pair of bytes."""


def hosts(rows: FixedColumns, name: str, *, encoded: bool = False) -> pa.Array:
    """`ip:port` texts of `born_host` or `store_host`; equal hosts are made to text once."""
    packed = _packed_v4(rows, name)
    if packed is None:
        widths = host_widths(rows)[name == "store_host"]
        pairs = zip(rows[name].tolist(), widths.tolist(), strict=True)
        texts = pa.array([host_text(bytes(host)[:width]) for host, width in pairs], pa.string())
        return texts.dictionary_encode() if encoded else texts
    found = pa.array(packed.ravel()).dictionary_encode()
    names = pa.array([host_text(host.to_bytes(8, "big")) for host in found.dictionary.to_pylist()])
    return pa.DictionaryArray.from_arrays(found.indices, names) if encoded else names.take(found.indices)


def offset_msg_ids(rows: FixedColumns) -> pa.Array:
    """Packed store host and commit-log offset in hexadecimal digits."""
    packed = _packed_v4(rows, "store_host")
    if packed is None:
        return _mixed_offset_msg_ids(rows)
    digits = np.empty((len(rows), 8), dtype=np.uint32)
    one = bool((packed == packed[0]).all())
    digits[:, :4] = _digits(packed[:1] if one else packed)
    digits[:, 4:] = _digits(rows["physical_offset"])
    ends = np.arange(0, digits.nbytes + 1, 32, dtype=np.int32)
    return pa.StringArray.from_buffers(len(rows), pa.py_buffer(ends), pa.py_buffer(digits))


def _packed_v4(rows: FixedColumns, name: str) -> Array | None:
    """The hosts as numbers; None when one of them is IPv6."""
    column = rows[name]
    if column.dtype.itemsize > 8:
        bit = STORE_HOST_V6 if name == "store_host" else BORN_HOST_V6
        if (rows["sys_flag"] & bit).any():
            return None
        column = np.ascontiguousarray(column.view(np.dtype("V8,V12"))["f0"])
    numbers: Array = column.view(">u8").astype(np.uint64)
    return numbers


def _digits(numbers: Array) -> Array:
    pairs = numbers.astype(numbers.dtype.newbyteorder(">")).view(">u2").reshape(len(numbers), 4)
    digits: Array = _HEX[pairs]
    return digits


def _mixed_offset_msg_ids(rows: FixedColumns) -> pa.Array:
    widths = host_widths(rows)[1].tolist()
    packed = [bytes(host)[:width] for host, width in zip(rows["store_host"].tolist(), widths, strict=True)]
    ids = [
        offset_msg_id(host[:-4], int.from_bytes(host[-4:], "big"), offset)
        for host, offset in zip(packed, rows["physical_offset"].tolist(), strict=True)
    ]
    return pa.array(ids, pa.string())
