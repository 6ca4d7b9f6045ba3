"""`rmq import` as typed: messages come back equal, nothing is sent twice, failed rows are named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import trio
from pyarrow import parquet

from rmqcli.broker.testing.embedded import Cluster
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.client import Producer
from rmqcli.codec.message import Message
from rmqcli.import_.rows import local_file
from rmqcli.import_.sources import read_rows
from tests.cli.conftest import Run
from tests.support import PATIENCE, RMQ

TIMES = ("ORIGINAL_BORN_TIMESTAMP", "ORIGINAL_STORE_TIMESTAMP")
COUNT = 150


@pytest.fixture
def filled(cluster: Cluster, topic: str) -> str:
    """A topic with messages of all kinds in four queues."""
    trio.run(fill, cluster, topic)
    return topic


async def fill(cluster: Cluster, topic: str) -> None:
    async with Producer(
        "G_import", namesrv=cluster.namesrv, timeout=PATIENCE, send_timeout=PATIENCE
    ) as producer:
        for number in range(COUNT):
            message = Message.of(
                topic,
                b"\xff\x00" * (number + 1) if number % 2 else b"text %d" % number,
                tags=f"tag{number % 3}" if number % 4 else None,
                keys=[f"k{number}", "ü"] if number % 5 else (),
                properties={"a": "1", "ä": "ö"} if number % 2 else None,
                flag=number,
            )
            await producer.send(message)


def new_topic(rmq: Run, name: str, queues: int = 4) -> str:
    assert rmq("topic", "create", name, "--queues", str(queues)).code == 0
    return name


def contents(rmq: Run, topic: str) -> list[Any]:
    """The fields that must come through, queue by queue in order."""
    found = rmq("pull", topic, "--json").json_lines
    found.sort(key=lambda line: (line["queueId"], line["queueOffset"]))
    for line in found:
        line["properties"] = {name: value for name, value in line["properties"].items() if name not in TIMES}
    kept = ("queueId", "msgId", "body", "bodyBase64", "keys", "tags", "flag", "properties")
    return [[line.get(name) for name in kept] for line in found]


@pytest.mark.parametrize(
    "how", [[], ["--partition-by", "topic,day,queue"], ["--file-size", "2K", "--row-group-size", "1K"]]
)
def test_topic_to_parquet_to_topic(rmq: Run, filled: str, tmp_path: Path, how: list[str]) -> None:
    assert rmq("export", "--topic", filled, "--out", str(tmp_path / "out"), *how).code == 0
    copy = new_topic(rmq, f"copy_{filled}")
    result = rmq("import", str(tmp_path / "out"), "--topic", copy)
    assert (result.code, result.err) == (0, "")
    assert result.lines[0][:4] == [copy, str(COUNT), "0", "0"]
    assert contents(rmq, copy) == contents(rmq, filled)


def test_topic_to_lines_to_topic(rmq: Run, filled: str, tmp_path: Path) -> None:
    path = tmp_path / "messages.jsonl"
    pulled = rmq("pull", filled, "--json")
    path.write_bytes(pulled.out)
    copy = new_topic(rmq, f"copy_{filled}")
    assert rmq("import", str(path), "--topic", copy, "--json").json["sent"] == COUNT
    assert contents(rmq, copy) == contents(rmq, filled)
    before = {line["msgId"]: line for line in pulled.json_lines}
    for line in rmq("pull", copy, "--json").json_lines:
        said = [line["properties"][name] for name in TIMES]
        original = before[line["msgId"]]
        assert said == [str(original["bornTimestamp"]), str(original["storeTimestamp"])]


def lines_of(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_lines_need_no_pyarrow(rmq: Run, cluster: Cluster, topic: str, tmp_path: Path) -> None:
    path = lines_of(tmp_path / "a.jsonl", [{"body": "x"}])
    without = "import sys; sys.modules['pyarrow'] = None; from rmqcli.__main__ import main; main()"
    words = ["-n", cluster.namesrv, "import", str(path), "--topic", topic]
    done = subprocess.run(
        [sys.executable, "-c", without, *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_times_of_the_first_original_stay(rmq: Run, topic: str, tmp_path: Path) -> None:
    line = {"body": "x", "properties": {TIMES[0]: "5"}, "bornTimestamp": 7, "storeTimestamp": 8}
    rmq("import", str(lines_of(tmp_path / "a.jsonl", [line])), "--topic", topic)
    (found,) = rmq("pull", topic, "--json").json_lines
    assert [found["properties"][name] for name in TIMES] == ["5", "8"]


def test_times_in_seconds(rmq: Run, topic: str, tmp_path: Path) -> None:
    line = {"body": "x", "bornTimestamp": 1_577_836_800, "storeTimestamp": 1_577_836_800_001}
    rmq("import", str(lines_of(tmp_path / "a.jsonl", [line])), "--topic", topic)
    (found,) = rmq("pull", topic, "--json").json_lines
    assert [found["properties"][name] for name in TIMES] == ["1577836800000", "1577836800001"]


def test_equal_keys_meet(rmq: Run, topic: str, tmp_path: Path) -> None:
    lines = [{"body": "x", "keys": [f"k{n % 7}"], "queueId": 3} for n in range(70)]
    rmq("import", str(lines_of(tmp_path / "a.jsonl", lines)), "--topic", topic, "--queues", "hash")
    found = rmq("pull", topic, "--json").json_lines
    places = {(line["keys"][0], line["queueId"]) for line in found}
    assert len(found) == 70
    assert len(places) == 7
    assert len({queue for _, queue in places}) > 1


def test_round_robin(rmq: Run, topic: str, tmp_path: Path) -> None:
    lines = [{"body": "x", "queueId": 3}] * 20
    path = lines_of(tmp_path / "a.jsonl", lines)
    result = rmq("import", str(path), "--topic", topic, "--queues", "round-robin", "--json").json
    assert [queue["messages"] for queue in result["queues"]] == [5, 5, 5, 5]


def test_failed_rows_are_named_and_tried_again(rmq: Run, topic: str, tmp_path: Path) -> None:
    path = lines_of(tmp_path / "a.jsonl", [{"body": f"{n}", "queueId": n} for n in range(7)])
    with path.open("a") as file:
        file.write("no json\n")
    result = rmq("import", str(path), "--topic", topic)
    assert (result.code, result.lines[0][1:4]) == (ExitCode.PARTLY, ["4", "4", "0"])
    assert "rmq: not sent: a.jsonl: row 5: topic" in result.err
    assert "rmq: not sent: a.jsonl: row 8: not a message: " in result.err
    assert result.err.endswith("rmq: 4 sent, 4 failed; --resume retries the failed rows\n")
    again = rmq("import", str(path), "--topic", topic, "--resume", "--queues", "round-robin")
    assert (again.code, again.lines[0][1:4]) == (ExitCode.PARTLY, ["3", "1", "4"])
    bodies = sorted(line["body"] for line in rmq("pull", topic, "--json").json_lines)
    assert bodies == [str(n) for n in range(7)]


def test_one_message_that_is_too_large(rmq: Run, topic: str, tmp_path: Path) -> None:
    lines = [{"body": "x" * (5_000_000 if n == 3 else 10), "queueId": 0} for n in range(6)]
    result = rmq("import", str(lines_of(tmp_path / "a.jsonl", lines)), "--topic", topic)
    assert (result.code, result.lines[0][1:3]) == (ExitCode.PARTLY, ["5", "1"])
    assert "a.jsonl: row 4: " in result.err


def test_a_dry_run_sends_nothing(rmq: Run, topic: str, tmp_path: Path) -> None:
    path = lines_of(tmp_path / "a.jsonl", [{"body": "x", "queueId": n} for n in range(5)])
    result = rmq("import", str(path), "--topic", topic, "--dry-run", "--json")
    assert (result.json["sent"], result.json["messages"], result.json["failed"]) == (0, 4, 1)
    assert [queue["queueId"] for queue in result.json["queues"]] == [0, 1, 2, 3]
    assert rmq("pull", topic).out == b""
    assert sorted(file.name for file in tmp_path.iterdir() if file.is_file()) == ["a.jsonl"]


def test_a_second_import_is_refused(rmq: Run, topic: str, tmp_path: Path) -> None:
    path = str(lines_of(tmp_path / "a.jsonl", [{"body": "x"}]))
    kept = tmp_path / "kept"
    assert rmq("import", path, "--topic", topic, "--progress", str(kept)).code == 0
    refused = rmq("import", path, "--topic", topic, "--progress", str(kept))
    assert (refused.code, refused.out) == (ExitCode.USAGE, b"")
    assert refused.err.startswith(f"rmq: {kept} belongs to an earlier import: continue with --resume")
    other = rmq("import", path, "--topic", "Other", "--progress", str(kept), "--resume")
    assert other.err == f"rmq: {kept} is of an import of {path} to topic {topic}\n"
    nothing = rmq("import", path, "--topic", topic, "--progress", str(kept), "--resume")
    assert nothing.lines[0][1:4] == ["0", "0", "1"]


def test_a_torn_last_line_of_the_progress(rmq: Run, topic: str, tmp_path: Path) -> None:
    path = lines_of(tmp_path / "a.jsonl", [{"body": f"{n}"} for n in range(3)])
    kept = tmp_path / f"a.jsonl.{topic}.import"
    rmq("import", str(path), "--topic", topic)
    head = kept.read_bytes().splitlines(keepends=True)[0]
    kept.write_bytes(head + b'{"file":"a.jsonl","rows":[[0,2]]}\n{"file":"a.jsonl","ro')
    assert rmq("import", str(path), "--topic", topic, "--resume").lines[0][1:4] == ["1", "0", "2"]


def test_what_an_export_added_is_sent_and_no_more(rmq: Run, filled: str, tmp_path: Path) -> None:
    export = ("export", "--topic", filled, "--out", str(tmp_path / "out"), "--partition-by", "queue")
    copy = new_topic(rmq, f"copy_{filled}")
    assert rmq(*export).code == rmq("import", str(tmp_path / "out"), "--topic", copy).code == 0
    rmq("send", filled, stdin=b"one\ntwo\nthree\n")
    assert rmq(*export, "--resume").lines[0][2] == "3"
    result = rmq("import", str(tmp_path / "out"), "--topic", copy, "--resume")
    assert result.lines[0][1:4] == ["3", "0", str(COUNT)]
    assert contents(rmq, copy) == contents(rmq, filled)


def test_columns_without_properties(rmq: Run, topic: str, tmp_path: Path) -> None:
    table = pa.table({"body_text": ["a", None], "tags": ["t", None], "keys": [["k", "l"], []]})
    parquet.write_table(table, tmp_path / "a.parquet")
    result = rmq("import", str(tmp_path / "a.parquet"), "--topic", topic)
    assert (result.code, result.lines[0][1:3]) == (ExitCode.PARTLY, ["1", "1"])
    (found,) = rmq("pull", topic, "--json").json_lines
    assert (found["body"], found["tags"], found["keys"]) == ("a", "t", ["k", "l"])


def test_files_that_cannot_be_read(rmq: Run, topic: str, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.parquet").write_bytes(b"PAR1 not really")
    parquet.write_table(pa.table({"n": [1]}), folder / "b.parquet")
    (folder / "_hidden.jsonl").write_text('{"body": "hidden"}\n')
    lines_of(folder / "c.jsonl", [{"body": "good"}])
    result = rmq("import", str(folder), "--topic", topic)
    assert result.code == ExitCode.PARTLY
    assert "rmq: not sent: a.parquet: row 1: the file cannot be read further: " in result.err
    assert "rmq: not sent: b.parquet: row 1: column body is missing" in result.err
    assert [line["body"] for line in rmq("pull", topic, "--json").json_lines] == ["good"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["none.jsonl", "--topic", "T"], ExitCode.NOT_FOUND, "none.jsonl: no such file or folder"),
        (["a.txt", "--topic", "T"], ExitCode.USAGE, "a.txt: expected a .parquet or .jsonl file"),
        (
            ["pipe", "--topic", "T"],
            ExitCode.USAGE,
            "pipe: expected a .parquet or .jsonl file; `rmq send --js",
        ),
        ([".", "--topic", "T"], ExitCode.NOT_FOUND, ".: no .parquet or .jsonl file is in this folder"),
        (["a.jsonl", "--topic", "T", "--progress", "."], ExitCode.USAGE, "--progress .: expected a file in"),
        (
            ["a.jsonl", "--topic", "T", "--progress", "no/x"],
            ExitCode.USAGE,
            "--progress no/x: expected a file in",
        ),
        (
            [".", "--topic", "T", "--queues", "x"],
            ExitCode.USAGE,
            "--queues x: expected keep, hash or round-robin",
        ),
    ],
)
def test_wrong_command_lines(
    rmq: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, said: str
) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    (tmp_path / "in" / "a.txt").touch()
    os.mkfifo(tmp_path / "in" / "pipe")
    if "--progress" in arguments:
        (tmp_path / "in" / "a.jsonl").touch()
    result = rmq("import", *arguments)
    assert (result.code, result.out, result.err.count("\n")) == (code, b"", 1)
    assert result.err.startswith(f"rmq: {said}")


def test_no_name_server(cli: Run, tmp_path: Path) -> None:
    path = lines_of(tmp_path / "a.jsonl", [{"body": "x"}])
    result = cli("-n", "127.0.0.1:1", "import", str(path), "--topic", "T")
    assert (result.code, result.out) == (ExitCode.NO_CONNECTION, b"")
    assert not (tmp_path / "a.jsonl.T.import").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_killed_in_the_middle(
    rmq: Run, cluster: Cluster, topic: str, tmp_path: Path, number: signal.Signals
) -> None:
    """Interrupted: exactly the rest is sent. Killed: nothing is lost, only pending sends may arrive twice."""
    total = 3000
    path = lines_of(tmp_path / "a.jsonl", [{"body": f"{n}", "queueId": n % 4} for n in range(total)])
    kept = tmp_path / f"a.jsonl.{topic}.import"
    command = [*RMQ, "import", str(path), "--topic", topic, "--rate", "200"]
    process = subprocess.Popen(
        command, env=os.environ | {"RMQ_NAMESRV": cluster.namesrv}, stderr=subprocess.DEVNULL
    )
    try:
        while not kept.exists() or kept.read_bytes().count(b"\n") < 50:
            assert process.poll() is None
            time.sleep(0.01)
    finally:
        process.send_signal(number)
        process.wait(PATIENCE)
    there = len(rmq("pull", topic, "--json").json_lines)
    assert 0 < there < total
    again = rmq("import", str(path), "--topic", topic, "--resume")
    assert again.code == 0
    bodies = [line["body"] for line in rmq("pull", topic, "--json").json_lines]
    assert {int(body) for body in bodies} == set(range(total))
    assert len(bodies) <= total + (0 if number is signal.SIGINT else 4 * 64)


def test_rows_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    table = pa.table({"body": [b"x"] * 5000, "queue_id": [1] * 5000})
    parquet.write_table(table, tmp_path / "a.parquet")
    rows = list(read_rows(local_file("a.parquet", tmp_path / "a.parquet"), "T"))
    assert [row.number for row in rows] == list(range(5000))
    assert {row.queue_id for row in rows} == {1}


def test_a_disk_that_is_full(rmq: Run, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The progress file silently takes a part of a line: this ends the import, and the next one resumes."""
    path = lines_of(tmp_path / "in.jsonl", [{"body": str(number)} for number in range(3)])
    note = tmp_path / "note"
    write = os.write

    def short(descriptor: int, data: bytes) -> int:
        is_note = data.startswith(b'{"file"')
        return write(descriptor, data[:-3] if is_note else data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", short)
        result = rmq("import", str(path), "--topic", topic, "--progress", str(note))
    assert (result.code, result.err) == (ExitCode.FAILED, f"rmq: {note}: No space left on device\n")
    assert rmq("import", str(path), "--topic", topic, "--progress", str(note), "--resume").code == 0
    assert len(rmq("import", str(path), "--topic", topic, "--progress", str(note), "--resume").lines) == 1


def test_a_note_that_cannot_be_begun(rmq: Run, topic: str, tmp_path: Path) -> None:
    path, note = lines_of(tmp_path / "in.jsonl", [{"body": "a"}]), tmp_path / "note"
    # the temporary file of the note is on a device that is always full
    note.with_name(f".note.{os.getpid()}-{threading.get_ident()}.tmp").symlink_to("/dev/full")
    result = rmq("import", str(path), "--topic", topic, "--progress", str(note))
    assert (result.code, result.err) == (ExitCode.FAILED, f"rmq: {note}: No space left on device\n")
    assert [file.name for file in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_rows_are_selected(rmq: Run, filled: str, tmp_path: Path, form: str) -> None:
    path = tmp_path / ("out" if form == "parquet" else "out.jsonl")
    if form == "parquet":
        assert rmq("export", "--topic", filled, "--out", str(path)).code == 0
    else:
        path.write_bytes(rmq("pull", filled, "--json").out)
    copy, where = (
        new_topic(rmq, f"copy_{filled}"),
        "tags = 'tag1' AND queue_id < 2 AND a = '1' AND flag < 100",
    )
    words = ("import", str(path), "--topic", copy, "--where", where, "--json")
    lines = rmq("pull", filled, "--where", where, "--json").json_lines
    dry = rmq(*words, "--dry-run").json
    assert (dry["messages"], dry["filtered"]) == (len(lines), COUNT - len(lines))
    assert rmq(*words).json["sent"] == len(lines) > 0
    assert {line[1] for line in contents(rmq, copy)} == {line["msgId"] for line in lines}
    wrong = rmq("import", str(path), "--topic", copy, "--where", "a =")
    assert wrong.code == ExitCode.USAGE and wrong.err.count("\n") == 1 and "a =" in wrong.err
