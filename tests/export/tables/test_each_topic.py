"""One table for each topic: what a feed does with new topics, with tables that fail, and when it is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable

from rmqcli.broker.testing.embedded import Cluster
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.export.tables import run as feeding
from rmqcli.export.tables.naming import name_for
from rmqcli.export.tables.run import feed
from tests.cli.conftest import Run
from tests.support import JavaStore


def rows(table: Path) -> list[tuple[str, int, int]]:
    found = DeltaTable(str(table)).to_pyarrow_table(columns=["topic", "queue_id", "queue_offset"])
    return sorted(tuple(row.values()) for row in found.to_pylist())


def counts(folder: Path) -> dict[str, int]:
    """Returns the number of rows of each table, none of which is there twice, by its name."""
    found = {path.name: rows(path) for path in sorted(folder.iterdir()) if (path / "_delta_log").exists()}
    assert all(len(own) == len(set(own)) for own in found.values())
    assert all({topic for topic, *_ in own} <= {name} for name, own in found.items())
    return {name: len(own) for name, own in found.items()}


@pytest.fixture
def send(rmq: Run, topic: str) -> Callable[..., None]:
    """Sends messages to a topic whose name continues the one of the test; it is created."""

    def send(end: str, count: int) -> None:
        rmq("topic", "create", f"{topic}{end}", "--queues", "2")
        assert rmq("send", f"{topic}{end}", stdin=b"x\n" * count).code == 0

    return send


@pytest.fixture
def at_pauses(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs one step in each pause of the feed, then presses Ctrl-C."""

    def arrange(*steps: Callable[[], object]) -> None:
        left = list(steps)

        def sleep(seconds: float) -> None:
            if not left:
                raise KeyboardInterrupt
            left.pop(0)()

        monkeypatch.setattr(feeding, "feed", partial(feed, sleep=sleep))

    return arrange


def words(topic: str, folder: Path, *more: str) -> tuple[str, ...]:
    return ("export", "--topic", f"{topic}-*", "--table", f"delta:{folder}/{{topic}}", *more)


def test_once_and_again(rmq: Run, topic: str, send: Callable[..., None], tmp_path: Path) -> None:
    send("-a", 5)
    send("-b", 3)
    done = rmq(*words(topic, tmp_path))
    assert [(line[0], line[2]) for line in done.lines] == [
        (f"delta:{tmp_path}/{topic}-a", "5"),
        (f"delta:{tmp_path}/{topic}-b", "3"),
    ]
    send("-b", 2)
    send("-c", 1)
    assert len(rmq(*words(topic, tmp_path, "--resume")).lines) == 2
    assert counts(tmp_path) == {f"{topic}-a": 5, f"{topic}-b": 5, f"{topic}-c": 1}
    again = rmq(*words(topic, tmp_path))
    exists = f"rmq: delta:{tmp_path}/{topic}-a: exists; add to it with --resume, or name a new table\n"
    assert (again.code, again.err) == (ExitCode.USAGE, exists)


def test_a_table_that_fails_does_not_stop_the_others(
    rmq: Run, topic: str, send: Callable[..., None], tmp_path: Path
) -> None:
    for end in ("-a", "-b"):
        send(end, 2)
    (tmp_path / f"{topic}-a").write_text("no folder")
    done = rmq(*words(topic, tmp_path))
    assert (done.code, done.err.count("\n")) == (ExitCode.PARTLY, 1)
    assert done.err.startswith(f"rmq: delta:{tmp_path}/{topic}-a: ")
    assert len(rows(tmp_path / f"{topic}-b")) == 2


def test_a_feed(
    rmq: Run, topic: str, send: Callable[..., None], tmp_path: Path, at_pauses: Callable[..., None]
) -> None:
    """A topic that is created joins; a table that failed is tried again, from where its range begins."""
    for end in ("-a", "-b"):
        send(end, 2)
    broken = tmp_path / f"{topic}-a"
    broken.write_text("no folder")
    at_pauses(
        partial(send, "-b", 1),
        partial(send, "-c", 4),
        broken.unlink,
        partial(send, "-a", 1),
        lambda: None,
    )
    done = rmq(*words(topic, tmp_path, "--follow"))
    assert done.code == ExitCode.INTERRUPTED
    assert counts(tmp_path) == {f"{topic}-a": 3, f"{topic}-b": 3, f"{topic}-c": 4}
    text = f"rmq: interrupted: 10 rows committed; continue delta:{tmp_path}/{{topic}} with --resume\n"
    assert done.err == text


