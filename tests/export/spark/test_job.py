"""The same exports as Spark jobs, on the one session of the run: same rows, same schema, quiet, safe against
failing tasks.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from rmqcli.broker.testing.embedded import Cluster
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.client import PullConsumer
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.export import (
    ExportError,
    ExportSummary,
    Layout,
    OutputExists,
    QueueRange,
    RowFilter,
    export_store,
    export_store_on_spark,
    export_topic,
    export_topic_on_spark,
)
from rmqcli.export.from_store.parts import scan_part
from rmqcli.export.output.folder import LocalPlace
from rmqcli.export.output.parquet import Output
from rmqcli.export.spark import job as spark_export
from rmqcli.export.spark.job import Written, joined
from tests.cli.conftest import Run
from tests.export.conftest import SparkRun
from tests.export.row_groups import log_with_ids, rows_read_by_spark
from tests.export.support import (
    NOISE,
    by_place,
    encodings,
    harm_another_topic,
    java_rows,
    rows_of,
    write_batches,
    write_log,
)
from tests.export.topics import fill, in_order
from tests.support import PATIENCE, JavaStore

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture(autouse=True)
def silence(capfdbinary: pytest.CaptureFixture[bytes]) -> Iterator[None]:
    """Checks that a Spark export writes nothing on standard output or error."""
    yield
    assert capfdbinary.readouterr() == (b"", b"")


def test_a_store_cut_into_parts(store_clean: JavaStore, tmp_path: Path) -> None:
    summary = export_store_on_spark(store_clean.root, tmp_path / "out", RowFilter(), part_bytes=150_000)
    rows = rows_of(tmp_path / "out")
    assert summary.rows == 3090
    assert summary.files == 14  # of 16 parts; two are behind the last record
    assert rows == java_rows(store_clean)
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["_SUCCESS", *(f"part-{number:05d}.parquet" for number in range(14))]


def test_a_filter_reaches_the_tasks(store_killed: JavaStore, tmp_path: Path) -> None:
    wanted = RowFilter(topics=frozenset({store_killed.of_kind("msg")[0]["topic"]}), begin=5)
    export_store_on_spark(store_killed.root, tmp_path / "out", wanted, part_bytes=300_000)
    expected = [
        row for row in java_rows(store_killed) if row["topic"] in wanted.topics and row["queue_offset"] >= 5
    ]
    assert expected
    assert rows_of(tmp_path / "out") == expected


def test_topics_are_read_by_their_queues(
    copy_java_store: Callable[[str], JavaStore], tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """A damaged record of another topic is not read until a queue is wrong."""
    store, topics = copy_java_store("store-clean"), frozenset({"SeedTags"})
    expected = [row for row in java_rows(store) if row["topic"] in topics]
    rows = RowFilter(topics=topics)
    whole = tmp_path / "whole"
    shutil.copytree(store.root, whole)
    harm_another_topic(store, topics)
    export_store_on_spark(store.root, tmp_path / "out", rows, part_bytes=150_000)
    assert rows_of(tmp_path / "out") == expected
    queue = next((whole / "consumequeue" / "SeedTags").glob("*/*"))
    with queue.open("r+b") as file:
        file.write(bytes(8))
    export_store_on_spark(whole, tmp_path / "again", replace(rows, check_crc=False), part_bytes=150_000)
    assert rows_of(tmp_path / "again") == expected
    said = capfdbinary.readouterr().err.decode()
    assert re.search("they point at other records of .*; the whole commit log is read instead", said)


def test_spark_reads_what_was_written(store_clean: JavaStore, tmp_path: Path) -> None:
    export_store_on_spark(store_clean.root, tmp_path / "out", RowFilter(topics=frozenset({"SeedTags"})))
    session = SparkSession.getActiveSession()
    assert session is not None
    frame = session.read.parquet(str(tmp_path / "out"))
    assert frame.count() == 300
    assert frame.where("properties['TAGS'] = tags and body is not null").count() == 300
    assert dict(frame.dtypes)["store_timestamp"] == "timestamp"


@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_both_readers_of_spark_read_every_encoding(vectorized: str, tmp_path: Path) -> None:
    write_log(tmp_path / "store/commitlog", NOISE)
    export_store(tmp_path / "store", tmp_path / "out", RowFilter())
    assert "DELTA_LENGTH_BYTE_ARRAY" in encodings(tmp_path / "out/part-00000.parquet", "body")
    session = SparkSession.getActiveSession()
    assert session is not None
    session.conf.set("spark.sql.parquet.enableVectorizedReader", vectorized)
    try:
        rows = session.read.parquet(str(tmp_path / "out")).sort("commit_log_offset").collect()
    finally:
        session.conf.unset("spark.sql.parquet.enableVectorizedReader")
    assert [bytes(row["body"]) for row in rows] == NOISE
    local = sorted(rows_of(tmp_path / "out"), key=lambda row: row["commit_log_offset"])
    for name in ("queue_offset", "commit_log_offset", "msg_id"):
        assert [row[name] for row in rows] == [row[name] for row in local]


def test_rows_that_spark_skips(tmp_path: Path) -> None:
    """By the statistics and Bloom filters of row groups, and in a sorted one by those of its pages."""
    session = SparkSession.getActiveSession()
    assert session is not None

    def read(out: Path, condition: str) -> int:
        return rows_read_by_spark(session.read.parquet(str(out)).where(condition).select("body"))

    ids = log_with_ids(tmp_path / "groups", 3000, 4)
    write_batches(tmp_path / "groups", tmp_path / "out", RowFilter(), Layout(row_group_bytes=60_000), 100)
    (file,) = (tmp_path / "out").glob("*.parquet")
    metadata = parquet.read_metadata(file)
    most = max(metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
    for condition, row_groups in (
        ("queue_offset = 10", 1),
        ("store_timestamp = timestamp '2026-11-21 01:50:00Z'", 1),
        (f"msg_id = '{ids[1500]}'", 3),  # a false positive is possible
    ):
        assert 1 <= read(tmp_path / "out", condition) <= row_groups * most <= 3000 // 4, condition
    log_with_ids(tmp_path / "pages", 25_000, 5)  # a page has at most 20,000 rows
    export_store(tmp_path / "pages", tmp_path / "sorted", RowFilter(), layout=Layout(sort=True))
    assert read(tmp_path / "sorted", "queue_id = 4") == 5000


def test_partitions_and_resuming(store_clean: JavaStore, tmp_path: Path) -> None:
    """The tasks of both runs write into the same folders."""
    out, layout = tmp_path / "out", Layout(partition_by=("topic",), columns=("queue_offset", "body"))
    export: Callable[..., ExportSummary] = partial(
        export_store_on_spark, store_clean.root, out, part_bytes=700_000, layout=layout
    )
    first = export(RowFilter(end=5))
    second = export(RowFilter(), resume=True)
    assert (first.rows + second.rows, export(RowFilter(), resume=True).rows) == (3090, 0)
    session = SparkSession.getActiveSession()
    assert session is not None
    frame = session.read.parquet(str(out))
    assert set(frame.columns) == {"queue_offset", "body", "topic"}
    assert (frame.count(), frame.where("topic = 'SeedTags'").count()) == (3090, 300)


def test_fewer_records_than_entries(copy_java_store: Callable[[str], JavaStore], tmp_path: Path) -> None:
    store = copy_java_store("store-clean")
    store.commit_logs[-1].unlink()
    with pytest.raises(CorruptionError, match="but the commit log has 0 of its records"):
        export_store_on_spark(store.root, tmp_path / "out", RowFilter())
    assert not (tmp_path / "out").exists()


def test_no_rows_no_tasks(store_clean: JavaStore, tmp_path: Path) -> None:
    summary = export_store_on_spark(store_clean.root, tmp_path / "out", RowFilter(end=0))
    assert (summary.files, summary.rows) == (1, 0)
    assert rows_of(tmp_path / "out") == []


def _full(task: None, number: int) -> Generator[Any, None, list[tuple[int, str]]]:
    yield from ()
    raise OSError(errno.ENOSPC, "Error writing bytes to file")


def test_the_reason_in_what_spark_says() -> None:
    said = """Job aborted. Most recent failure: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "parquet.py", line 7, in write
