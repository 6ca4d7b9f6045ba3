"""Bodies that do not decode: each is once in the quarantine, or once in the table, whatever is killed when."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.export.tables import run as feeding
from rmqcli.export.tables.run import feed
from tests.cli.conftest import Run
from tests.export.tables.support import Lake
from tests.s3 import Bucket, bucket, s3_address
from tests.support import JavaStore

__all__ = ["bucket", "s3_address"]
SCHEMA = '{"properties": {"id": {"type": "integer"}}}'
COLUMNS = ["topic", "broker_name", "queue_id", "queue_offset", "msg_id", "store_timestamp", "body", "reason"]


def aside_name(lake: Lake, kind: str) -> str:
    if kind == "folder":
        return str(lake.folder / "bad")
    return f"delta:{lake.folder}/bad" if kind == "delta" else "iceberg:test.lake.bad"


def aside_rows(lake: Lake, kind: str) -> list[dict[str, Any]]:
    if kind == "folder":
        tables = [pq.read_table(file) for file in (lake.folder / "bad").glob("*.parquet")]
        rows = [row for table in tables for row in table.to_pylist()]
    elif kind == "delta":
        from deltalake import DeltaTable

        rows = DeltaTable(f"{lake.folder}/bad").to_pyarrow_table().to_pylist()
    else:
        from pyiceberg.catalog import load_catalog

        rows = load_catalog("test").load_table("lake.bad").scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: (row["topic"], row["queue_id"], row["queue_offset"]))


@pytest.fixture
def export(rmq: Run, topic: str, lake: Lake, tmp_path: Path) -> Callable[..., list[str]]:
    schema = tmp_path / "schema.json"
    schema.write_text(SCHEMA)

    def words(kind: str, *more: str) -> list[str]:
        found = [
            "export",
            "--topic",
            topic,
            "--table",
            lake.name,
            "--decode",
            "json",
            "--schema",
            str(schema),
        ]
        return [*found, "--quarantine", aside_name(lake, kind), *more]

    return words


Words = Callable[..., list[str]]


@pytest.fixture(params=["table", "folder"])
def kind(request: Any, lake: Lake) -> str:
    """The kind of the quarantine: as that of the table, or a folder."""
    return lake.kind if request.param == "table" else "folder"


def ids(lake: Lake) -> list[int]:
    return sorted(row["value"]["id"] for row in lake.rows())


def test_rows_are_in_one_of_both(rmq: Run, topic: str, lake: Lake, kind: str, export: Words) -> None:
    rmq("send", topic, "-q", "0", stdin=b'{"id": 1}\n{"id": "x"}\n{"id": 2}\nnothing\n')
    done = rmq(*export(kind, "--json"))
    assert (done.code, done.json["rows"], done.json["quarantined"]) == (0, 2, 2)
    rmq("send", topic, "-q", "0", stdin=b"only wrong\n")
    again = rmq(*export(kind, "--resume"))
    assert (again.code, again.err) == (0, "rmq: 1 body did not decode: added to the quarantine\n")
    rmq("send", topic, "-q", "0", stdin=b'{"id": 3}\n')
    assert rmq(*export(kind, "--resume")).err == ""
    assert ids(lake) == [1, 2, 3]
    found = aside_rows(lake, kind)
    assert [row["queue_offset"] for row in found] == [1, 3, 4]
    assert [row["body"] for row in found] == [b'{"id": "x"}', b"nothing", b"only wrong"]
    assert found[0]["reason"] == "id: expected number, found string"
    assert [name for name in found[0] if name != "day"] == COLUMNS
    assert all(row["topic"] == topic and row["msg_id"] and row["store_timestamp"] for row in found)


KILL = """
import os, signal, sys
from rmqcli.export.tables.quarantine import Quarantine
from rmqcli.export.tables.run import TableRun

kind, name = {"before": (TableRun, "_commit"), "between": (Quarantine, "complete"),
              "finished": (Quarantine, "_commit"), "after": (Quarantine, "_commit")}[sys.argv[1]]
point = sys.argv[1]
real, decide = getattr(kind, name), TableRun._commit
is_decided = point == "before"

def decided(*arguments):
    global is_decided
    decide(*arguments)
    is_decided = True

def killed(*arguments):
    if point == "after" or not is_decided:
        real(*arguments)
    if is_decided:
        os.kill(os.getpid(), signal.SIGKILL)

