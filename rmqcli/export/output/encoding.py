"""How the columns of an export are encoded in Parquet: the options of pyarrow's writer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmqcli.export.output.layout import Layout

__all__ = ["WRITER_OPTIONS", "writer_options"]

WRITER_OPTIONS: Mapping[str, Any] = {
    # Trying a dictionary on bodies costs time and is given up every time; the least and the largest body tell nobody anything.
    "use_dictionary": ["topic", "broker_name", "tags", "born_host", "store_host", "properties.key_value.key"],
    "write_statistics": [
        *("topic", "broker_name", "queue_id", "queue_offset", "commit_log_offset", "msg_id", "tags"),
        *("born_timestamp", "store_timestamp", "sys_flag", "reconsume_times", "store_size"),
    ],
    # Numbers that grow by little: 0.01 instead of 2 bytes each, and a third of the time.
    "column_encoding": dict.fromkeys(
        ("queue_offset", "commit_log_offset", "born_timestamp", "store_timestamp"), "DELTA_BINARY_PACKED"
    ),
    # So that a column which is given as a dictionary array is read as texts; it leaves the schema's metadata out.
    "store_schema": False,
}
_BODIES_APART = {"body": "DELTA_LENGTH_BYTE_ARRAY"}
_SMALL_BODY = 512
_SAMPLE_BYTES = 1 << 16
_LEAST_GAIN = 0.05


def writer_options(layout: Layout, table: Any) -> dict[str, Any]:
    """For files of this layout whose first row group this table is."""
    names = layout.names
    options = {**WRITER_OPTIONS, "compression": layout.compression}
    for name in ("use_dictionary", "write_statistics"):
        options[name] = [column for column in options[name] if column.partition(".")[0] in names]
    bodies_apart = _BODIES_APART if layout.compression == "zstd" and _is_noise(table) else {}
    encodings = {**WRITER_OPTIONS["column_encoding"], **bodies_apart}
    options["column_encoding"] = {name: encodings[name] for name in names if name in encodings}
    return options


def _is_noise(table: Any) -> bool:
    """Whether bodies are small and cannot be compressed. Between them their lengths, which can, make zstd busy for nothing, so they
    are better put apart: 100 bytes then take 80 instead of 145 ns. Bodies that can be compressed would take a tenth longer.
    """
    import pyarrow as pa

    bodies = next((chunk for chunk in table["body"].chunks if len(chunk)), None)
    if bodies is None or bodies.type != pa.binary() or bodies.nbytes > (_SMALL_BODY + 4) * len(bodies):
        return False
    sample = b"".join(bodies[: -(-_SAMPLE_BYTES * len(bodies) // bodies.nbytes)].to_pylist())
    return bool(pa.compress(sample, "zstd").size > (1 - _LEAST_GAIN) * len(sample))
