"""A resumed export adds exactly what is new, and completes one that was killed anywhere."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from pyarrow.dataset import dataset

from rmqcli.broker.testing.embedded import Cluster
from rmqcli.client import ConnectionLost, NotPermitted, PullConsumer
from rmqcli.codec.codes import ResponseCode
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
    export_topic,
)
from rmqcli.export.output import folder
from rmqcli.export.output.manifest import MANIFEST, Origin, StoreEntry, books_of
from tests.cli.conftest import Run
from tests.client.scripted import refuse
from tests.export.support import java_rows, manifest_of, rows_of
from tests.export.topics import ScriptedTopic, fill, in_order
from tests.seeds import seeds
from tests.support import COMMIT_LOG_FILE_SIZE, PATIENCE, JavaStore


def names(out: Path) -> list[str]:
    return sorted(path.name for path in out.iterdir())


@pytest.mark.parametrize("seed", seeds(1))
def test_a_store_that_grew(copy_java_store: Callable[[str], JavaStore], tmp_path: Path, seed: int) -> None:
    """The commit log appears file by file."""
    store, out = copy_java_store("store-clean"), tmp_path / "out"
    hidden = store.commit_logs[seed % 3 + 1 :]
    kept = {path: path.read_bytes() for path in hidden}
    for path in hidden:
        path.unlink()
    first = export_store(store.root, out, RowFilter(check_crc=False))
    for path, data in kept.items():
        path.write_bytes(data)
    second = export_store(store.root, out, RowFilter(), resume=True)
    third = export_store(store.root, out, RowFilter(), resume=True)
    assert (first.rows > 0, second.rows > 0, third.rows, third.files) == (True, True, 0, 0)
    assert rows_of(out) == java_rows(store)
    assert names(out) == ["_SUCCESS", "part-00000.parquet", "part-00001.parquet"]
    assert manifest_of(out).rows == 3090 == sum(span.rows for span in manifest_of(out).queues)


def test_a_range_with_an_end_and_then_the_rest(store_clean: JavaStore, tmp_path: Path) -> None:
    """Records that the end of the first range left out lie before exported ones."""
    out = tmp_path / "out"
    export_store(store_clean.root, out, RowFilter(end=5))
    assert [entry.commit_log_offset for entry in manifest_of(out).stores] == [None]
    export_store(store_clean.root, out, RowFilter(end=9), resume=True)
    export_store(store_clean.root, out, RowFilter(), resume=True)
    rows = rows_of(out)
    assert sorted(row["commit_log_offset"] for row in rows) == [
        row["commit_log_offset"] for row in java_rows(store_clean)
    ]
    assert export_store(store_clean.root, out, RowFilter(), resume=True).rows == 0


@pytest.mark.parametrize("topics", [frozenset(), frozenset({"SeedNormal"})], ids=["all", "one topic"])
@pytest.mark.parametrize("first", [1, 2], ids=["one file lost", "none lost"])
def test_what_retention_took_between_two_exports_is_said(
    copy_java_store: Callable[[str], JavaStore],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    topics: frozenset[str],
    first: int,
) -> None:
    """The log has the first files for the first export, and the last two when that is resumed."""
    store, out, aside = copy_java_store("store-clean"), tmp_path / "out", tmp_path / "aside"
    rows, logs = RowFilter(topics=topics, check_crc=False), store.commit_logs
    messages = [row for row in java_rows(store) if not topics or row["topic"] in topics]
    shutil.copytree(store.root / "commitlog", aside)
    for path in logs[first:]:
        path.unlink()
    export_store(store.root, out, rows)
    for path in logs[2:]:
        shutil.copy(aside / path.name, path)
    for path in logs[:2]:
        path.unlink(missing_ok=True)
    capsys.readouterr()
    export_store(store.root, out, rows, resume=True)
    lost = [row for row in messages if row["commit_log_offset"] // COMMIT_LOG_FILE_SIZE in range(first, 2)]
    assert len(rows_of(out)) == len(messages) - len(lost)
    offsets = [row["queue_offset"] for row in lost if row["topic"] == "SeedNormal" and row["queue_id"] == 0]
    said = capsys.readouterr().err
    if first == 1:
        assert (
            f"messages {min(offsets)} to {max(offsets)} of queue 0 of topic SeedNormal (and of 3 more" in said
        )
        assert "arrived after the last export and no longer exist" in said
    else:
        assert said == ""


async def test_what_is_gone_of_a_topic_between_two_exports_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with ScriptedTopic(0, 200).client() as client:
        await export_topic(client, RANGES[:1], tmp_path / "out")
        ranges = [RANGES[0]._replace(begin=130, end=200)]
        await export_topic(client, ranges, tmp_path / "out", resume=True)
    assert (
        "T@broker-a:0: messages 100 to 129 arrived after the last export; the queue or the range begins after them"
        in capsys.readouterr().err
    )


async def test_a_topic_that_grew(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    async with PullConsumer(namesrv=cluster.namesrv, timeout=PATIENCE) as client:
        queues = await client.message_queues(topic)

        async def export(resume: bool) -> int:
            ranges = [QueueRange(queue, 0, await client.max_offset(queue)) for queue in queues]
            return (await export_topic(client, ranges, out, resume=resume)).rows

        await fill(cluster, topic, 30)
        assert await export(False) == 30
        await fill(cluster, topic, 13)
        assert [await export(True), await export(True)] == [13, 0]
        ends = {(queue.queue_id): await client.max_offset(queue) for queue in queues}
    places = [(row["queue_id"], row["queue_offset"]) for row in in_order(rows_of(out))]
    assert places == [(queue, offset) for queue in sorted(ends) for offset in range(ends[queue])]
    assert {span.queue_id: span.end for span in manifest_of(out).queues} == ends


async def test_an_end_in_time_leaves_nothing_out(tmp_path: Path) -> None:
    queue = MessageQueue("T", "broker-a", 0)
    async with ScriptedTopic(0, 60).client() as client:
        await export_topic(client, [QueueRange(queue, 0, 60, end_time=1025)], tmp_path / "out")
        await export_topic(client, [QueueRange(queue, 0, 60)], tmp_path / "out", resume=True)
    assert [row["queue_offset"] for row in rows_of(tmp_path / "out")] == list(range(60))


@pytest.mark.parametrize(
    ("rows", "layout", "said"),
    [
        (RowFilter(topics=frozenset({"SeedTags"})), Layout(), "was exported with --topic none, not SeedTags"),
        (RowFilter(), Layout(body_text=True), "was exported with --columns topic,"),
        (RowFilter(), Layout(partition_by=("day",)), "was exported with --partition-by none, not day"),
    ],
)
def test_only_the_same_is_resumed(
    store_clean: JavaStore, tmp_path: Path, rows: RowFilter, layout: Layout, said: str
) -> None:
    export_store(store_clean.root, tmp_path, RowFilter())
    with pytest.raises(OutputExists, match=said):
        export_store(store_clean.root, tmp_path, rows, layout=layout, resume=True)
    assert names(tmp_path) == ["_SUCCESS", "part-00000.parquet"]


def test_a_file_that_is_not_as_long_as_it_was(store_clean: JavaStore, tmp_path: Path) -> None:
    """A power cut leaves such a file. A file removed by the user is ignored."""
    export_store(store_clean.root, tmp_path, RowFilter())
    file = tmp_path / "part-00000.parquet"
    whole = file.read_bytes()
    for wrong in (b"", whole[:-1], whole + b"x"):
        file.write_bytes(wrong)
        with pytest.raises(
            OutputExists, match=rf"part-00000.parquet: has {len(wrong)} bytes, not the {len(whole)} "
        ):
            export_store(store_clean.root, tmp_path, RowFilter(), resume=True)
    file.unlink()
    assert export_store(store_clean.root, tmp_path, RowFilter(), resume=True).rows == 0


def test_what_is_no_export_is_not_touched(store_clean: JavaStore, tmp_path: Path) -> None:
    (tmp_path / "part-00000.parquet").write_bytes(b"mine")
    with pytest.raises(OutputExists, match=r"is not empty, and .*\.rmq/manifest\.json is missing"):
        export_store(store_clean.root, tmp_path, RowFilter(), resume=True)
    assert (tmp_path / "part-00000.parquet").read_bytes() == b"mine"


def test_a_manifest_that_is_none(store_clean: JavaStore, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "part-00000.parquet").touch()
    books_of(tmp_path / "out").mkdir()
    (books_of(tmp_path / "out") / MANIFEST).write_text("{}")
    with pytest.raises(ExportError, match="not written by rmq export"):
        export_store(store_clean.root, tmp_path / "out", RowFilter(), resume=True)


def test_a_folder_holds_nothing_that_a_reader_takes_for_data(store_clean: JavaStore, tmp_path: Path) -> None:
    """Polars reads every file of a folder that is not empty, whatever its name; others skip names with `_`."""
    out = tmp_path / "lake" / "orders"
    for resume in (False, True):
        export_store(store_clean.root, out, RowFilter(), resume=resume)
    files = [path for path in out.rglob("*") if path.is_file() and path.stat().st_size]
    assert {path.suffix for path in files} == {".parquet"}
    assert {path.name for path in out.parent.iterdir()} == {"orders", "_orders.rmq"}
    for place in (out, out.parent):
        assert dataset(place).count_rows() == len(java_rows(store_clean))


@pytest.mark.parametrize("resume", [False, True])
def test_unfinished_files_are_found_by_no_pattern(
    store_clean: JavaStore, tmp_path: Path, resume: bool
) -> None:
    seen: list[Path] = []

    def look(size: int) -> None:
        seen.extend(tmp_path.rglob("*.parquet.tmp"))
        assert not list(tmp_path.rglob("*.parquet"))

    layout = Layout(partition_by=("queue",), row_group_bytes=1, file_bytes=100_000)
    export_store(store_clean.root, tmp_path / "out", RowFilter(), look, layout=layout, resume=resume)
    assert seen
    assert not list(tmp_path.rglob("*.tmp"))


def test_files_that_were_removed_are_not_taken_for_exported(store_clean: JavaStore, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_store(store_clean.root, out, RowFilter())
    shutil.rmtree(out)
    for prepared in (False, True):
        if prepared:
            out.mkdir()
        with pytest.raises(
            OutputExists, match=rf"its files are gone, but {tmp_path}/_out\.rmq is there; remove it"
        ):
            export_store(store_clean.root, out, RowFilter(), resume=True)
    assert export_store(store_clean.root, out, RowFilter()).rows == len(java_rows(store_clean))


def test_a_folder_that_is_a_mount(
    store_clean: JavaStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rename(source: Path, target: Path, rename: Any = os.rename) -> Any:
        if target.parent != tmp_path / "out":
            return rename(source, target)
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    (tmp_path / "out").mkdir()
    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(OutputExists, match=rf"is mounted, .* --out {tmp_path}/out/messages"):
        export_store(store_clean.root, tmp_path / "out", RowFilter())
    assert names(tmp_path) == ["out"] and names(tmp_path / "out") == []


def test_two_at_once_are_kept_apart(store_clean: JavaStore, tmp_path: Path) -> None:
    export_store(store_clean.root, tmp_path, RowFilter())
    layout, origin = Layout(), Origin((StoreEntry(str(store_clean.root.resolve()), None),), None)
    with (
        folder.ExportFolder(tmp_path, origin, layout, resume=True),
        pytest.raises(OutputExists, match="another export is writing there"),
    ):
        export_store(store_clean.root, tmp_path, RowFilter(), resume=True)
    assert export_store(store_clean.root, tmp_path, RowFilter(), resume=True).rows == 0


KILLED = """
import os, sys
from pathlib import Path
from rmqcli.export import RowFilter, Layout, export_store

