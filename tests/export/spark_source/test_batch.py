"""Topics and store folders as tables, on the one session of the run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import EqualTo, Filter
from pyspark.sql.types import StructType

from rmqcli.broker.testing.embedded import Cluster, embedded_in_thread
from rmqcli.export import spark_source
from rmqcli.export.spark_source.batch import BatchReader
from rmqcli.export.spark_source.options import read_options
from rmqcli.export.spark_source.planning import DataLoss
from rmqcli.export.spark_source.rows import Columns, spark_schema
from rmqcli.export.spark_source.source import RocketMQ
from tests.export.spark_source.support import Place, Source, fill, places, pulled, says
from tests.export.support import NOW, harm_another_topic, java_rows, write_timed
from tests.support import COMMIT_LOG_FILE_SIZE, JavaStore

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def source(spark: object, cluster: Cluster) -> Source:
    session = SparkSession.builder.getOrCreate()
    spark_source.register(session)
    return Source(session, cluster.namesrv)


@pytest.fixture(scope="module")
def filled(cluster: Cluster) -> str:
    """Sends 100 messages to 4 queues, 25 each."""
    fill(cluster.namesrv, "SourceBatch", (b"body %d" % number for number in range(100)))
    return "SourceBatch"


@pytest.fixture
def pushdown(source: Source) -> Iterator[Source]:
    source.session.conf.set(PUSHDOWN, "true")
    yield source
    source.session.conf.unset(PUSHDOWN)


class Pushing(RocketMQ):
    """The source, with filters on the queue accepted as Spark offers them."""

    @classmethod
    def name(cls) -> str:
        return "pushing"

    def reader(self, schema: StructType) -> BatchReader:
        class Reader(BatchReader):
            def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
                for item in filters:
                    if isinstance(item, EqualTo) and item.attribute == ("queue_id",):
                        self.options = replace(self.options, queue_id=item.value)
                    yield item

        options = read_options(self.options)
        return Reader(options, Columns.wanted(schema, options.transform()))


def found(source: Source, **options: str) -> list[Place]:
    rows = source.batch(**options).select("queue_id", "queue_offset").collect()
    return sorted((row.queue_id, row.queue_offset) for row in rows)


def test_every_column(source: Source, filled: str) -> None:
    frame = source.batch(subscribe=filled)
    assert frame.rdd.getNumPartitions() == 1
    rows = sorted(frame.collect(), key=lambda row: row.commit_log_offset)
    messages = sorted(pulled(source.namesrv, filled), key=lambda message: message.commit_log_offset)
    assert len(rows) == len(messages) == 100
    for row, message in zip(rows, messages, strict=True):
        for name in set(frame.columns) - {"born_timestamp", "store_timestamp"}:
            assert getattr(row, name) == getattr(message, name), name
        assert round(row.store_timestamp.timestamp() * 1000) == message.store_timestamp
        assert round(row.born_timestamp.timestamp() * 1000) == message.born_timestamp


def test_ranges_of_offsets(source: Source, filled: str) -> None:
    def named(begins: list[int]) -> str:
        return json.dumps({filled: {"broker-a": {str(n): begin for n, begin in enumerate(begins)}}})

    start, end = named([20, -2, 25, 24]), named([-1, 3, 25, 25])
    assert found(source, subscribe=filled, startingOffsets=start, endingOffsets=end) == [
        *((0, offset) for offset in range(20, 25)),
        *((1, offset) for offset in range(3)),
        (3, 24),
    ]


def test_nothing_is_there(source: Source, filled: str) -> None:
    offsets = json.dumps({filled: {"broker-a": dict.fromkeys("0123", 25)}})
    assert found(source, subscribe=filled, startingOffsets=offsets) == []


def test_a_start_behind_the_end(source: Source, filled: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As after a topic was deleted and created again: messages between are lost, not read already."""
    offsets = json.dumps({filled: {"broker-a": {"0": 0, "1": 26, "2": 25, "3": 25}}})
    options = {"namesrv": source.namesrv, "subscribe": filled, "startingOffsets": offsets}

    def partitions(**more: str) -> int:
        return len(
            BatchReader(read_options({**options, **more}), Columns.wanted(spark_schema())).partitions()
        )

    with pytest.raises(
        DataLoss, match="SourceBatch@broker-a:1 starts at 26, but ends at 25; set failOnDataLoss"
    ):
        partitions()
    assert partitions(failOnDataLoss="false") == 1
    assert "SourceBatch@broker-a:1 starts at 26, but ends at 25" in capsys.readouterr().err
    assert partitions(endingTimestamp="1") == 0