TableRun._commit = decided
setattr(kind, name, killed)
from rmqcli.__main__ import main
sys.argv[:2] = ["rmq"]
main()
"""


@pytest.mark.parametrize("point", ["between", "before", "finished", "after"])
def test_killed(
    rmq: Run, topic: str, lake: Lake, kind: str, export: Words, point: str, tmp_path: Path
) -> None:
    """Also when the schema is another one by then."""
    rmq("send", topic, "-q", "0", stdin=b'{"id": 1}\nwrong\n')
    assert rmq(*export(kind)).code == 0
    rmq("send", topic, "-q", "0", stdin=b'{"id": 2}\nbad\n{"id": 3, "to": 7}\n{"id": 1.5}\n')
    command = [sys.executable, "-c", KILL, point, *export(kind, "--resume")]
    assert subprocess.run(command, check=False, capture_output=True).returncode == -signal.SIGKILL
    is_decided = point != "before"
    assert ids(lake) == ([1, 2, 3] if is_decided else [1])
    assert len(aside_rows(lake, kind)) == {"after": 3, "finished": 3 if kind == "folder" else 1}.get(point, 1)
    (tmp_path / "schema.json").write_text(SCHEMA.replace("}}}", '}, "to": {"type": "string"}}}'))
    rmq("send", topic, "-q", "0", stdin=b'{"id": 4, "to": "x"}\nlast\n')
    for _ in range(2):
        assert rmq(*export(kind, "--resume")).code == 0
    assert ids(lake) == ([1, 2, 3, 4] if is_decided else [1, 2, 4])
    wrong = [1, 3, 5, 7] if is_decided else [1, 3, 4, 5, 7]
    assert [row["queue_offset"] for row in aside_rows(lake, kind)] == wrong


def test_a_feed(
    rmq: Run, topic: str, lake: Lake, kind: str, export: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [
        partial(rmq, "send", topic, stdin=b"bad\n"),
        partial(rmq, "send", topic, stdin=b'{"id": 2}\nbad\n'),
    ]

    def sleep(seconds: float) -> None:
        if not steps:
            raise KeyboardInterrupt
        steps.pop(0)()

    monkeypatch.setattr(feeding, "feed", partial(feed, sleep=sleep))
    rmq("send", topic, stdin=b'{"id": 1}\nbad\n')
    assert rmq(*export(kind, "--follow")).code == ExitCode.INTERRUPTED
    assert (ids(lake), len(aside_rows(lake, kind))) == ([1, 2], 3)


@pytest.mark.parametrize("lake", ["delta"], indirect=True)
def test_a_quarantine_of_several_topics(rmq: Run, topic: str, lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text(SCHEMA)
    for end in ("a", "b"):
        rmq("topic", "create", f"{topic}{end}", "--queues", "1")
    words = ["export", "--topic", f"{topic}?", "--table", f"delta:{lake.folder}/{{topic}}"]
    words += ["--decode", "json", "--schema", str(tmp_path / "schema.json")]
    for number in range(2):
        for end in ("a", "b"):
            rmq("send", f"{topic}{end}", stdin=b'{"id": 1}\nbad\n')
        assert rmq(*words, "--quarantine", aside_name(lake, "delta"), *["--resume"][:number]).code == 0
    found = [(row["topic"], row["queue_offset"]) for row in aside_rows(lake, "delta")]
    assert found == [(f"{topic}{end}", offset) for end in ("a", "b") for offset in (1, 3)]


@pytest.mark.parametrize("lake", ["delta"], indirect=True)
def test_masks_and_samples_apply(rmq: Run, topic: str, lake: Lake, export: Words) -> None:
    """A mask of a field hides the body in the quarantine, too."""
    rmq("send", topic, "-q", "0", stdin=b'{"id": 1}\n{"id": "secret"}\n')
    assert rmq(*export("delta", "--mask", "value.id:hash", "--mask", "msg_id:drop")).code == 0
    (row,) = aside_rows(lake, "delta")
    assert (row["body"], row["msg_id"], row["queue_offset"]) == (None, None, 1)
    assert row["reason"] == "id: expected number, found string"
    (kept,) = lake.rows()
    assert len(kept["value"]["id"]) == 64


@pytest.mark.parametrize("lake", ["delta"], indirect=True)
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_store(cli: Run, store_clean: JavaStore, lake: Lake, tmp_path: Path, jobs: str) -> None:
    """Rows of both are compared with the queues."""
    (tmp_path / "schema.json").write_text(SCHEMA)
    words = [
        "export",
        "--store",
        str(store_clean.root),
        "--topic",
        "SeedNormal",
        "--table",
        lake.name,
        "-j",
        jobs,
    ]
    words += ["--decode", "json", "--schema", str(tmp_path / "schema.json")]
    done = cli(*words, "--quarantine", aside_name(lake, "delta"), "--json")
    assert (done.json["rows"], done.json["quarantined"]) == (0, 1500)
    assert len({(row["queue_id"], row["queue_offset"]) for row in aside_rows(lake, "delta")}) == 1500
    again = cli(*words, "--quarantine", aside_name(lake, "delta"), "--json", "--resume")
    assert (again.json["rows"], again.json["quarantined"]) == (0, 0)


@pytest.mark.parametrize("lake", ["delta"], indirect=True)
def test_a_folder_in_s3(
    rmq: Run, topic: str, lake: Lake, export: Words, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rmqcli.export.tables.quarantine import Quarantine

    rmq("send", topic, stdin=b"bad\n")
    words = export("delta")
    words[-1] = bucket.folder("bad")

    def killed(self: Quarantine, batch: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Quarantine, "complete", killed)
        assert rmq(*words).code == ExitCode.INTERRUPTED
    assert [name.endswith(".parquet.tmp") for name in bucket.names("lake/bad")] == [True]
    assert rmq(*words, "--resume").code == 0
    assert bucket.table("lake/bad")["body"].to_pylist() == [b"bad"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--out", "x", "--quarantine", "y"), "--quarantine requires --table"),
        (("--table", "delta:x", "--quarantine", "delta:x"), "--quarantine must not be the table itself"),
        (("--table", "delta:x", "--quarantine", "y"), "--quarantine require --decode or --registry"),
        (
            (
                "--table",
                "delta:x",
                "--decode",
                "json",
                "--schema",
                "s",
                "--quarantine",
                "y",
                "--on-error",
                "null",
            ),
            "--quarantine and --on-error cannot be combined",
        ),
        (
            ("--table", "delta:x", "--decode", "json", "--schema", "s", "--quarantine", "iceberg:a"),
            "iceberg:a: expected iceberg:CATALOG.NAMESPACE.NAME",
        ),
    ],
)
def test_usage(
    cli: Run, words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s").write_text(SCHEMA)
    done = cli("export", "--topic", "t", *words)
    assert (done.code, done.err.count("\n")) == (ExitCode.USAGE, 1)
    assert said in done.err


def test_the_document_of_progress() -> None:
    """What a commit says is short: nothing of a quarantine that is not used."""
    from rmqcli.export.tables.progress import Progress

    assert json.loads(Progress("r").text) == {"run": "r"}
