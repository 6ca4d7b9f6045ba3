"""`rmq dlq`: dead letters listed, shown, sent back and dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqcli.broker.testing.embedded import Cluster
from rmqcli.cli.exit_codes import ExitCode
from tests.cli.conftest import Run


@pytest.fixture
def group(rmq: Run, topic: str) -> str:
    """A group that failed at three messages of the topic, with keys k0 to k2."""
    name = f"g_{topic}"[:100]
    for number in range(3):
        sent = rmq(
            "send",
            topic,
            f"body {number}",
            "-k",
            f"k{number}",
            "-t",
            "paid",
            "-p",
            f"price={number}",
            "-q",
            "0",
        )
        assert sent.code == 0
    rmq(
        "consume",
        topic,
        "-g",
        name,
        "--from",
        "start",
        "-c",
        "3",
        "--retries",
        "0",
        "--exec",
        "exit 1",
        "--orderly",
    )
    return name


def keys(rmq: Run, *arguments: str) -> list[str]:
    return [line[2] for line in rmq("dlq", "list", *arguments).lines]


def test_list_and_show(rmq: Run, topic: str, group: str) -> None:
    assert [group, "3"] in rmq("dlq", "list").lines
    listed = rmq("dlq", "list", group)
    assert (listed.code, listed.err) == (0, "")
    assert [line[1:4] for line in listed.lines] == [[topic, f"k{n}", "paid"] for n in range(3)]
    assert {line[-1] for line in listed.lines} == {"open"}
    assert keys(rmq, group, "--where", "price >= 1") == ["k1", "k2"]
    assert keys(rmq, group, "--key", "k1", "--key", "k2", "-o", "-1") == ["k2"]
    assert keys(rmq, group, "--id", listed.lines[0][0].lower()) == ["k0"]
    shown = rmq("dlq", "show", group, "--grep", "body 2", "-f", "%k %v\\n")
    assert (shown.code, shown.out) == (0, b"k2 body 2\n")
    assert rmq("dlq", "list", group, "--json").json[0]["state"] == "open"


def test_redrive(rmq: Run, topic: str, group: str, tmp_path: Path) -> None:
    plan = rmq("dlq", "redrive", group, "--all", "--dry-run")
    assert (plan.code, plan.lines, plan.err) == (0, [[topic, "3"]], "")
    assert rmq("dlq", "redrive", group, "--all", "--dry-run", "--json").json["plan"] == [
        {"topic": topic, "letters": 3}
    ]
    refused = rmq("dlq", "redrive", group, "--all")
    assert (refused.code, "no terminal to confirm on" in refused.err) == (ExitCode.USAGE, True)
    done = rmq("dlq", "redrive", group, "--key", "k1", "--yes")
    assert (done.code, done.lines) == (0, [[topic, "1"]])
    assert done.err == f"1 of 1 dead letter of group {group} sent back\n"
    rest = rmq("dlq", "redrive", group, "--all", "--yes", "--rate", "1000", "--json")
    assert (rest.code, rest.json) == (
        0,
        {"sent": 2, "failed": {}, "unknown": {}, "leftOut": {"sent": 1}, "gone": {}},
    )
    nothing = rmq("dlq", "redrive", group, "--all", "--yes")
    assert (nothing.code, nothing.out) == (ExitCode.NOT_FOUND, b"")
    back = rmq("pull", topic, "--where", "REDRIVEN_FROM IS NOT NULL", "-f", "%k %v\n")
    assert sorted(back.out.splitlines()) == [b"k0 body 0", b"k1 body 1", b"k2 body 2"]
    assert [line[-1] for line in rmq("dlq", "list", group).lines] == ["sent"] * 3
    other = ("--progress", str(tmp_path / "other.jsonl"), "--yes")
    assert rmq("dlq", "redrive", group, "--key", "k0", *other).code == 0


def test_drop(rmq: Run, group: str) -> None:
    assert "1 dead letter" in rmq("dlq", "drop", group, "--key", "k0", "--dry-run").err
    assert (
        rmq("dlq", "drop", group, "--key", "k0", "--yes").err == f"1 dead letter of group {group} dropped\n"
    )
    assert rmq("dlq", "drop", group, "--key", "k0", "--yes").code == ExitCode.NOT_FOUND
    assert [line[-1] for line in rmq("dlq", "list", group).lines] == ["dropped", "open", "open"]
    assert rmq("dlq", "redrive", group, "--all", "--dry-run").lines[0][1] == "2"
    assert rmq("dlq", "drop", group, "--all").code == ExitCode.USAGE
    assert rmq("dlq", "drop", group, "--all", "--yes").err == f"topic %DLQ%{group} deleted from broker-a\n"
    gone = rmq("dlq", "list", group)
    assert (gone.code, "has no dead letters" in gone.err) == (ExitCode.NOT_FOUND, True)


def test_a_topic_that_is_gone(rmq: Run, topic: str, group: str) -> None:
    assert rmq("topic", "delete", topic, "--yes").code == 0
    refused = rmq("dlq", "redrive", group, "--all", "--yes")
    assert refused.code == ExitCode.NOT_FOUND
    assert f"3 letters cannot go back: topic {topic} does not exist" in refused.err
    assert rmq("topic", "create", f"{topic}2"[-120:]).code == 0
    assert rmq("dlq", "redrive", group, "--all", "--yes", "--to", f"{topic}2"[-120:]).code == 0


def test_a_write_only_topic(rmq: Run, group: str) -> None:
    assert rmq("topic", "update", f"%DLQ%{group}", "--perm", "w", "--yes").code == 0
    for words in (("list", group), ("redrive", group, "--all", "--yes")):
        refused = rmq("dlq", *words)
        assert (refused.code, refused.err.count("\n")) == (ExitCode.NOT_PERMITTED, 1)
        assert "--grant-read" in refused.err
    done = rmq("dlq", "redrive", group, "--all", "--yes", "--grant-read")
    assert done.code == 0 and "write-only on broker-a: it has read permission" in done.err
    assert rmq("topic", "describe", f"%DLQ%{group}").lines[0][3] == "2"


def test_a_write_only_topic_of_a_protected_cluster(rmq: Run, cluster: Cluster, group: str) -> None:
    assert rmq("topic", "update", f"%DLQ%{group}", "--perm", "w", "--yes").code == 0
    assert rmq("profile", "add", "prod", cluster.namesrv, "--protected").code == 0
    refused = rmq("dlq", "list", group, "--grant-read")
    assert (refused.code, "use --confirm prod" in refused.err) == (ExitCode.USAGE, True)
    assert len(rmq("dlq", "list", group, "--grant-read", "--confirm", "prod").lines) == 3


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("list", "nobody"), 4, "no broker knows group nobody"),
        (("redrive", "g"), 2, "select letters with --key"),
        (("drop", "g"), 2, "select letters with --key"),
        (("redrive", "g", "--all", "--key", "k"), 2, "or all with --all"),
        (("drop", "nobody", "--all", "--yes"), 4, "no dead letter of group nobody is selected"),
        (("list", "g", "--where", "price >"), 2, "--where"),
        (("list", "g", "-o", "soon"), 2, "soon"),
        (("redrive", "g", "--all", "--rate", "0"), 2, "--rate"),
        (("list", "-n", "127.0.0.1:1"), 5, "cannot connect to name server"),
        (("redrive", "g", "--all", "-n", "127.0.0.1:1"), 5, "cannot connect to name server"),
    ],
)
def test_refused(rmq: Run, words: tuple[str, ...], code: int, text: str) -> None:
    refused = rmq("dlq", *words)
    assert (refused.code, refused.out, refused.err.count("\n")) == (code, b"", 1)
    assert text in refused.err