def test_tables_of_sql(source: Source, filled: str) -> None:
    """A view has its options; a table needs them in each query, because Spark does not hand its own on."""
    session = source.session
    options = f"namesrv '{source.namesrv}', topic 'SourceSqlTable'"
    fill(source.namesrv, "SourceSqlTable", [b"1"], queues=1)
    session.sql(f"CREATE TEMPORARY VIEW orders (body binary) USING rocketmq OPTIONS ({options})")
    try:
        session.sql("INSERT INTO orders SELECT cast('2' as binary)")
        assert [bytes(row.body) for row in session.sql("FROM orders ORDER BY body").collect()] == [b"1", b"2"]
    finally:
        session.catalog.dropTempView("orders")
    session.sql(f"CREATE TABLE all_orders USING rocketmq OPTIONS ({options})")
    try:
        with pytest.raises(
            PySparkException, match=r"no options are given\. Spark hands those of CREATE TABLE"
        ) as caught:
            session.sql("FROM all_orders").collect()
        assert says(caught.value, "no options are given")
        query = (
            f"SELECT count(*) n FROM all_orders WITH (namesrv = '{source.namesrv}', topic = 'SourceSqlTable')"
        )
        assert session.sql(query).collect()[0].n == 2
        named = {"namesrv": source.namesrv, "topic": "SourceSqlTable"}
        assert session.read.options(**named).table("all_orders").count() == 2
    finally:
        session.sql("DROP TABLE all_orders")


def test_ranges_of_times(source: Source, filled: str) -> None:
    messages = pulled(source.namesrv, filled)
    times = sorted(message.store_timestamp for message in messages)
    begin, end = times[30], times[70]
    wanted = sorted(
        (message.queue_id, message.queue_offset)
        for message in messages
        if begin <= message.store_timestamp < end
    )
    bounds = {"startingTimestamp": str(begin), "endingTimestamp": str(end)}
    assert found(source, subscribe=filled, **bounds) == wanted
    assert wanted


def test_assigned_queues_and_partitions(source: Source, filled: str) -> None:
    assigned = json.dumps({filled: {"broker-a": [1, 2]}})
    frame = source.batch(assign=assigned, minPartitions="5")
    assert frame.rdd.getNumPartitions() >= 5
    assert found(source, assign=assigned, minPartitions="5") == [
        (number, offset) for number in (1, 2) for offset in range(25)
    ]


def test_a_pattern(source: Source) -> None:
    for name in ("PatternOne", "PatternTwo", "NotPatternThree"):
        fill(source.namesrv, name, [name.encode()], queues=1)
    rows = source.batch(subscribePattern="Pattern.*").select("topic", "body").collect()
    assert sorted(bytes(row.body).decode() for row in rows) == ["PatternOne", "PatternTwo"]


def test_a_selector_and_no_body(source: Source, filled: str) -> None:
    frame = source.batch(subscribe=filled, selector="t0 || t2", includeBody="false")
    assert "body" not in frame.columns
    assert {row.tags: row["count"] for row in frame.groupBy("tags").count().collect()} == {"t0": 34, "t2": 33}


def test_a_selector_over_properties(source: Source) -> None:
    with embedded_in_thread(enable_property_filter=True) as running:
        fill(running.namesrv, "SourceSql", (b"%d" % number for number in range(30)))
        frame = Source(source.session, running.namesrv).batch(
            subscribe="SourceSql", selector="TAGS = 't1' and KEYS <> 'k1'", selectorType="sql92"
        )
        rows = frame.selectExpr("tags", "cast(cast(body as string) as int) number").collect()
    assert sorted(row.number for row in rows) == list(range(4, 30, 3))
    assert {row.tags for row in rows} == {"t1"}


def test_chosen_columns(source: Source, filled: str) -> None:
    reader = source.session.read.format("rocketmq").options(namesrv=source.namesrv, subscribe=filled)
    row = reader.schema("queue_offset bigint not null, tags string").load().where("queue_offset = 24").first()
    assert row is not None
    assert row.asDict().keys() == {"queue_offset", "tags"}
    with pytest.raises(PySparkException, match="column tags int: it is string"):
        reader.schema("tags int").load().collect()


