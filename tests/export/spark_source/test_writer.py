"""Data frames to topics, in a batch and as a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from rmqcli.broker.testing.embedded import Cluster
from rmqcli.client import ClientError, by_hash
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.export import ExportError, spark_source
from rmqcli.export.spark_source.options import write_options
from rmqcli.export.spark_source.outages import Outage
from rmqcli.export.spark_source.rows import outgoing
from rmqcli.export.spark_source.writer import BATCH_MESSAGES, RowSender
from tests.export.spark_source.support import Source, fill, pulled, says


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
    ]
    columns = "topic string, body binary, tags string, keys array<string>, properties map<string,string>"
    write(source, source.session.createDataFrame(rows, columns))
    # As in Kafka's sink, the option takes precedence over the column.
    rows = [
        (None, bytearray(b"default"), "t", [], {"DELAY": "1"}),
        ("WriteOne", bytearray(b"elsewhere"), None, None, None),
    ]
    write(source, source.session.createDataFrame(rows, columns), topic="WriteTwo")
    assert b"elsewhere" in [message.body for message in pulled(source.namesrv, "WriteTwo")]
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
        ("'b' body, 1 queue", {"topic": "T"}, "column queue is not written; select from body, topic"),
        ("'b' body, 'a' broker_name", {"topic": "T"}, "column broker_name needs a column queue_id"),
        ("'b' body, 'x' queue_id", {"topic": "T"}, "column queue_id is string: expected int or bigint"),
        ("'b' body", {"topic": "T", "reservedProperties": "keep"}, "expected error or drop"),
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
    assert says(caught.value, text)


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
    packets = packed(batch)
    assert sorted(map(len, packets))[:3] == [1, 1, 1]
    assert all(len({message.topic for message in packet}) == 1 for packet in packets)
    assert sum(map(len, packets)) == count
    assert len(packets) == 5
    wider = packed(batch, **{"rocketmq.compressOver": "10000"})
    assert sorted(map(len, wider))[:2] == [1, 1]
    assert len(wider) == 4


def packed(batch: pa.RecordBatch, **options: str) -> list[list[Message]]:
    """Returns the messages of each request for rows that want no queue."""
    found = RowSender(write_options({"namesrv": "127.0.0.1:1", **options}))
    series = found.packets(outgoing(batch, found.options), {})
    assert all(len(packets) == 1 and packets[0].queue is None for packets in series)
    return [packets[0].messages for packets in series]


def test_a_packet_is_bounded() -> None:
    batch = pa.record_batch({"body": pa.array([b"x"] * (2 * BATCH_MESSAGES + 1), pa.binary())})
    assert sorted(map(len, packed(batch, topic="T"))) == [1, BATCH_MESSAGES, BATCH_MESSAGES]


QUEUES = [MessageQueue("T", broker, number) for broker in ("a", "b") for number in range(4)]


def test_rows_of_a_queue_keep_their_order() -> None:
    """Those that are sent alone, too: a delayed one stands between two batches."""
    keys = [f"k{number % 7}" for number in range(3000)]
    delays = [1 if number % 500 == 250 else None for number in range(3000)]
    batch = pa.record_batch(
        {
            "body": [str(number) for number in range(3000)],
            "ordering_key": keys,
            "delay_level": pa.array(delays, pa.int32()),
        }
    )
    found = sender()
    series = found.packets(outgoing(batch, found.options), {"T": QUEUES})
    assert len(series) == len({packets[0].queue for packets in series}) <= 7
    for packets in series:
        assert len({packet.queue for packet in packets}) == 1
        numbers = [int(message.body) for packet in packets for message in packet.messages]
        assert numbers == sorted(numbers)
    chosen = {
        message.body: packet.queue for packets in series for packet in packets for message in packet.messages
    }
    assert all(chosen[str(n).encode()] == by_hash(keys[n])(QUEUES, Message.of("T")) for n in range(3000))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"body": "b", "tags": "a || b"}, r"tags 'a \|\| b': a message has one tag"),
        (
            {"body": "b", "properties": [("TRAN_MSG", "true")]},
            "reserves the name TRAN_MSG; reservedProperties=drop",
        ),
        ({"body": "b", "ordering_key": "k", "queue_id": 1}, "an ordering_key and a queue_id"),
        ({"body": "b", "broker_name": "a"}, "a broker_name, but no queue_id"),
        ({"body": "b", "queue_id": 9}, "topic T has no writable queue 9"),
        ({"body": "b", "queue_id": 3}, "queue 3 of topic T is on a, b: name the broker_name"),
        ({"body": "b", "queue_id": 3, "broker_name": "c"}, "topic T has no writable queue 3 on c"),
        ({"body": None}, "a row has no body"),
    ],
)
def test_rows_that_are_no_message(row: dict[str, Any], reason: str) -> None:
    found = sender()
    with pytest.raises(ExportError, match=reason):
        found.packets(outgoing(record_batch(row), found.options), {"T": QUEUES})


def record_batch(row: dict[str, Any]) -> pa.RecordBatch:
    types = {"properties": pa.map_(pa.string(), pa.string()), "queue_id": pa.int32(), "body": pa.string()}
    columns = {name: pa.array([value], types.get(name, pa.string())) for name, value in row.items()}
    return pa.record_batch(columns)


def test_reserved_properties_are_dropped_if_wanted() -> None:
    given = [("TRAN_MSG", "true"), ("MSG_REGION", "r"), ("a", "1"), ("DELAY", "2")]
    row = record_batch({"body": "b", "properties": given, "queue_id": 1, "broker_name": "b"})
    options = sender(reservedProperties="drop").options
    ((message, place),) = outgoing(row, options)
    assert message.properties == {"a": "1", "DELAY": "2"}
    assert place is not None
    assert place.queue(QUEUES, message) == MessageQueue("T", "b", 1)


def test_rows_arrive_at_their_queues(source: Source) -> None:
    fill(source.namesrv, "WritePlaced", [], queues=4)
    frame = source.session.range(0, 400, numPartitions=1).selectExpr(
        "cast(id as string) body",
        "if(id % 2 = 0, concat('k', id % 6), null) ordering_key",
        "if(id % 2 = 0, null, 3) queue_id",
    )
    write(source, frame, topic="WritePlaced")
    found: dict[int, list[int]] = {}
    for message in sorted(pulled(source.namesrv, "WritePlaced"), key=lambda one: one.queue_offset):
        found.setdefault(message.queue_id, []).append(int(message.body))
    assert set(range(1, 400, 2)) <= set(found[3])
    by_key = [number for numbers in found.values() for number in numbers if number % 6 == 2]
    assert by_key == list(range(2, 400, 6))
    assert [number for number in found[3] if number % 2] == list(range(1, 400, 2))


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