place, left = sys.argv[3], int(sys.argv[4])

def killing(function):
    def call(*arguments, **named):
        global left
        if left == 0:
            os.kill(os.getpid(), 9)
        left -= 1
        return function(*arguments, **named)
    return call

setattr(Path, place, killing(getattr(Path, place)))
layout = Layout(row_group_bytes=100_000, file_bytes=300_000, partition_by=("queue",))
export_store(Path(sys.argv[1]), Path(sys.argv[2]), RowFilter(), layout=layout, resume=True)
"""


@pytest.mark.parametrize(
    ("place", "count"),
    [
        ("replace", 0),
        ("replace", 1),
        ("replace", 5),
        ("unlink", 0),
        ("unlink", 1),
        ("touch", 0),
        ("mkdir", 1),
    ],
)
def test_killed_anywhere(store_clean: JavaStore, tmp_path: Path, place: str, count: int) -> None:
    """Before the first rename, between two, before and after the manifest, before _SUCCESS."""
    out = tmp_path / "out"
    command = [sys.executable, "-c", KILLED, str(store_clean.root), str(out), place, str(count)]
    assert subprocess.run(command, check=False).returncode == -9
    assert not (out / "_SUCCESS").exists()
    for path in out.glob("queue=*/part-*.parquet"):
        assert parquet.read_metadata(path).num_rows > 0
    layout = Layout(partition_by=("queue",))
    export_store(store_clean.root, out, RowFilter(), layout=layout, resume=True)
    found = [
        offset
        for path in out.glob("queue=*/part-*.parquet")
        for offset in parquet.ParquetFile(path).read()["commit_log_offset"].to_pylist()
    ]
    assert sorted(found) == [row["commit_log_offset"] for row in java_rows(store_clean)]
    assert sorted(manifest_of(out).files, key=lambda file: file.path) == [
        file
        for file in sorted(manifest_of(out).files, key=lambda file: file.path)
        if (out / file.path).exists()
    ]
    assert names(books_of(out)) == ["manifest.json"]


def test_a_record_that_a_consume_queue_misses(
    copy_java_store: Callable[[str], JavaStore], tmp_path: Path
) -> None:
    """The last commit log file is missing: its records are still in the consume queues."""
    store = copy_java_store("store-clean")
    store.commit_logs[-1].unlink()
    with pytest.raises(
        CorruptionError, match=r"queue \d+ of topic \S+ has \d+ entr(y|ies) in its consume queue, but"
    ):
        export_store(store.root, tmp_path / "out", RowFilter())
    assert not (tmp_path / "out").exists()
    export_store(store.root, tmp_path / "out", RowFilter(check_crc=False))


def test_the_consume_queues_of_every_range(java_store: JavaStore, tmp_path: Path) -> None:
    """No false alarm: the first file removed by retention, ranges, a topic, a killed broker's queues."""
    topic = java_store.of_kind("msg")[0]["topic"]
    wanted = [
        RowFilter(topics=frozenset({topic}), begin=3, end=9),
        RowFilter(begin_commit_log=700_000),
        RowFilter(begin_time=1),
    ]
    for number, rows in enumerate(wanted):
        assert export_store(java_store.root, tmp_path / str(number), rows).rows > 0