def test_options_decide_what_is_read(source: Source, filled: str) -> None:
    """A read of queue 1 would fail."""
    end = json.dumps({filled: {"broker-a": {"2": 99}}})
    assert found(source, subscribe=filled, endingOffsets=end, queueId="2", queueOffsets="20:22") == [
        (2, 20),
        (2, 21),
    ]
    with pytest.raises(PySparkException, match="queueId: no queue that is read has the number 4"):
        found(source, subscribe=filled, queueId="4")


@pytest.mark.parametrize("format", ["rocketmq", "pushing"])
def test_plans_that_share_a_data_frame(pushdown: Source, filled: str, format: str) -> None:
    """Spark mixes up the filters of a source that accepts them. If it does not any more, `pushing` fails."""
    session = pushdown.session
    session.dataSource.register(Pushing)

    def load() -> DataFrame:
        named = {"namesrv": pushdown.namesrv, "subscribe": filled}
        return session.read.format(format).options(**named).load()

    def counts(*, first: str, second: str) -> tuple[int, int]:
        frame = load()
        return frame.where(first).count(), frame.where(second).count()

    def union(*conditions: str) -> int:
        frame = load()
        rows: int = reduce(DataFrame.union, [frame.where(condition) for condition in conditions]).count()
        return rows

    def joined() -> int:
        frame = load()
        one, two = frame.where("queue_id = 1"), frame.where("queue_id = 2")
        rows: int = one.alias("one").join(two.alias("two"), "queue_offset").count()
        return rows

    def view() -> list[int]:
        load().createOrReplaceTempView("shared")
        return [
            session.sql(f"SELECT 1 FROM shared {condition}").count()
            for condition in ("WHERE queue_id = 1", "WHERE queue_id = 2", "")
        ]

    def cached() -> tuple[int, int]:
        frame = load()
        one = frame.where("queue_id = 1").cache()
        try:
            return one.count(), frame.count()
        finally:
            one.unpersist()

    found = {
        "counts": counts(first="queue_id = 1", second="true"),
        "union": union("queue_id = 1", "queue_id = 2"),
        "union with all": union("true", "queue_id = 1"),
        "join": joined(),
        "view": view(),
        "cache": cached(),
    }
    right = {
        "counts": (25, 100),
        "union": 50,
        "union with all": 125,
        "join": 25,
        "view": [25, 25, 100],
        "cache": (25, 100),
    }
    wrong = {
        "counts": (25, 25),
        "union": 25,
        "union with all": 50,
        "join": 0,
        "view": [25, 25, 25],
        "cache": (25, 25),
    }
    assert found == (right if format == "rocketmq" else wrong)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"subscribe": "NoSuchTopicAtAll"}, "NoSuchTopicAtAll"),
        ({"subscribe": "SourceBatch", "startingOffsets": "latest"}, "a batch starts at earliest"),
        (
            {"subscribe": "SourceBatch", "startingOffsets": '{"SourceBatch":{"broker-a":{"0":1}}}'},
            "startingOffsets needs an offset for each queue that is read: SourceBatch@broker-a:1 is also read",
        ),
        ({"assign": '{"SourceBatch":{"broker-a":[9]}}'}, "topic SourceBatch has no queue 9 on broker-a"),
    ],
)
def test_errors_say_what_is_wrong(source: Source, filled: str, options: dict[str, str], text: str) -> None:
    with pytest.raises(PySparkException) as caught:
        source.batch(**options).count()
    assert says(caught.value, text)


def test_messages_that_never_were(source: Source, filled: str) -> None:
    end = json.dumps({filled: {"broker-a": {"0": 25, "1": 25, "2": 25, "3": 30}}})
    with pytest.raises(PySparkException, match="shorter now, without messages 25 to 29"):
        source.batch(subscribe=filled, endingOffsets=end).count()
    assert found(source, subscribe=filled, endingOffsets=end, failOnDataLoss="false") == places(4, 0, 25)


def test_a_store_folder(source: Source, store_clean: JavaStore) -> None:
    frame = source.session.read.format("rocketmq").option("minPartitions", "6").load(str(store_clean.root))
    assert frame.rdd.getNumPartitions() >= 6
    rows = frame.select("commit_log_offset", "topic", "body_crc").collect()
    wanted = [(line["phy"], line["topic"]) for line in store_clean.of_kind("msg")]
    assert sorted((row.commit_log_offset, row.topic) for row in rows) == sorted(wanted)


