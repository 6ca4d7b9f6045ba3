"""`rmq export --table` as typed: a topic and stores, errors in one line, what Ctrl-C says."""

from __future__ import annotations

import importlib.util
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.export import QueueRange
from rmqcli.export.local import write_topic
from rmqcli.export.output.layout import Layout
from rmqcli.export.output.parquet import ParquetFiles
from rmqcli.export.run import ExportSummary, topic_origin
from rmqcli.export.tables.delta import DeltaTable
from rmqcli.export.tables.naming import table_of
from rmqcli.export.tables.run import TableRun
from tests.cli.conftest import Run
from tests.export.support import harm_another_topic, java_rows
from tests.export.tables.support import TOPIC, Lake
from tests.export.topics import ScriptedTopic
from tests.support import JavaStore


def test_a_topic_that_grows(rmq: Run, topic: str, lake: Lake) -> None:
    export = ("export", "--topic", topic, "--table", lake.name, "--json")
    for number, count in enumerate((5, 3, 0)):
        rmq("send", topic, stdin=b"x\n" * count)
        said = rmq(*export, *(["--resume"] if number else [])).json
        assert (said["out"], said["rows"], said["lost"]) == (lake.name, count, [])
    assert (len(lake.rows()), len(set(lake.places())), lake.commits()) == (8, 8, 2)
    again = rmq(*export[:-1])
    assert (again.code, again.err) == (
        ExitCode.USAGE,
        f"rmq: {lake.name}: exists; add to it with --resume, or name a new table\n",
    )


def test_stores_and_then_their_cluster(
    rmq: Run, cli: Run, topic: str, cluster: Any, lake: Lake, store_clean: JavaStore
) -> None:
    """Several topics may share a table, and other stores."""
    store = ("--store", str(store_clean.root), "--topic")
    assert cli("export", *store, TOPIC, "--table", lake.name).lines[0][2] == "1500"
    assert cli("export", *store, "SeedTags", "--queue", "0", "--table", lake.name, "--resume").code == 0
    rmq("send", topic, stdin=b"x\n" * 5)
    assert rmq("export", "--topic", topic, "--table", lake.name, "--resume").code == 0
    assert cli("export", *store, "SeedTags", "--table", lake.name, "--resume").lines[0][2] == "225"
    assert len(set(lake.places())) == len(lake.rows()) == 1500 + 300 + 5


async def add_of_queue(lake: Lake, topic: ScriptedTopic, begin: int, end: int) -> ExportSummary:
    async with topic.client() as client:
        ranges = [QueueRange(MessageQueue("T", "broker-a", 0), begin, end)]
        with TableRun(table_of(lake.name), topic_origin(ranges), Layout(), resume=True) as run:
            return await write_topic(client, ranges, run)
    raise AssertionError


async def test_what_retention_removed_before_it_was_exported(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    async def add(first: int, end: int) -> tuple[int, tuple[str, ...]]:
        summary = await add_of_queue(lake, ScriptedTopic(first, end), first, end)
        return summary.rows, summary.lost

    assert await add(0, 100) == (100, ())
    gap = "T@broker-a:0: messages 100 to 129 arrived after the last export; the queue or the range begins after them"
    assert await add(130, 200) == (70, (gap,))
    assert capsys.readouterr().err == f"rmq: {gap}\n"
    assert [offset for _, _, offset in lake.places()] == [*range(100), *range(130, 200)]


def test_a_store_whose_retention_was_faster(
    cli: Run, copy_java_store: Callable[[str], JavaStore], lake: Lake
) -> None:
    store = copy_java_store("store-clean")
    export = ("export", "--store", str(store.root), "--topic", TOPIC, "--table", lake.name, "--no-verify")
    logs = store.commit_logs
    assert cli(*export, "-o", ":50").code == 0
    logs[0].unlink()
    said = cli(*export, "--resume", "--json")
    (lost,) = said.json["lost"]
    assert said.code == ExitCode.PARTLY
    assert "messages 50 to " in lost
    assert f"of queue 0 of topic {TOPIC} (and of 3 more queues) arrived after the last export" in lost
    assert (
        said.error["message"] == "messages that no longer exist are missing; --resume continues behind them"
    )
    assert len(lake.rows()) > 200


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--table", "x", "--out", "y"), "specify where to export to: --out DIR or --table TABLE"),
        ((), "specify where to export to: --out DIR or --table TABLE"),
        (("--table", "paimon:x"), "--table paimon:x: expected delta:URI or iceberg:CATALOG.NAMESPACE.NAME"),
        (("--table", "delta:"), "--table delta:: expected delta:URI or iceberg:"),
        (
            ("--table", "delta:x", "--partition-by", "day,hour"),
            "--partition-by day,hour: a table is partitioned by topic,day (default) or topic,hour",
        ),
        (("--table", "iceberg:a.b"), "iceberg:a.b: expected iceberg:CATALOG.NAMESPACE.NAME"),
        (("--table", "delta:x", "--spark"), "--table cannot be combined with --spark"),
        (("--table", "delta:x", "--resume", "-o", "-5"), "--resume continues where the last export ended"),
    ],
)
def test_usage(cli: Run, store_clean: JavaStore, words: tuple[str, ...], said: str) -> None:
    done = cli("export", "--store", str(store_clean.root), "--topic", TOPIC, *words)
    assert (done.code, done.err.count("\n")) == (ExitCode.USAGE, 1)
    assert done.err.startswith(f"rmq: {said}")