RANGES = [
    QueueRange(MessageQueue("T", broker, number), 0, 100)
    for number, broker in enumerate(("broker-a", "broker-b", "broker-a"))
]


async def exported(
    topic: ScriptedTopic, ranges: list[QueueRange], out: Path, **options: Any
) -> ExportSummary:
    async with topic.client() as client:
        return await export_topic(client, ranges, out, batch_messages=32, **options)


async def test_a_queue_that_fails_now_and_then(tmp_path: Path, autojump_clock: Any) -> None:
    topic = ScriptedTopic(0, 100, failures=3)
    summary = await exported(topic, RANGES, tmp_path / "out")
    assert (summary.rows, summary.failed, topic.failed) == (300, (), 3)


async def test_a_queue_that_fails_for_good(tmp_path: Path, autojump_clock: Any) -> None:
    out = tmp_path / "out"
    topic = ScriptedTopic(0, 100, failures=10**6)
    summary = await exported(topic, RANGES, out)
    ((wanted, reached, error, _),) = summary.failed
    assert (wanted.queue.queue_id, reached, summary.rows) == (1, 64, 264)
    assert (type(error), topic.failed) == (ConnectionLost, 4)
    again = await exported(ScriptedTopic(0, 100), RANGES, out, resume=True)
    assert (again.rows, again.failed) == (36, ())
    places = sorted((row["queue_id"], row["queue_offset"]) for row in rows_of(out))
    assert places == [(queue, offset) for queue in range(3) for offset in range(100)]


