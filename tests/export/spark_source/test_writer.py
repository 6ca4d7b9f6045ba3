"""Data frames to topics, in a batch and as a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from broker.testing.embedded import Cluster
from rmqcli.client import ClientError
from rmqcli.export import ExportError, spark_source
from rmqcli.export.spark_source.options import write_options
from rmqcli.export.spark_source.outages import Outage
from rmqcli.export.spark_source.writer import BATCH_MESSAGES, RowSender
from tests.export.spark_source.support import Source, fill, pulled


@pytest.fixture
def source(spark: object, cluster: Cluster) -> Source:
    session = SparkSession.builder.getOrCreate()
    spark_source.register(session)
    return Source(session, cluster.namesrv)


def write(source: Source, frame: DataFrame, mode: str = "append", **options: str) -> None:
    frame.write.format("rocketmq").mode(mode).options(namesrv=source.namesrv, **options).save()


def test_every_column(source: Source) -> None:
    for topic in ("WriteOne", "WriteTwo"):
        fill(source.namesrv, topic, [])
    rows: list[Any] = [
        ("WriteOne", bytearray(b"\xff\x00"), "tag", ["k1", "k2"], {"a": "ä", "none": None}),
        ("WriteOne", bytearray(b"x" * 9000), None, None, None),
        (None, bytearray(b"default"), "t", [], {"DELAY": "1"}),
    ]
    columns = "topic string, body binary, tags string, keys array<string>, properties map<string,string>"
    write(source, source.session.createDataFrame(rows, columns), topic="WriteTwo")
    first, second = sorted(pulled(source.namesrv, "WriteOne"), key=lambda message: len(message.body))
    assert (first.body, first.tags, first.keys, first.properties["a"]) == (
        b"\xff\x00",
        "tag",
        ["k1", "k2"],
        "ä",
    )
    assert "none" not in first.properties
    assert (second.body, second.tags, second.keys, second.sys_flag & 1) == (b"x" * 9000, None, [], 1)


def test_texts_and_many(source: Source) -> None:
    fill(source.namesrv, "WriteMany", [])
    frame = source.session.range(0, 3000, numPartitions=3).selectExpr(
        "cast(id as string) body", "concat('k', id) keys"
    )
    write(source, frame, topic="WriteMany")
    messages = pulled(source.namesrv, "WriteMany")
    assert sorted(int(message.body) for message in messages) == list(range(3000))
    assert all(message.keys == [f"k{message.body.decode()}"] for message in messages)


def test_a_stream_from_topic_to_topic(source: Source, tmp_path: Path) -> None:
    fill(source.namesrv, "WriteFrom", (b"%d" % number for number in range(50)))
    fill(source.namesrv, "WriteTo", [])

    def run() -> None:
        frame = source.stream(subscribe="WriteFrom", startingOffsets="earliest", maxOffsetsPerTrigger="20")
        writer = frame.selectExpr("concat('<', cast(body as string), '>') body", "tags").writeStream
        writer = writer.format("rocketmq").options(namesrv=source.namesrv, topic="WriteTo")
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        query.awaitTermination()

    run()
    fill(source.namesrv, "WriteFrom", (b"%d" % number for number in range(50, 60)))
    run()
    bodies = sorted(message.body for message in pulled(source.namesrv, "WriteTo"))
    assert bodies == sorted(b"<%d>" % number for number in range(60))


@pytest.mark.parametrize(
    ("columns", "options", "text"),
    [
        ("'b' body", {}, "there is neither a column topic nor the option topic"),
        ("'T' topic", {}, "column body is missing"),
        ("'b' body, 1 queue_id", {"topic": "T"}, "column queue_id is not written; select from body, topic"),
        ("1 body", {"topic": "T"}, "column body is int: expected binary or string"),
        ("'b' body", {"topic": "T", "retries": "1"}, "retries: unknown option"),
        ("cast(null as string) body", {"topic": "T"}, "a row has no body"),
        ("'b' body, cast(null as string) topic", {}, "a row has no topic"),
        ("'' body", {"topic": "T"}, "body"),
    ],
)
def test_what_makes_no_message(source: Source, columns: str, options: dict[str, str], text: str) -> None:
    frame = source.session.sql(f"select {columns}")
    with pytest.raises(PySparkException) as caught:
        write(source, frame, **options)
    assert text in str(caught.value)


def test_topics_are_not_overwritten(source: Source) -> None:
    with pytest.raises(PySparkException, match="a topic cannot be overwritten"):
        write(source, source.session.sql("select 'b' body"), mode="overwrite", topic="T")


def sender(**options: str) -> RowSender:
    return RowSender(write_options({"namesrv": "127.0.0.1:1", "topic": "T", **options}))


def test_rows_travel_together() -> None:
    """Rows with a delay level, of a retry topic, or large enough to be compressed are sent alone."""
    count = BATCH_MESSAGES + 10
    delayed: list[Any] = [[("DELAY", "2")], *([[]] * (count - 1))]
    batch = pa.record_batch(
        {
            "body": pa.array([b"x"] * (count - 2) + [b"y" * 5000, b"z"], pa.binary()),
            "topic": ["T", *(["T", "U"] * (count // 2 - 1)), "%RETRY%G"],
            "properties": pa.array(delayed, pa.map_(pa.string(), pa.string())),
        }
    )
    packets = list(sender().packets(batch))
    assert [len(packet) for packet in packets[:3]] == [1, 1, 1]
    assert all(len({message.topic for message in packet}) == 1 for packet in packets)
    assert sum(map(len, packets)) == count
    assert len(packets) == 5
    wider = sender(**{"rocketmq.compressOver": "10000"})
    assert [len(packet) for packet in wider.packets(batch)][:2] == [1, 1]
    assert len(list(wider.packets(batch))) == 4


def test_a_packet_is_bounded() -> None:
    batch = pa.record_batch({"body": pa.array([b"x"] * (2 * BATCH_MESSAGES + 1), pa.binary())})
    assert [len(packet) for packet in sender().packets(batch)] == [BATCH_MESSAGES, BATCH_MESSAGES, 1]


def test_no_broker() -> None:
    quick = {"fetchOffset.numRetries": "1", "fetchOffset.retryIntervalMs": "1"}
    with pytest.raises(Outage, match=r"cannot connect to name server 127\.0\.0\.1:1: .*; 1 more attempt in"):
        sender(**quick).send(iter([pa.record_batch({"body": ["x"]})]))


def test_a_send_that_is_refused(cluster: Cluster) -> None:
    """The error is a plain one, whatever the other requests were doing."""
    refused = sender(namesrv=cluster.namesrv, topic="SCHEDULE_TOPIC_XXXX")
    rows = pa.record_batch({"body": pa.array([b"x"] * 3 * BATCH_MESSAGES, pa.binary())})
    with pytest.raises(ClientError):
        refused.send(iter([rows]))


def test_a_row_without_a_body() -> None:
    with pytest.raises(ExportError, match="a row has no body"):
        list(sender().messages(pa.record_batch({"body": pa.array([None], pa.string())})))