def test_a_missing_package(
    cli: Run, store_clean: JavaStore, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    package = lake.package
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == package else found(name, *rest)
    )
    done = cli("export", "--store", str(store_clean.root), "--table", lake.name)
    assert (done.code, done.err) == (
        ExitCode.USAGE,
        f"rmq: package {package} is not installed: pip install 'rmqcli[table]'\n",
    )


def test_a_table_in_the_store_that_is_read(cli: Run, copy_java_store: Callable[[str], JavaStore]) -> None:
    root = copy_java_store("store-clean").root
    done = cli("export", "--store", str(root), "--table", f"delta:{root}/lake")
    assert (done.code, "lies in the store folder" in done.err) == (ExitCode.USAGE, True)
    assert not (root / "lake").exists()


def test_a_catalog_that_is_not_configured(cli: Run, store_clean: JavaStore) -> None:
    done = cli("export", "--store", str(store_clean.root), "--table", "iceberg:nowhere.a.b")
    assert (done.code, done.err.count("\n")) == (ExitCode.USAGE, 1)
    assert "iceberg:nowhere.a.b: catalog nowhere is not configured (.pyiceberg.yaml or PYICEBERG_" in done.err


def test_an_unreachable_storage(cli: Run, store_clean: JavaStore) -> None:
    done = cli("export", "--store", str(store_clean.root), "--table", "delta:nothing://bucket/t")
    assert (done.code, done.err.count("\n")) == (ExitCode.FAILED, 1)
    assert done.err.startswith("rmq: delta:nothing://bucket/t: ")


@pytest.mark.parametrize("live", [False, True], ids=["store", "topic"])
def test_interrupted(
    rmq: Run, topic: str, store_clean: JavaStore, lake: Lake, monkeypatch: pytest.MonkeyPatch, live: bool
) -> None:
    """Ctrl-C while rows are written: nothing is committed, and no file is left."""
    add = ParquetFiles.add

    def interrupting(files: ParquetFiles, batch: Any) -> None:
        add(files, batch)
        signal.raise_signal(signal.SIGINT)

    rmq("send", topic, stdin=b"x\n" * 5)
    source = ("--topic", topic) if live else ("--store", str(store_clean.root), "--topic", TOPIC)
    with monkeypatch.context() as patched:
        patched.setattr(ParquetFiles, "add", interrupting)
        done = rmq("export", *source, "--table", lake.name)
    assert (done.code, done.out) == (ExitCode.INTERRUPTED, b"")
    assert done.err == f"rmq: interrupted: nothing was committed; continue {lake.name} with --resume\n"
    assert lake.data_files() == []
    assert rmq("export", *source, "--table", lake.name, "--resume").code == 0
    assert len(lake.rows()) == (5 if live else 1500)