def test_the_store_folders_of_two_brokers(
    source: Source, store_clean: JavaStore, store_killed: JavaStore
) -> None:
    reader = source.session.read.format("rocketmq").option("brokerName", "a,b")
    folders = [f"file://{store_clean.root}", str(store_killed.root)]
    counts = {
        row.broker_name: row["count"] for row in reader.load(folders).groupBy("broker_name").count().collect()
    }
    assert counts == {"a": reader_count(source, store_clean), "b": reader_count(source, store_killed)}
    with pytest.raises(PySparkException, match="are both of broker-a"):
        source.session.read.format("rocketmq").load(folders).count()


def reader_count(source: Source, store: JavaStore) -> int:
    frame = source.session.read.format("rocketmq").load(str(store.root))
    assert [row.broker_name for row in frame.select("broker_name").distinct().collect()] == ["broker-a"]
    rows: int = frame.count()
    return rows


def test_some_of_a_store_folder(source: Source, store_clean: JavaStore) -> None:
    reader = source.session.read.format("rocketmq").option("subscribe", "SeedTags")
    everything = reader.load(str(store_clean.root)).select("topic", "tags").collect()
    assert {row.topic for row in everything} == {"SeedTags"}
    assert len(everything) == 300
    tag = next(row.tags for row in everything if row.tags)
    chosen = reader.option("selector", tag).load(str(store_clean.root))
    assert chosen.count() == sum(row.tags == tag for row in everything)


def test_topics_of_a_store_are_read_by_their_queues(
    source: Source, copy_java_store: Callable[[str], JavaStore]
) -> None:
    """A damaged record of another topic is not read; a wrong queue is an error, after rows were returned."""
    store, name = copy_java_store("store-clean"), "SeedTags"
    whole = shutil.copytree(store.root, store.root.with_name("whole"))
    harm_another_topic(store, {name})
    reader = source.session.read.format("rocketmq").option("minPartitions", "9")
    assert reader.option("subscribe", name).load(str(store.root)).count() == 300
    assert reader.option("subscribe", name).option("queueId", 1).load(str(store.root)).count() == 75
    reader = source.session.read.format("rocketmq")
    with pytest.raises(PySparkException, match="the CRC"):
        reader.load(str(store.root)).count()
    queue = next((whole / "consumequeue" / name).glob("*/*"))
    with queue.open("r+b") as file:
        file.write(bytes(8))
    with pytest.raises(PySparkException, match=r"point at other records.*filter on the column topic"):
        reader.option("subscribe", name).load(str(whole)).count()
    own = next(row for row in java_rows(store) if row["topic"] == name)["commit_log_offset"]
    damaged = store.commit_logs[own // COMMIT_LOG_FILE_SIZE]
    with damaged.open("r+b") as file:
        file.seek(own % COMMIT_LOG_FILE_SIZE + 90)
        file.write(b"\xff\xff")
    with pytest.raises(PySparkException, match=rf"{damaged}: byte {own % COMMIT_LOG_FILE_SIZE}: "):
        reader.option("subscribe", name).load(str(store.root)).count()


def test_times_of_a_store_folder(source: Source, tmp_path: Path) -> None:
    """Records far outside of the range are not read: the first of them are damaged, unnoticed."""
    moments = write_timed(tmp_path / "store", [NOW + number * 60_000 for number in range(3000)])
    log = tmp_path / "store" / "commitlog"
    for path in sorted(log.iterdir())[2:6]:
        path.write_bytes(bytes([7]) * path.stat().st_size)
    reader = source.session.read.format("rocketmq")
    frame = reader.option("startingTimestamp", NOW + 2500 * 60_000).load(str(tmp_path / "store"))
    rows = frame.select("commit_log_offset").collect()
    late = [offset for offset, time in moments.items() if time >= NOW + 2500 * 60_000]
    assert sorted(row.commit_log_offset for row in rows) == late
    with pytest.raises(PySparkException, match="byte 0"):
        source.session.read.format("rocketmq").load(str(tmp_path / "store")).count()


def test_a_topic_that_a_store_folder_does_not_have(source: Source, store_clean: JavaStore) -> None:
    reader = source.session.read.format("rocketmq").option("subscribe", "SeedTags,SeedTag")
    with pytest.raises(PySparkException, match=r"subscribe: .* has no topic SeedTag\n"):
        reader.load(str(store_clean.root)).count()


def test_no_store_folder(source: Source, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="FileNotFoundError"):
        source.session.read.format("rocketmq").load(str(tmp_path)).count()
