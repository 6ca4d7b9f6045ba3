"""Options decide what is read: bytes that are read, as a share of the bytes of the rows. A reader is asked as Spark asks it, without a session; what it reads is counted where it is read."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rmqcli.broker.testing.embedded import Cluster, embedded_in_thread
from rmqcli.client import PullConsumer
from rmqcli.export.from_store.row_filter import RowFilter
from rmqcli.export.from_topic.ranges import SAMPLE
from rmqcli.export.spark_source import batch
from rmqcli.export.spark_source.batch import BatchReader
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


def over(options: dict[str, str], counts: list[int]) -> tuple[int, int, int]:
    """Returns the number of rows, their bytes, and bytes that were read besides these."""
    counts.clear()
    chosen = read_options(options)
    reader = BatchReader(chosen, Columns.wanted(spark_schema(), chosen.transform()))
    batches = (found for partition in reader.partitions() for found in reader.read(partition))
    sizes = [size for found in batches for size in found["store_size"].to_pylist()]
    return len(sizes), sum(sizes), sum(counts) - sum(sizes)


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"subscribe": "SeedTags"}, 300),
        ({"subscribe": "SeedTags,SeedNormal"}, 1800),
        ({"subscribe": "SeedTags", "queueId": "1"}, 75),
        ({"subscribe": "SeedTags", "queueOffsets": "70:"}, 20),
        ({"subscribe": "SeedTags", "queueId": "1", "queueOffsets": "7:8"}, 1),
        ({"subscribe": "SeedTags", "queueId": "9"}, 0),
    ],
)
def test_a_store(store_clean: JavaStore, bytes_read: list[int], options: dict[str, str], rows: int) -> None:
    """Besides the rows, a record behind the queues is looked at."""
    found, size, more = over({"path": str(store_clean.root)}, bytes_read)
    assert (found, more > -size // 2) == (3090, True), "the count sees a walk"
    found, size, more = over({"path": str(store_clean.root), **options}, bytes_read)
    assert found == rows
    assert 0 <= more < 1000


def test_times_of_a_store(tmp_path: Path, bytes_read: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """On either side ten minutes more are read, and what lies between two samples."""
    monkeypatch.setattr(batch, "RowFilter", partial(RowFilter, sample_bytes=4000))
    write_timed(tmp_path, [NOW + number * MINUTE for number in range(3000)])
    begin, end = NOW + 2000 * MINUTE, NOW + 2200 * MINUTE
    bounds = {"startingTimestamp": str(begin), "endingTimestamp": str(end)}
    found, size, more = over({"path": str(tmp_path), **bounds}, bytes_read)
    assert found == 200
    assert 0 <= more <= 20 * size / 200 + 2 * 4000


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({}, 400),
        ({"queueId": "2"}, 100),
        ({"queueOffsets": "90:"}, 40),
        ({"queueOffsets": ":3"}, 12),
        ({"queueId": "2", "queueOffsets": "7:8"}, 1),
    ],
)
def test_topics(filled: str, pulled: list[int], options: dict[str, str], rows: int) -> None:
    """Besides the rows, a pull shows the size of the topic's messages; no other topic is pulled."""
    found, size, more = over({"namesrv": filled, "subscribe": TOPIC, **options}, pulled)
    assert found == rows
    assert 0 < more <= min(rows, SAMPLE) * (size // rows + 1)


def test_times_of_topics(pulled: list[int]) -> None:
    """Besides the rows, a pull of 32 messages at either end of each queue, and one that shows their size."""
    with embedded_in_thread() as cluster:
        for _ in range(3):
            fill(cluster.namesrv, TOPIC, (b"%0100d" % number for number in range(400)))
            cluster.advance("1h")
        hours = [int(time.time() * 1000) + hour * 60 * MINUTE + 30 * MINUTE for hour in (0, 1)]
        bounds = {"startingTimestamp": str(hours[0]), "endingTimestamp": str(hours[1])}
        found, size, more = over({"namesrv": cluster.namesrv, "subscribe": TOPIC, **bounds}, pulled)
    assert found == 400
    assert 0 < more <= (2 * 4 * 32 + SAMPLE) * (size // 400 + 1)
