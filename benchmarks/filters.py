"""Ranges of the Spark data source on a store folder: bytes of the log that are read, for each byte of the rows.

No session is needed. The log has 256 MiB, in which ten minutes
of records are 7 MiB.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.export import LOG_BYTES, TOPICS, stored_at, write_store
from benchmarks.harness import Measured
from rmqcli.codec.scan import arrow
from rmqcli.export.spark_source.batch import BatchReader
from rmqcli.export.spark_source.options import read_options
from rmqcli.export.spark_source.rows import Columns, spark_schema
from rmqcli.export.transform.transform import NOTHING


def filters() -> Iterator[Measured]:
    """Read a topic, a range of its offsets, a range of times, and both, of twenty topics."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        count = write_store(store)
        topic = {"subscribe": "Bench7"}
        offsets = {"queueOffsets": f"{count // TOPICS * 19 // 20}:"}
        times = {"startingTimestamp": str(stored_at(count * 19 // 20))}
        cases = (
            (f"a topic of {TOPICS}", topic),
            (f"a topic of {TOPICS}, last 20th of its offsets", topic | offsets),
            ("last 20th of the time", times),
            (f"a topic of {TOPICS}, last 20th of the time", topic | times),
        )
        for name, chosen in cases:
            read, rows = _read(store, chosen)
            size = f"{rows / LOG_BYTES:.2%} of the log"
            yield Measured(
                f"Spark options: {name}, {size}", read / (1 << 20), "MiB", read / rows, "bytes of the rows"
            )


def _read(store: Path, chosen: dict[str, str]) -> tuple[int, int]:
    """Return the bytes of the records that are read, and of the rows."""
    counts: list[int] = []
    make = arrow._batch

    def counting(*arguments: Any) -> Any:
        batch = make(*arguments)
        counts.append(sum(batch["store_size"].to_pylist()))
        return batch

    reader = BatchReader(
        read_options({"path": str(store), **chosen}), Columns.wanted(spark_schema(), NOTHING)
    )
    rows = 0
    with patch.object(arrow, "_batch", counting):
        for partition in reader.partitions():
            rows += sum(sum(batch["store_size"].to_pylist()) for batch in reader.read(partition))
    return sum(counts), rows