def test_damage_leaves_nothing(
    cli: Run, copy_java_store: Callable[[str], JavaStore], lake: Lake, tmp_path: Path
) -> None:
    store = copy_java_store("store-clean")
    shutil.copytree(store.root, tmp_path / "other")
    harm_another_topic(store, {row["topic"] for row in java_rows(store)} - {TOPIC})
    export = (
        "export",
        "--topic",
        TOPIC,
        "--table",
        lake.name,
        "--store",
        str(store.root),
        "--broker-name",
        "b-0",
    )
    assert cli(*export).code == ExitCode.CORRUPT
    assert lake.data_files() == []
    both = cli(*export, "--store", str(tmp_path / "other"), "--broker-name", "b-1")
    assert (both.code, both.lines[0][2]) == (ExitCode.PARTLY, "1500")
    assert {row["broker_name"] for row in lake.rows()} == {"b-1"}


def test_a_topic_that_does_not_exist(rmq: Run, lake: Lake) -> None:
    done = rmq("export", "--topic", "nowhere", "--table", lake.name)
    assert (done.code, done.err.startswith("rmq: topic nowhere not found")) == (ExitCode.NOT_FOUND, True)
    assert not (lake.folder / "t").exists()


@pytest.mark.parametrize("lake", ["delta"], indirect=True)
async def test_a_broker_that_has_less_than_the_range(lake: Lake) -> None:
    """A slave lags behind the master that was asked for the end: the rest is for the next run."""
    counts = [(await add_of_queue(lake, ScriptedTopic(0, end), 0, 100)).rows for end in (60, 100)]
    assert counts == [60, 40]
    assert [offset for _, _, offset in lake.places()] == list(range(100))


@pytest.mark.parametrize("lake", ["delta"], indirect=True)
async def test_what_retention_removed_while_it_was_read(lake: Lake) -> None:
    summary = await add_of_queue(lake, ScriptedTopic(30, 100), 10, 100)
    assert (summary.rows, summary.lost) == (70, ("T@broker-a:0: messages 10 to 29 no longer exist",))


def test_typed_bodies_are_a_column_that_is_added(rmq: Run, topic: str, lake: Lake, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text(
        '{"properties": {"id": {"type": "integer"}, "to": {"properties": {"zip": {"type": "string"}}}}}'
    )
    export = ("export", "--topic", topic, "--table", lake.name)
    rmq("send", topic, "-q", "0", stdin=b"{}\n")
    assert rmq(*export).code == 0
    rmq("send", topic, "-q", "0", stdin=b'{"id": 7, "to": {"zip": "1010"}}\n{"id": 9}\n')
    assert rmq(*export, "--resume", "--decode", "json", "--schema", str(schema)).code == 0
    assert [row["value"] for row in lake.rows()] == [
        None,
        {"id": 7, "to": {"zip": "1010"}},
        {"id": 9, "to": None},
    ]
    schema.write_text('{"properties": {"id": {"type": "string"}}}')
    done = rmq(*export, "--resume", "--decode", "json", "--schema", str(schema))
    assert done.code == ExitCode.USAGE
    assert done.err == (
        f"rmq: {lake.name}: column value.id is int64 and would become string; columns are only added, so name a "
        "new table\n"
    )


@pytest.mark.parametrize("lake", ["delta"], indirect=True)
@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("before", "nothing was committed, and it is unknown whether a last commit was"),
        ("after", "1,500 rows committed"),
    ],
)
def test_interrupted_while_it_commits(
    cli: Run, store_clean: JavaStore, lake: Lake, monkeypatch: pytest.MonkeyPatch, at: str, said: str
) -> None:
    """The table is asked; files that may be in it are kept."""
    commit = DeltaTable.commit

    def interrupted(*arguments: Any) -> None:
        if at == "after":
            commit(*arguments)
        raise KeyboardInterrupt

    export = ("export", "--store", str(store_clean.root), "--topic", TOPIC, "--table", lake.name)
    with monkeypatch.context() as patched:
        patched.setattr(DeltaTable, "commit", interrupted)
        done = cli(*export)
    assert done.err == f"rmq: interrupted: {said}; continue {lake.name} with --resume\n"
    assert len(lake.data_files()) == 1
    assert cli(*export, "--resume").code == 0
    assert len(lake.rows()) == 1500