OSError: [Errno 28] No space left on device: '/lake/o'

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)"""
    reason = spark_export._reason(RuntimeError(said))
    assert str(reason) == "the Spark job failed: /lake/o: No space left on device"


def test_a_full_disk_is_named_by_its_task(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "temporary-1").mkdir(parents=True)
    with pytest.raises(OSError, match=rf"No space left on device: '{out}'$"):
        spark_export._run_task(
            _full, Output(LocalPlace(out / "temporary-1", str(out)), "topic", Layout()), (0, None)
        )


def test_damage_names_file_and_byte_and_leaves_nothing(
    copy_java_store: Callable[[str], JavaStore], tmp_path: Path
) -> None:
    store = copy_java_store("store-clean")
    damaged = store.of_kind("msg")[2500]["phy"]
    path = store.commit_logs[damaged // 524288]
    data = bytearray(path.read_bytes())
    data[damaged % 524288 + 4] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptionError, match=f"{path}: byte {damaged % 524288}: ") as caught:
        export_store_on_spark(store.root, tmp_path / "out", RowFilter(), part_bytes=100_000)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_an_existing_folder_is_refused(store_clean: JavaStore, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(OutputExists):
        export_store_on_spark(store_clean.root, tmp_path, RowFilter())


async def test_a_topic_as_without_spark(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    import trio

    await fill(cluster, topic)
    async with PullConsumer(namesrv=cluster.namesrv, timeout=PATIENCE) as client:
        queues = await client.message_queues(topic)
        ranges = [QueueRange(queue, 1, await client.max_offset(queue)) for queue in queues]
        await export_topic(client, ranges, tmp_path / "here")

    def on_spark() -> None:
        export_topic_on_spark({"namesrv": cluster.namesrv}, ranges, tmp_path / "spark")

    await trio.to_thread.run_sync(on_spark)
    rows = rows_of(tmp_path / "spark")
    assert len(rows) == 56
    assert in_order(rows) == in_order(rows_of(tmp_path / "here"))


def test_the_command(cli: Run, store_clean: JavaStore, tmp_path: Path) -> None:
    export = ("export", "--store", str(store_clean.root), "--spark", "--json", "--out")
    done = cli(*export, str(tmp_path / "out"), "--topic", "SeedTags", "-o", "-10")
    assert (done.code, done.err) == (0, "")
    assert (done.json["files"], done.json["rows"]) == (1, 10)
    refused = cli(*export, str(tmp_path / "out"))
    assert (refused.code, refused.out) == (ExitCode.USAGE, b"")
    said = f"{tmp_path}/out: exists and is not empty; name a new folder with --out"
    assert refused.error["message"] == said


def test_the_command_on_a_topic(rmq: Run, topic: str, tmp_path: Path) -> None:
    rmq("send", topic, stdin=b"\n".join(b"%d" % number for number in range(40)))
    done = rmq("export", "--topic", topic, "-o", "-7", "--spark", "--out", str(tmp_path / "out"))
    assert (done.code, done.err, done.lines[0][2]) == (0, "", "7")
    wanted = rmq("pull", topic, "-o", "-7", "--json").json_lines
    assert {row["msg_id"] for row in rows_of(tmp_path / "out")} == {line["msgId"] for line in wanted}


def test_a_topic_that_grew(rmq: Run, topic: str, tmp_path: Path) -> None:
    export = ("export", "--topic", topic, "--spark", "--out", str(tmp_path / "out"), "--resume", "--json")
    for count in (9, 4, 0):
        rmq("send", topic, stdin=b"x\n" * count)
        assert rmq(*export).json["rows"] == count
    assert len(rows_of(tmp_path / "out")) == 13


async def test_queues_in_pieces(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    """In a range of times, messages outside of it end no queue early."""
    import trio

    await fill(cluster, topic, 56)
    async with PullConsumer(namesrv=cluster.namesrv, timeout=PATIENCE) as client:
        ranges = [
            QueueRange(queue, 0, await client.max_offset(queue))
            for queue in await client.message_queues(topic)
        ]
        await export_topic(client, ranges, tmp_path / "here")

    def on_spark(wanted: list[QueueRange], name: str) -> ExportSummary:
        options = {"namesrv": cluster.namesrv}
        return export_topic_on_spark(options, wanted, tmp_path / name, task_bytes=20_000, resume=True)

    summary = await trio.to_thread.run_sync(on_spark, ranges, "pieces")
    rows = in_order(rows_of(tmp_path / "here"))
    assert (summary.rows, summary.files) == (56, 4 * len(ranges))
    assert in_order(rows_of(tmp_path / "pieces")) == rows
    middle = rows[len(rows) // 2]["store_timestamp"] // 1000
    timed = [wanted._replace(end_time=middle) for wanted in ranges]
    await trio.to_thread.run_sync(on_spark, timed, "timed")
    assert len(rows_of(tmp_path / "timed")) < 56
    await trio.to_thread.run_sync(on_spark, ranges, "timed")
    assert in_order(rows_of(tmp_path / "timed")) == rows


def test_what_lies_behind_a_piece_that_failed_is_not_exported() -> None:
    large, *small = (QueueRange(MessageQueue("T", "broker-a", number), 0, 9) for number in range(3))
    tasks = [*([piece] for piece in large.cut(3)), small]
    ends = [[(3, "")], [(5, "lost")], [(9, "")], [(7, "away"), (9, "")]]
    done = [Written([name], own) for name, own in zip("abcd", ends, strict=True)]
    found, names = joined([large, *small], tasks, done)
    assert [(end.reached, str(end.error or "")) for end in found] == [(5, "lost"), (7, "away"), (9, "")]
    assert names == ["a", "b", "d"]


async def test_a_queue_that_fails_alone(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    """Its broker does not have the queue."""
    import trio

    await fill(cluster, topic, 20)
    async with PullConsumer(namesrv=cluster.namesrv, timeout=PATIENCE) as client:
        queues = await client.message_queues(topic)
        ranges = [QueueRange(queue, 0, await client.max_offset(queue)) for queue in queues]
    wrong = QueueRange(MessageQueue(topic, "broker-a", 77), 0, 5)

    def on_spark() -> ExportSummary:
        return export_topic_on_spark({"namesrv": cluster.namesrv}, [*ranges, wrong], tmp_path / "out")

    summary = await trio.to_thread.run_sync(on_spark)
    ((failed, reached, error, _),) = summary.failed
    assert (summary.rows, failed, reached) == (20, wrong, 0)
    assert "queue" in str(error)


def test_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    ranges = [QueueRange(MessageQueue("T", "broker-a", 0), 0, 10)]
    with pytest.raises(ExportError, match=r"the Spark job failed: .*cannot connect"):
        export_topic_on_spark({"namesrv": "127.0.0.1:1"}, ranges, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def failing_once(marks: Path, fail: Callable[[], None]) -> spark_export.ReadParts:
    """Reads parts, but ends the first attempt of every other task in the middle."""

    def read(rows: RowFilter, parts: spark_export.Parts, task: int) -> Generator[Any, None, None]:
        for batch in scan_part(parts[0].part, rows):
            yield batch.slice(0, batch.num_rows // 2)
            if task % 2 and not (marks / str(task)).exists():
                (marks / str(task)).touch()
                fail()
            yield batch.slice(batch.num_rows // 2)

    return read


def raise_error() -> None:
    raise ValueError("in the middle of a task")


def end_process() -> None:
    os._exit(7)


@pytest.mark.parametrize("fail", [raise_error, end_process])
def test_a_failed_attempt_changes_nothing(
    store_clean: JavaStore, tmp_path: Path, fail: Callable[[], None]
) -> None:
    (tmp_path / "marks").mkdir()
    read = failing_once(tmp_path / "marks", fail)
    summary = export_store_on_spark(
        store_clean.root, tmp_path / "out", RowFilter(), part_bytes=400_000, read=read
    )
    assert {path.name for path in (tmp_path / "marks").iterdir()} == {"1", "3", "5"}
    assert summary.files == 7
    assert by_place(rows_of(tmp_path / "out")) == java_rows(store_clean)


def test_starting_spark_was_quiet(spark: SparkRun) -> None:
    assert spark.said.read_bytes() == b""