def test_a_failure_is_reported_once(
    rmq: Run, topic: str, send: Callable[..., None], tmp_path: Path, at_pauses: Callable[..., None]
) -> None:
    for end in ("-a", "-b"):
        send(end, 2)
    (tmp_path / f"{topic}-a").write_text("no folder")
    at_pauses(lambda: None, lambda: None)
    first, last = rmq(*words(topic, tmp_path, "--follow")).err.splitlines()
    assert first.startswith(f"rmq: delta:{tmp_path}/{topic}-a: ") and first.endswith("; trying again")
    assert last.startswith("rmq: interrupted: 2 rows committed; continue ")


def test_only_what_arrives_from_now_on(
    rmq: Run, topic: str, send: Callable[..., None], tmp_path: Path, at_pauses: Callable[..., None]
) -> None:
    """All messages of a topic that is created later are new."""
    send("-a", 5)
    at_pauses(partial(send, "-a", 1), partial(send, "-b", 2))
    rmq(*words(topic, tmp_path, "--follow", "-o", "end"))
    assert counts(tmp_path) == {f"{topic}-a": 1, f"{topic}-b": 2}


def test_tables_that_all_fail_at_first(
    rmq: Run, topic: str, send: Callable[..., None], tmp_path: Path, at_pauses: Callable[..., None]
) -> None:
    send("-a", 1)
    (tmp_path / f"{topic}-a").write_text("no folder")
    at_pauses()
    assert rmq(*words(topic, tmp_path, "--follow")).code not in (ExitCode.DONE, ExitCode.INTERRUPTED)


def test_a_store(cli: Run, store_clean: JavaStore, tmp_path: Path) -> None:
    name = f"delta:{tmp_path}/{{topic}}"
    store = ("export", "--store", str(store_clean.root), "--table", name)
    assert cli(*store, "--topic", "SeedT*", "--topic", "SeedNormal").code == 0
    assert counts(tmp_path)["SeedNormal"] == 1500
    assert len(counts(tmp_path)) > 1
    done = cli(*store)
    assert (done.code, done.err) == (
        ExitCode.USAGE,
        "rmq: --table with {topic} requires --topic, which may be a pattern such as '*'\n",
    )


def test_names() -> None:
    assert name_for("delta:lake/{topic}", "%DLQ%g") == "delta:lake/%DLQ%g"
    assert name_for("delta:s3://lake/{topic}", "%DLQ%g") == "delta:s3://lake/%25DLQ%25g"
    assert name_for("iceberg:c.n.{topic}", "a") == "iceberg:c.n.a"


def test_dead_letters(rmq: Run, topic: str, tmp_path: Path) -> None:
    letters = f"%DLQ%{topic}"
    rmq("topic", "create", letters, "--queues", "1")
    rmq("send", letters, stdin=b"x\n" * 2)
    done = rmq("export", "--topic", letters, "--table", f"delta:{tmp_path}/{{topic}}")
    assert (done.code, counts(tmp_path)) == (0, {letters: 2})


def test_killed_again_and_again(
    cluster: Cluster, rmq: Run, topic: str, send: Callable[..., None], tmp_path: Path
) -> None:
    """Each row is once in its table, whenever the process is killed; a last run adds the rest."""
    sent: dict[str, int] = {}
    command = words(topic, tmp_path, "--resume", "--follow", "--every", "0.1")
    for number in range(5):
        for end in ("-a", "-b", f"-{number}"):
            send(end, 3)
            sent[f"{topic}{end}"] = sent.get(f"{topic}{end}", 0) + 3
        process = subprocess.Popen(
            [sys.executable, "-m", "rmqcli", *command], stderr=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        for _ in range(number % 4):  # killed after the commit of one table or of another, or before any
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.communicate()
        counts(tmp_path)
    assert rmq(*words(topic, tmp_path, "--resume")).code == 0
    assert counts(tmp_path) == sent
