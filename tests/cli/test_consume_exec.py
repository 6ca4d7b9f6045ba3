"""`rmq consume --exec`: what becomes of messages whose command fails, and of the exit code."""

from __future__ import annotations

import pytest

from rmqcli.cli.exit_codes import ExitCode
from tests.cli.conftest import Run


def send(rmq: Run, topic: str, *bodies: str) -> None:
    assert rmq("send", topic, "-q", "0", stdin="".join(f"{body}\n" for body in bodies).encode()).code == 0


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("no-such-command-anywhere", "status 127: command not found"),
        ("/etc/passwd", "status 126: permission denied, or not executable"),
    ],
)
@pytest.mark.parametrize("jobs", ["1", "4"])
def test_a_command_that_cannot_be_run_stops_at_once(
    rmq: Run, topic: str, script: str, said: str, jobs: str
) -> None:
    send(rmq, topic, *map(str, range(12)))
    group = f"g_{topic}"[:120]
    done = rmq("consume", topic, "-g", group, "--from", "start", "--exec", script, "-j", jobs)
    assert done.code == ExitCode.FAILED
    ours = [line for line in done.err.splitlines() if line.startswith("rmq: --exec")]
    assert len(ours) == 1
    assert said in ours[0]
    again = rmq("consume", topic, "-g", group, "--from", "start", "-c", "12", "-f", r"%v\n")
    assert sorted(map(int, again.out.split())) == list(range(12))
    assert rmq("pull", f"%DLQ%{group}").code == ExitCode.NOT_FOUND


def test_a_count_counts_tries(rmq: Run, topic: str) -> None:
    send(rmq, topic, *map(str, range(5)))
    consume = ("consume", topic, "-g", f"g_{topic}", "--from", "start")
    failed = rmq(*consume, "-c", "2", "--exec", "false")
    assert failed.code == ExitCode.FAILED
    assert failed.err.endswith("rmq: 0 messages consumed, 2 commands failed\n")
    partly = rmq(*consume, "-c", "3", "--exec", "read body; test $body != 3")
    assert partly.code == ExitCode.PARTLY
    assert partly.err.endswith("rmq: 2 messages consumed, 1 command failed\n")


def test_a_count_counts_tries_of_a_queue_in_order(rmq: Run, topic: str) -> None:
    send(rmq, topic, "bad", "good")
    consume = ("consume", topic, "-g", f"g_{topic}", "--from", "start", "--orderly")
    done = rmq(*consume, "-c", "1", "--exec", "false")
    assert done.code == ExitCode.FAILED
    assert rmq(*consume, "-c", "1", "-f", r"%v\n").out == b"bad\n"
