"""Times exports to Parquet in one Spark session: `python -m benchmarks.spark_session export|plain MASTER
STORE`.

The row-based source is a Python data source without Arrow, with one tuple per message. Both sides read the
same parts, check CRCs and compress with zstd, level 1.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from benchmarks.harness import best_of
from rmqcli.codec.core.walk import Walk
from rmqcli.codec.records.reading import decode_record
from rmqcli.export import RowFilter, export_store_on_spark, spark_source
from rmqcli.export.from_store.parts import Part, parts_of
from rmqcli.export.packing import TASK_BYTES
from rmqcli.export.spark.session import spark_session
from rmqcli.export.spark_source.rows import spark_schema
from rmqcli.store.read.commit_log import next_record
from rmqcli.store.read.files import NamedFile, mapped

ONE_TOPIC = "Bench7"
_MOMENTS = frozenset({"born_timestamp", "store_timestamp"})
SETTINGS = {
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.hadoop.parquet.compression.codec.zstd.level": "1",
    "spark.sql.session.timeZone": "UTC",
}


@dataclass(frozen=True)
class RowPartition(InputPartition):
    part: Part


class RowReader(DataSourceReader):
    def __init__(self, path: str) -> None:
        self.path = path

    def partitions(self) -> list[InputPartition]:
        return [RowPartition(part) for part in parts_of(Path(self.path), RowFilter(), TASK_BYTES)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        from datetime import UTC, datetime, timedelta

        assert isinstance(partition, RowPartition)
        part = partition.part
        file = NamedFile(Path(part.path), part.base, part.size)
        names, epoch = spark_schema().names, datetime(1970, 1, 1, tzinfo=UTC)
        with mapped(file) as data:
            begin = 0 if part.begin == 0 else next_record(file, data, part.begin, part.end)
            walk = Walk(data, -1 if part.base is None else part.base, begin or 0, part.end)
            while walk.next():
                message = decode_record(data, walk.position, check_crc=True, decompress=True)
                yield tuple(
                    epoch + timedelta(milliseconds=getattr(message, name))
                    if name in _MOMENTS
                    else getattr(message, name)
                    for name in names
                )


class RowSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "rows"

    def schema(self) -> Any:
        return spark_schema()

    def reader(self, schema: Any) -> RowReader:
        return RowReader(self.options["path"])


def export(master: str, store: Path) -> None:
    """Export once for each line of standard input, and print seconds and rows."""
    out = store.with_name(f"out-{master}")
    with spark_session(master):
        for _ in sys.stdin:
            started = time.perf_counter()
            rows = export_store_on_spark(store, out, RowFilter()).rows
            seconds = time.perf_counter() - started
            # Synced now, or the kernel would write it while the other session works.
            shutil.rmtree(out)
            print(json.dumps([seconds, rows]), flush=True)


def plain(master: str, store: Path) -> None:
    """Print the seconds of `df.write.parquet` of our source and of the row-based one, and their rows.

    The JVM works here, too, with both of its compilers.
    """
    out = str(store.with_name("plain"))
    with spark_session(master, {**SETTINGS, "spark.driver.defaultJavaOptions": ""}) as spark:
        spark_source.register(spark)
        spark.dataSource.register(RowSource)

        def write(name: str) -> None:
            spark.read.format(name).load(str(store)).write.mode("overwrite").parquet(out)

        write("rocketmq")
        arrow, rows = best_of(lambda: write("rocketmq"), lambda: write("rows"), rounds=1)
        print(json.dumps([arrow, rows, spark.read.parquet(out).count()]))


def topics(master: str, store: Path) -> None:
    """Print the seconds of exports of all topics and of one, and of counts of all rows and of one
    topic's.
    """
    out = store.with_name("out-topics")
    with spark_session(master) as spark:
        spark_source.register(spark)

        def write(rows: RowFilter) -> None:
            shutil.rmtree(out, ignore_errors=True)
            export_store_on_spark(store, out, rows)

        def count(**options: str) -> None:
            frame = spark.read.format("rocketmq").options(**options).load(str(store))
            frame.agg({"queue_offset": "max", "body_crc": "max"}).collect()

        one = frozenset({ONE_TOPIC})
        count()
        write(RowFilter())
        print(
            json.dumps(
                best_of(
                    lambda: write(RowFilter()),
                    lambda: write(RowFilter(topics=one)),
                    count,
                    lambda: count(subscribe=ONE_TOPIC),
                    rounds=3,
                )
            )
        )


WAYS = {"export": export, "plain": plain, "topics": topics}

if __name__ == "__main__":
    WAYS[sys.argv[1]](sys.argv[2], Path(sys.argv[3]))
