"""What a terminal shows: tables, styles, questions, summaries."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path

from rmqcli.broker.testing.embedded import Cluster
from tests.cli.conftest import Run
from tests.support import PATIENCE, RMQ


def on_terminal(environment: dict[str, str], *arguments: str, typed: bytes = b"") -> tuple[int, str]:
    """Exit code and what the screen showed, without styles. `typed` is typed at the first question."""
    pid, screen = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [*RMQ, *arguments], environment)
    shown = b""
    while select.select([screen], [], [], PATIENCE)[0]:
        try:
            part = os.read(screen, 65536)
        except OSError:  # Linux says EIO when the other side is gone
            break
        shown += part
        if typed and any(end in shown for end in (b"? [y/N]", b"Ctrl-D", b" to confirm:")):
            os.write(screen, typed)
            typed = b""
    os.close(screen)
    _, status = os.waitpid(pid, 0)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    return os.waitstatus_to_exitcode(status), text.replace("\r\n", "\n")


def test_tables_on_a_terminal(environment: dict[str, str], rmq: Run, topic: str) -> None:
    rmq("send", topic, "hello", "-k", "k1", "-t", "paid")
    rmq("offsets", "reset", "G_screen", topic, "--to", "start", "--yes")
    seen = [
        on_terminal(environment, *arguments)
        for arguments in (
            ("topic", "describe", topic),
            ("topic", "stats", topic),
            ("topic", "route", topic),
            ("cluster", "list"),
            ("group", "describe", "G_screen"),
            ("offsets", "show", "G_screen"),
            ("pull", topic),
            ("send", topic, "x"),
            ("--help",),
            ("send", "--help"),
        )
    ]
    for code, text in seen:
        assert code == 0
        assert text.strip()
        assert max(map(len, text.splitlines())) <= 80
    assert seen[0][1].split() == [
        "BROKER",
        "READ",
        "WRITE",
        "PERM",
        "ORDER",
        "MESSAGES",
        "GROUPS",
        "broker-a",
        "4",
        "4",
        "rw",
        "false",
        "1",
        "G_screen",
    ]
    assert "[k1]\n  hello\n" in seen[6][1]


def test_no_colour(environment: dict[str, str], rmq: Run, topic: str) -> None:
    rmq("send", topic, "hello")

    def raw(*arguments: str, **extra: str) -> bytes:
        command = "script -qec '" + " ".join([*RMQ, *arguments]) + "' /dev/null"
        return subprocess.run(
            command, shell=True, capture_output=True, env={**environment, **extra}, check=True
        ).stdout

    assert b"\x1b[2m" in raw("pull", topic)
    assert b"\x1b[2m" not in raw("pull", topic, "--color", "never")
    assert b"\x1b[2m" not in raw("pull", topic, NO_COLOR="1")
    assert b"\x1b[1m" in raw("topic", "stats", topic)
    assert b"\x1b" not in raw("topic", "stats", topic, "--color", "never")
    assert b"\x1b" not in raw("topic", "stats", topic, NO_COLOR="1")


def test_a_question(environment: dict[str, str], rmq: Run, topic: str) -> None:
    code, text = on_terminal(environment, "topic", "delete", topic, typed=b"n\n")
    assert (code, text.splitlines()[-1]) == (1, "rmq: aborted: nothing was changed")
    code, text = on_terminal(environment, "topic", "delete", topic, typed=b"y\n")
    assert (code, text.splitlines()[-1]) == (0, f"topic {topic} deleted from broker-a")


def test_a_question_about_queues_names_what_is_hidden_and_who_reads_it(
    environment: dict[str, str], rmq: Run, topic: str
) -> None:
    rmq("send", topic, "hello", "-q", "3", "-b", "broker-a")
    rmq("offsets", "reset", "G_hidden", topic, "--to", "start", "--yes")
    code, text = on_terminal(environment, "topic", "update", topic, "--queues", "2", typed=b"n\n")
    assert code == 1
    assert text.splitlines()[-4:-1] == [
        "lost: 1 message in queue 3, which consumers will not see",
        "read by: G_hidden (1 not consumed)",
        f"reduce the read queues of topic {topic}? [y/N] n",
    ]


def test_a_question_about_a_protected_cluster(
    environment: dict[str, str], rmq: Run, cluster: Cluster, topic: str
) -> None:
    rmq("send", topic, "hello")
    rmq("offsets", "reset", "G_asked", topic, "--to", "start", "--yes")
    assert rmq("profile", "add", "prod", cluster.namesrv, "--protected").code == 0
    code, text = on_terminal(environment, "topic", "delete", topic, "--yes", typed=b"y\n")
    assert code == 1
    assert text.splitlines()[0].startswith(f"rmq: topic {topic} is written to, last ")
    assert text.splitlines()[1:5] == [
        f"cluster: prod ({cluster.namesrv}), which is protected",
        "lost: 1 message in 4 queues",
        "read by: G_asked",
        f"delete topic {topic} and all its messages? Type prod to confirm: y",
    ]
    assert on_terminal(environment, "topic", "delete", topic, typed=b"prod\n")[0] == 0


def test_typing_messages(environment: dict[str, str], topic: str) -> None:
    code, text = on_terminal(environment, "send", topic, typed=b"one\ntwo\n\x04")
    assert code == 0
    assert text.count("SEND_OK") == 2


def test_a_summary_for_many(environment: dict[str, str], topic: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"x\n" * 100)
    code, text = on_terminal(environment, "send", topic, "--file", str(lines))
    assert code == 0
    assert "/100 " in text  # how far it is
    assert text.splitlines()[-1].startswith("100 messages sent (100 B) in ")
