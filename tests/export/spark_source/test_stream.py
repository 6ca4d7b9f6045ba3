"""Topics as streams: checkpoints, restarts, limits, gaps; every message once with an idempotent sink."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import trio
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from rmqcli.broker.testing.embedded import Cluster, embedded_in_thread
from rmqcli.client import Admin
from rmqcli.export import spark_source
from rmqcli.export.spark_source import behind_latest, stream
from rmqcli.export.spark_source.options import read_options
from rmqcli.export.spark_source.planning import DataLoss
from rmqcli.export.spark_source.rows import Columns, spark_schema
from rmqcli.export.spark_source.stream import StreamReader
from tests.export.spark_source.support import Sink, Source, committed, fill, places
from tests.support import PATIENCE

NUMBERED = [b"%d" % number for number in range(200)]


@pytest.fixture
def source(spark: object, cluster: Cluster) -> Source:
    session = SparkSession.builder.getOrCreate()
    spark_source.register(session)
    return Source(session, cluster.namesrv)


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    return Sink(tmp_path / "checkpoint")


def test_a_sink_that_fails_and_restarts(source: Source, sink: Sink) -> None:
    topic, namesrv = "StreamRestart", source.namesrv
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "30"}
    fill(namesrv, topic, NUMBERED[:80])
    sink.fail_in = 1
    with pytest.raises(StreamingQueryException, match="the sink fails in batch 1"):
        sink.run(source.stream(**options))
    seen = dict(sink.batches)
    assert [len(rows) for rows in seen.values()] == [30, 30]
    fill(namesrv, topic, NUMBERED[80:120])
    sink.fail_in = None
    sink.run(source.stream(**options))
    # Batch 1 was repeated unchanged, although there was more by then.
    assert sink.taken == [0, 1, 1, 2, 3]
    assert sorted(sink.batches[1]) == sorted(seen[1])
    assert [len(rows) for rows in sink.batches.values()] == [30, 30, 30, 30]
    assert sink.places == places(4, 0, 30)
    assert {bytes(row.body) for row in sink.rows} == set(NUMBERED[:120])
    fill(namesrv, topic, NUMBERED[120:124])
    sink.run(source.stream(**options))
    assert sink.places == places(4, 0, 31)


def test_a_new_checkpoint_begins_with_what_comes(source: Source, sink: Sink) -> None:
    topic = "StreamLatest"
    fill(source.namesrv, topic, NUMBERED[:8], queues=2)
    sink.run(source.stream(subscribe=topic))
    assert sink.places == []
    fill(source.namesrv, topic, NUMBERED[:6])
    sink.run(source.stream(subscribe=topic))
    assert sink.places == places(2, 4, 7)


def test_queues_that_are_added(source: Source, sink: Sink) -> None:
    """They are read from their beginning, within the limit."""
    topic = "StreamGrows"
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "5"}
    fill(source.namesrv, topic, NUMBERED[:4], queues=2)
    sink.run(source.stream(**options))

    async def grow() -> None:
        async with Admin(namesrv=source.namesrv, timeout=PATIENCE) as admin:
            await admin.topics.update(topic, read_queues=4, write_queues=4)

    trio.run(grow)
    fill(source.namesrv, topic, NUMBERED[:8])
    sink.run(source.stream(**options))
    assert sink.places == sorted([*places(2, 0, 4), (2, 0), (2, 1), (3, 0), (3, 1)])
    assert [len(rows) for rows in sink.batches.values()] == [4, 5, 3]


def test_topics_of_a_pattern_that_appear(source: Source) -> None:
    """They are read from their beginning, although the stream began with what came."""
    old, new = "StreamPatternOld", "StreamPatternNew"
    fill(source.namesrv, old, NUMBERED[:2], queues=1)
    running = reader(source, "", subscribePattern="StreamPattern.*")
    start = running.initialOffset()
    assert start == {old: {"broker-a": {"0": 2}}}
    fill(source.namesrv, new, NUMBERED[:3], queues=1)
    end = running.latestOffset(start, running.getDefaultReadLimit())
    assert end == {**start, new: {"broker-a": {"0": 3}}}
    (partition,) = running.partitions(start, end)
    assert [row for batch in running.read(partition) for row in batch["topic"].to_pylist()] == [new] * 3


def test_topics_that_appear_while_a_query_runs(source: Source, sink: Sink) -> None:
    old, new = "StreamJoinsOld", "StreamJoinsNew"
    fill(source.namesrv, old, NUMBERED[:2], queues=1)
    frame = source.stream(subscribePattern="StreamJoins.*", startingOffsets="earliest")
    writer = frame.writeStream.foreachBatch(sink.take).option("checkpointLocation", str(sink.checkpoint))
    query = writer.trigger(processingTime="100 milliseconds").start()
    try:
        for topics in ({old}, {old, new}):
            end = time.monotonic() + 2 * PATIENCE
            while {row.topic for row in sink.rows} != topics:
                assert query.isActive, query.exception()
                assert time.monotonic() < end
                time.sleep(0.05)
            if new not in topics:
                fill(source.namesrv, new, NUMBERED[:3], queues=1)
    finally:
        query.stop()
    assert sorted((row.topic, row.queue_offset) for row in sink.rows) == [
        *((new, offset) for offset in range(3)),
        *((old, offset) for offset in range(2)),
    ]


def test_offsets_for_lag_tools(source: Source, sink: Sink) -> None:
    topic, group = "StreamGroup", "G_stream"
    fill(source.namesrv, topic, NUMBERED[:20], queues=2)
    options = {"subscribe": topic, "startingOffsets": "earliest", "groupId": group}
    sink.run(source.stream(**options))
    assert committed(source.namesrv, topic, group) == {0: 10, 1: 10}
    # The checkpoint decides where the stream continues, not the group.
    fresh = Sink(sink.checkpoint.with_name("fresh"))
    fresh.run(source.stream(**options))
    assert fresh.places == places(2, 0, 10)


def test_the_progress_tells_the_latest_offsets(source: Source, sink: Sink) -> None:
    topic = "StreamProgress"
    fill(source.namesrv, topic, NUMBERED[:6], queues=2)
    progress = sink.run(source.stream(subscribe=topic, startingOffsets="earliest"))
    (told,) = progress[0]["sources"]
    assert behind_latest(told)["maxOffsetsBehindLatest"] == 0
    assert told["endOffset"] == '{"StreamProgress": {"broker-a": {"0": 3, "1": 3}}}'
    assert told["numInputRows"] == 6


def test_messages_that_retention_took(source: Source, tmp_path: Path) -> None:
    """Between two runs of a query the broker loses its oldest file."""
    settings: dict[str, Any] = {"store": tmp_path / "store", "mapped_file_size_commit_log": 32 * 1024}
    options = {"subscribe": "Gap", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"}
    body = bytes(1000)
    first = Sink(tmp_path / "checkpoint")
    first.fail_in = 0
    with embedded_in_thread(**settings) as running:
        fill(running.namesrv, "Gap", [body] * 100, queues=2)
        with pytest.raises(StreamingQueryException):
            first.run(Source(source.session, running.namesrv).stream(**options))
    files = sorted((tmp_path / "store" / "commitlog").iterdir())
    assert len(files) > 3
    files[0].unlink()
    first.fail_in = None
    with embedded_in_thread(**settings) as running:
        again = Source(source.session, running.namesrv)
        with pytest.raises(StreamingQueryException, match=r"no longer exist; set failOnDataLoss=false"):
            first.run(again.stream(**options))
        first.run(again.stream(**options, failOnDataLoss="false"))
        left = again.batch(subscribe="Gap").count()
    assert 50 < left < 100
    assert len(first.places) == len(set(first.places)) == left
    assert first.places[-1] == (1, 49)


def reader(source: Source, topic: str, **options: str) -> StreamReader:
    named = {"subscribe": topic} if topic else {}
    found = read_options({"namesrv": source.namesrv, **named, **options})
    return StreamReader(found, Columns.wanted(spark_schema()))


def test_a_queue_that_was_made_anew(source: Source) -> None:
    """A topic deleted and created again is shorter than what was read of it."""
    topic = "StreamAnew"
    fill(source.namesrv, topic, NUMBERED[:3], queues=1)
    before = {topic: {"broker-a": {"0": 7}}}
    anew = {topic: {"broker-a": {"0": 3}}}
    limit = reader(source, topic).getDefaultReadLimit()
    with pytest.raises(DataLoss, match="StreamAnew@broker-a:0 was read up to offset 7, but ends at 3"):
        reader(source, topic).latestOffset(before, limit)
    lenient = reader(source, topic, failOnDataLoss="false")
    assert lenient.latestOffset(before, limit) == anew
    (partition,) = lenient.partitions(before, anew)
    (batch,) = lenient.read(partition)
    assert batch["queue_offset"].to_pylist() == [0, 1, 2]
    assert lenient.latestOffset(anew, limit) == anew
    assert lenient.partitions(anew, anew) == []


def test_a_queue_that_is_gone(source: Source, capsys: pytest.CaptureFixture[str]) -> None:
    topic = "StreamGone"
    fill(source.namesrv, topic, NUMBERED[:2], queues=1)
    before = {topic: {"broker-a": {"0": 2, "5": 9}}}
    limit = reader(source, topic).getDefaultReadLimit()
    with pytest.raises(DataLoss, match="StreamGone@broker-a:5 no longer exists; it was read up to offset 9"):
        reader(source, topic).latestOffset(before, limit)
    assert reader(source, topic, failOnDataLoss="false").latestOffset(before, limit) == before
    assert "StreamGone@broker-a:5 no longer exists" in capsys.readouterr().err


def test_what_came_later_is_not_available_now(source: Source) -> None:
    topic = "StreamNow"
    fill(source.namesrv, topic, NUMBERED[:4], queues=2)
    now = reader(source, topic, startingOffsets="earliest")
    now.prepareForTriggerAvailableNow()
    fill(source.namesrv, topic, NUMBERED[:4])
    end = now.latestOffset(now.initialOffset(), now.getDefaultReadLimit())
    assert end == {topic: {"broker-a": {"0": 2, "1": 2}}}
    assert now.reportLatestOffset() == {topic: {"broker-a": {"0": 4, "1": 4}}}


def test_a_batch_waits_for_messages(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """`minOffsetsPerTrigger` holds a batch back, for `maxTriggerDelay` at most; an end that is fixed does not."""
    topic = "StreamWaits"
    clock = [0.0]
    monkeypatch.setattr(stream, "monotonic", lambda: clock[0])
    fill(source.namesrv, topic, NUMBERED[:4], queues=2)
    options = {"minOffsetsPerTrigger": "3", "maxTriggerDelay": "10s", "startingOffsets": "earliest"}
    lazy = reader(source, topic, **options)
    limit = lazy.getDefaultReadLimit()
    start = lazy.initialOffset()
    before = lazy.latestOffset(start, limit)
    assert before == {topic: {"broker-a": {"0": 2, "1": 2}}}
    fill(source.namesrv, topic, NUMBERED[:2])
    clock[0] = 9.9
    assert lazy.latestOffset(before, limit) == before
    clock[0] = 10
    after = {topic: {"broker-a": {"0": 3, "1": 3}}}
    assert lazy.latestOffset(before, limit) == after
    fill(source.namesrv, topic, NUMBERED[:2])
    assert lazy.latestOffset(after, limit) == after
    assert lazy.latestOffset(after, ReadAllAvailable()) == {topic: {"broker-a": {"0": 4, "1": 4}}}
    assert lazy.latestOffset(before, limit) == {topic: {"broker-a": {"0": 4, "1": 4}}}
    both = reader(source, topic, **options, maxOffsetsPerTrigger="3")
    both.triggered = 10
    assert both.latestOffset(after, both.getDefaultReadLimit()) == after
    both.prepareForTriggerAvailableNow()
    assert both.latestOffset(after, both.getDefaultReadLimit()) == {topic: {"broker-a": {"0": 4, "1": 4}}}


def test_a_commit_that_fails_is_only_said(source: Source, capsys: pytest.CaptureFixture[str]) -> None:
    idle = reader(source, "StreamCommit", groupId="G_stream")
    idle.commit({"NoSuchTopicHere": {"broker-z": {"0": 1}}})
    assert "rmq: the offsets of group G_stream were not committed: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"subscribe": "T", "endingOffsets": "latest"}, "a stream has no end"),
        ({"path": "/store"}, "a stream reads topics"),
    ],
)
def test_what_is_for_batches(source: Source, sink: Sink, options: dict[str, str], text: str) -> None:
    named = options if "path" in options else {"namesrv": source.namesrv, **options}
    with pytest.raises(PySparkException, match=text):
        sink.run(source.session.readStream.format("rocketmq").options(**named).load())
