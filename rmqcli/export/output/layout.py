"""The layout of exported rows in files: folders, sizes, compression, columns. It can be pickled.

Folders are named as by Hive, `topic=orders/day=2026-11-21/queue=3`, with percent-encoded values. Day and
hour (`hour=2026-11-21-07`, as Iceberg writes it) are those of the store time in UTC. A column in the name of
a folder (`topic`) is left out of its files, as readers of such folders expect. Sizes are bytes of columns in
memory, before encoding and compression.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import rmqcli
from rmqcli.export.errors import LayoutError
from rmqcli.export.transform.transform import NOTHING, Transform

FILE_BYTES = 512 * 1024 * 1024
"""The approximate number of bytes after which a file is ended."""
ROW_GROUP_BYTES = 128 * 1024 * 1024
COMPRESSIONS = ("zstd", "snappy", "gzip", "lz4", "brotli", "none")
PARTITIONS: Mapping[str, str] = {
    "topic": "topic",
    "day": "store_timestamp",
    "hour": "store_timestamp",
    "queue": "queue_id",
}
"""Partitions, and the columns from which they are derived."""
BLOOM_FILTERS: Mapping[str, str] = {
    "msg_id": "msg_id",
    "offset_msg_id": "offset_msg_id",
    "keys": "keys.list.element",
}
"""Columns that can have Bloom filters, and their paths in Parquet."""
BODY_TEXT = "body_text"


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout; `columns` None means all.

    `body_text` adds a column with the bodies that are UTF-8, otherwise null.

    With `sort`, the rows of each row group are in the order of `rmqcli.export.output.order`, regardless of
    the cost. `bloom_filters` are the columns that have one in each row group, which lets readers skip it.

    `transform` is applied to rows before they are gathered; it may add columns. With `whole_rows`, files
    contain the topic even if it is in the name of their folder. At most `open_partitions` have an open file;
    the one least recently written is closed for a new one. All of them together buffer at most
    `gathered_bytes` for their row groups; above that, the largest is written early.
    """

    partition_by: tuple[str, ...] = ()
    file_bytes: int = FILE_BYTES
    row_group_bytes: int = ROW_GROUP_BYTES
    compression: str = "zstd"
    columns: tuple[str, ...] | None = None
    body_text: bool = False
    sort: bool = False
    # That of msg_id takes 1 % more CPU time and space; one of keys takes another 2 to 4 % of CPU time.
    bloom_filters: tuple[str, ...] = ("msg_id",)
    transform: Transform = NOTHING
    whole_rows: bool = False
    open_partitions: int = 64
    gathered_bytes: int = 256 * 1024 * 1024

    def check(self) -> None:
        """Raise LayoutError, which lists the choices, for unknown names."""
        _known("--partition-by", self.partition_by, tuple(PARTITIONS))
        _known("--compression", (self.compression,), COMPRESSIONS)
        _known("--bloom-filter", self.bloom_filters, tuple(BLOOM_FILTERS))
        _known("--columns", self.columns or (), tuple(self.every().names))
        if not self.names:
            raise LayoutError("--columns: no columns remain for the files")

    @property
    def names(self) -> list[str]:
        """The columns of the files, in order."""
        every = self.every().names
        wanted = set(every) - {BODY_TEXT} if self.columns is None else set(self.columns)
        wanted |= {BODY_TEXT} if self.body_text else set()
        wanted -= {"topic"} if "topic" in self.partition_by and not self.whole_rows else set()
        return [name for name in every if name in wanted]

    def schema(self, source: str) -> Any:
        import pyarrow as pa

        fields = [self.every().field(name) for name in self.names]
        return pa.schema(fields, {"rmq.source": source, "rmq.version": rmqcli.__version__})

    def every(self) -> Any:
        """Return the schema of all possible columns."""
        import pyarrow as pa

        from rmqcli.codec.scan.arrow import schema

        more = [pa.field(BODY_TEXT, pa.string()), *self.transform.fields]
        return pa.schema([*schema(), *more])

    def shape(self, table: Any) -> Any:
        if BODY_TEXT in self.names:
            table = table.append_column(BODY_TEXT, _texts(table["body"]))
        return table.select([name for name in self.names if name in table.column_names])


EVERYTHING = Layout()


def _known(option: str, given: tuple[str, ...], there: tuple[str, ...]) -> None:
    wrong = next((name for name in given if name not in there), None)
    if wrong is not None:
        raise LayoutError(f"{option} {wrong}: expected one of {', '.join(there)}")
    if len(set(given)) < len(given):
        raise LayoutError(f"{option}: a name is given twice")


def _texts(bodies: Any) -> Any:
    import pyarrow as pa

    try:
        return bodies.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(body) for body in bodies.to_pylist()], pa.string())


def _text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None