async def test_what_is_hopeless_is_not_tried_again(tmp_path: Path) -> None:
    topic = ScriptedTopic(0, 100, failures=10**6, failing=refuse(ResponseCode.NO_PERMISSION))
    async with topic.client() as client:
        with pytest.raises(NotPermitted):
            await export_topic(client, [RANGES[1]._replace(begin=40)], tmp_path / "out")
    assert topic.failed == 1
    assert not (tmp_path / "out").exists()


async def test_a_topic_made_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await exported(ScriptedTopic(0, 100), RANGES[:1], tmp_path / "out")
    await exported(ScriptedTopic(0, 7), [RANGES[0]._replace(end=7)], tmp_path / "out", resume=True)
    assert "T@broker-a:0: ends at 7, before 100, where the last export ended" in capsys.readouterr().err


def test_the_command(rmq: Run, topic: str, tmp_path: Path) -> None:
    export = ("export", "--topic", topic, "--out", str(tmp_path / "out"), "--resume", "--json")
    for count in (5, 3, 0):
        rmq("send", topic, stdin=b"x\n" * count)
        assert rmq(*export).json["rows"] == count
    said = json.loads((books_of(tmp_path / "out") / MANIFEST).read_bytes())
    assert (said["version"], said["topic"], said["stores"], said["rows"]) == (1, topic, [], 8)
    assert [file["rows"] for file in said["files"]] == [5, 3]
    assert sum(queue["end"] - queue["begin"] for queue in said["queues"]) == 8
    assert names(books_of(tmp_path / "out")) == ["manifest.json"]


def test_a_full_disk_is_named(store_clean: JavaStore, tmp_path: Path) -> None:
    def full(size: int) -> None:
        raise OSError(errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28] No space left on device")

    with pytest.raises(OSError, match=rf"No space left on device: '{tmp_path / 'out'}'$"):
        export_store(store_clean.root, tmp_path / "out", RowFilter(), full)
    assert not (tmp_path / "out").exists()
