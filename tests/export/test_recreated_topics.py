"""A topic that was deleted and created again is not taken for the one that an export has."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqcli.broker.testing.embedded import Cluster
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.export.output.manifest import LastRow
from rmqcli.export.recreated_topics import is_another
from tests.cli.conftest import Run

SAID = "the topic was deleted and created again after the last export, which ended with another message at offset"


def sent(rmq: Run, topic: str, count: int) -> None:
    assert rmq("send", topic, "-q", "0", stdin=b"x\n" * count).code == 0


@pytest.mark.parametrize("into", ["--out", "--table"])
@pytest.mark.parametrize("count", [0, 1, 4, 9])
def test_a_resumed_export_of_a_cluster(rmq: Run, tmp_path: Path, into: str, count: int) -> None:
    """With fewer, as many and more messages than before; another topic's messages lie in front of the new ones."""
    topic = f"Anew{count}{into[2:]}"
    target = (into, str(tmp_path / "a") if into == "--out" else f"delta:{tmp_path / 'a'}")
    export = ("export", "--topic", topic, *target, "--resume", "--json")
    rmq("topic", "create", topic, "--queues", "2")
    sent(rmq, topic, 4)
    assert rmq(*export).json["rows"] == 4
    assert rmq(*export).json["rows"] == 0
    assert rmq("topic", "delete", topic, "--yes").code == 0
    rmq("topic", "create", topic, "--queues", "2")
    sent(rmq, topic, count)
    done = rmq(*export)
    assert done.code == ExitCode.PARTLY, done.err
    (failure,) = done.json["failed"]
    assert failure["queueId"] == 0 and SAID in failure["reason"]
    assert f"{topic}@broker-a:0: {SAID} 3; export it again, to a new folder or table" in done.err
    assert done.json["rows"] == 0
    again = rmq(*export)
    assert (again.code, again.json["rows"]) == (ExitCode.PARTLY, 0)


@pytest.mark.parametrize("count", [1, 4, 9])
def test_a_resumed_export_of_a_store(rmq: Run, cluster: Cluster, tmp_path: Path, count: int) -> None:
    """A table goes on behind queue offsets; a folder goes on in the commit log, and has the new messages, too."""
    topic = f"Stored{count}"
    export = ("export", "--store", str(cluster.store_path), "--topic", topic, "--resume", "--json")
    targets = [("--out", str(tmp_path / "a")), ("--table", f"delta:{tmp_path / 'b'}")]
    rmq("topic", "create", topic, "--queues", "2")
    sent(rmq, topic, 4)
    assert [rmq(*export, *target).json["rows"] for target in targets] == [4, 4]
    assert rmq("topic", "delete", topic, "--yes").code == 0
    rmq("topic", "create", topic, "--queues", "2")
    sent(rmq, topic, count)
    assert rmq(*export, *targets[0]).json["rows"] == count
    done = rmq(*export, *targets[1])
    assert done.code == ExitCode.FAILED, done.err
    assert f"queue 0 of topic {topic}: {SAID} 3" in done.error["message"]


@pytest.mark.parametrize(
    ("offset", "place", "found"),
    [(5, 100, False), (5, 101, True), (5, 99, True), (4, 99, False), (4, 101, True)],
)
def test_what_tells_lives_apart(offset: int, place: int, found: bool) -> None:
    assert is_another(LastRow("T", "b", 0, 5, 100), offset, place) is found
