"""A trial of the data source with the installed Spark: `python -m tests.export.spark_source.tried classic|connect`.

It writes and reads a topic, by data frames and SQL, and streams it to files, or is told which Spark has streams.
With `connect`, the session is a client of a Spark Connect server, which it starts.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pyspark.errors
from pyspark.sql import SparkSession

from rmqcli.broker.testing.embedded import embedded_in_thread
from rmqcli.export import spark_source

HAS_STREAMS = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)
ROWS = [("paid", "o-1", "19.90"), ("open", "o-2", "7.50")]


def main(way: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder: Any = SparkSession.builder
    builder = builder.remote("local[2]") if way == "connect" else builder.master("local[2]")
    spark = builder.getOrCreate()
    try:
        with embedded_in_thread() as cluster, tempfile.TemporaryDirectory() as folder:
            spark.dataSource.register(spark_source.RocketMQ)
            try_batches(spark, cluster.namesrv)
            try_stream(spark, cluster.namesrv, Path(folder))
    finally:
        spark.stop()
    print(f"Spark {pyspark.__version__}, {way}: batches, SQL{', streams' if HAS_STREAMS else ''}")


def try_batches(spark: Any, namesrv: str) -> None:
    options = {"namesrv": namesrv, "topic": "orders"}
    rows = spark.createDataFrame(ROWS, "tags string, keys string, body string")
    rows.write.format("rocketmq").options(**options).mode("append").save()
    frame = spark.read.format("rocketmq").options(**options).load()
    columns = ("tags", "keys[0]", "cast(body as string)")
    assert sorted(map(tuple, frame.selectExpr(*columns).collect())) == sorted(ROWS)
    paid, opened = (frame.where(f"tags = '{tag}'") for tag in ("paid", "open"))
    assert (paid.union(opened).count(), frame.count()) == (2, 2)
    view = f"OPTIONS (namesrv '{namesrv}', topic 'orders')"
    spark.sql(f"CREATE TEMPORARY VIEW bodies (body binary) USING rocketmq {view}")
    spark.sql("INSERT INTO bodies SELECT cast('3' as binary)")
    assert spark.sql("SELECT count(*) n FROM bodies").collect()[0].n == 3
    wrong = spark.read.format("rocketmq").options(**options, subscripe="orders")
    message = failure(lambda: wrong.load().schema)  # Connect analyses no earlier
    assert "subscripe: unknown option; did you mean subscribe?" in message


def try_stream(spark: Any, namesrv: str, folder: Path) -> None:
    reader = spark.readStream.format("rocketmq").options(namesrv=namesrv, subscribe="orders")
    frame = reader.option("startingOffsets", "earliest").load()

    def run() -> int:
        writer = frame.writeStream.format("parquet").option("path", str(folder / "data"))
        writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
        writer.start().awaitTermination()
        return int(spark.read.parquet(str(folder / "data")).count())

    if HAS_STREAMS:
        assert [run(), run()] == [3, 3]
    else:
        assert f"streams need Spark 4.2 or later; this is {pyspark.__version__}" in failure(run)


def failure(call: Callable[[], object]) -> str:
    try:
        call()
    except pyspark.errors.PySparkException as error:
        return str(error)
    raise AssertionError


if __name__ == "__main__":
    main(sys.argv[1])
