"""Filters that are pushed, and options, decide what is read: bytes that are read, as a share of the bytes of the
rows. A reader is asked as Spark asks it, without a session; what it reads is counted where it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import datasource as spark

from rmqcli.broker.testing.embedded import Cluster
from rmqcli.client import PullConsumer
from rmqcli.export.from_store.row_filter import RowFilter
from rmqcli.export.from_topic.ranges import SAMPLE
from rmqcli.export.spark_source import batch
from rmqcli.export.spark_source.batch import FilteringReader
from rmqcli.export.spark_source.options import read_options
from rmqcli.export.spark_source.rows import Columns, spark_schema
from tests.export.spark_source.support import fill
from tests.export.support import NOW, write_timed
from tests.support import JavaStore

MINUTE = 60_000
TOPIC = "SourceShare"


@pytest.fixture(scope="module")
def filled(cluster: Cluster) -> str:
    """Sends 400 messages to 4 queues."""
    fill(cluster.namesrv, TOPIC, (b"%0100d" % number for number in range(400)))
    fill(cluster.namesrv, TOPIC + "Other", (b"%0100d" % number for number in range(100)))
    return cluster.namesrv


@pytest.fixture
def pulled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the stored bytes of the messages that brokers return."""
    counts: list[int] = []
    pull = PullConsumer.pull

    async def counting(*arguments: Any, **options: Any) -> Any:
        result = await pull(*arguments, **options)
        counts.extend(message.store_size for message in result.messages)
        return result

    monkeypatch.setattr(PullConsumer, "pull", counting)
    return counts


def read(options: dict[str, str], *filters: Any) -> Iterator[Any]:
    """Yields the batches that pass; all filters are taken."""
    reader = FilteringReader(
        read_options(options), Columns.wanted(spark_schema(), read_options(options).transform())
    )
    assert list(reader.pushFilters(list(filters))) == []
    for partition in reader.partitions():
        yield from reader.read(partition)


def over(options: dict[str, str], filters: list[Any], counts: list[int]) -> tuple[int, int, int]:
    """Returns the number of rows, their bytes, and bytes that were read besides these."""
    counts.clear()
    sizes = [size for found in read(options, *filters) for size in found["store_size"].to_pylist()]
    return len(sizes), sum(sizes), sum(counts) - sum(sizes)


def at(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


IN_TOPIC = spark.EqualTo(("topic",), "SeedTags")


@pytest.mark.parametrize(
    ("filters", "rows"),
    [
        ([IN_TOPIC], 300),
        ([spark.In(("topic",), ("SeedTags", "SeedNormal"))], 1800),
        ([IN_TOPIC, spark.EqualTo(("queue_id",), 1)], 75),
        ([IN_TOPIC, spark.In(("queue_id",), (1, 3))], 150),
        ([IN_TOPIC, spark.GreaterThan(("queue_id",), 2)], 75),
        ([IN_TOPIC, spark.GreaterThanOrEqual(("queue_offset",), 70)], 20),
        ([IN_TOPIC, spark.EqualTo(("queue_id",), 1), spark.EqualTo(("queue_offset",), 7)], 1),
        ([IN_TOPIC, spark.In(("queue_offset",), (7, 8))], 8),
    ],
)
def test_a_store(store_clean: JavaStore, bytes_read: list[int], filters: list[Any], rows: int) -> None:
    """Besides the rows, a record behind the queues is looked at."""
    found, size, more = over({"path": str(store_clean.root)}, [], bytes_read)
    assert (found, more > -size // 2) == (3090, True), "the count sees a walk"
    found, size, more = over({"path": str(store_clean.root)}, filters, bytes_read)
    assert found == rows
    assert 0 <= more < 1000


@pytest.mark.parametrize("way", ["options", "filters"])
def test_times_of_a_store(
    tmp_path: Path, bytes_read: list[int], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """On either side ten minutes more are read, and what lies between two samples."""
    monkeypatch.setattr(batch, "RowFilter", partial(RowFilter, sample_bytes=4000))
    write_timed(tmp_path, [NOW + number * MINUTE for number in range(3000)])
    begin, end = NOW + 2000 * MINUTE, NOW + 2200 * MINUTE
    options, filters = {"path": str(tmp_path)}, list[Any]()
    if way == "options":
        options |= {"startingTimestamp": str(begin), "endingTimestamp": str(end)}
    else:
        filters = [
            spark.GreaterThanOrEqual(("store_timestamp",), at(begin)),
            spark.LessThan(("store_timestamp",), at(end)),
        ]
    found, size, more = over(options, filters, bytes_read)
    assert found == 200
    assert 0 <= more <= 20 * size / 200 + 2 * 4000


@pytest.mark.parametrize(
    ("filters", "rows"),
    [
        ([], 400),
        ([spark.EqualTo(("queue_id",), 2)], 100),
        ([spark.In(("queue_id",), (0, 2))], 200),
        ([spark.GreaterThanOrEqual(("queue_offset",), 90)], 40),
        ([spark.EqualTo(("queue_id",), 2), spark.EqualTo(("queue_offset",), 7)], 1),
    ],
)
def test_topics(filled: str, pulled: list[int], filters: list[Any], rows: int) -> None:
    """Besides the rows, a pull shows the size of the topic's messages; no other topic is pulled."""
    options = {"namesrv": filled, "subscribe": f"{TOPIC},{TOPIC}Other"}
    found, size, more = over(options, [spark.EqualTo(("topic",), TOPIC), *filters], pulled)
    assert found == rows
    assert 0 < more <= min(rows, SAMPLE) * (size // rows + 1)
