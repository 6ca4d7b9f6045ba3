"""Ctrl-C while messages are sent: what went is said, and how to go on."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.client.wire.pool import Pool
from rmqcli.codec.codes import RequestCode
from tests.cli.conftest import Run

LINES = b"".join(b"%d\n" % number for number in range(1, 101))


@pytest.fixture
def interrupt_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Ctrl-C while the request of this number is under way, once."""

    def arrange(number: int) -> None:
        count, request = 0, Pool.request

        def asked(
            pool: Pool, address: str, command: Any, *arguments: Any, **named: Any
        ) -> Coroutine[Any, Any, Any]:
            nonlocal count
            answer = request(pool, address, command, *arguments, **named)
            count += command.code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
            if count == number:
                count += 1
                signal.raise_signal(signal.SIGINT)
            return answer

        monkeypatch.setattr(Pool, "request", asked)

    return arrange


@pytest.mark.parametrize("options", [("-q", "0"), ("--concurrency", "8"), ("-q", "0", "--batch", "4")])
def test_send(rmq: Run, topic: str, interrupt_at: Callable[[int], None], options: tuple[str, ...]) -> None:
    interrupt_at(5)
    done = rmq("send", topic, *options, stdin=LINES)
    assert done.code == ExitCode.INTERRUPTED
    stored = rmq("pull", topic, "-f", r"%v\n").out.split()
    went = len(stored)
    assert sorted(map(int, stored)) == list(range(1, went + 1))
    assert len(done.lines) == went
    rest = f"tail -n +{went + 1} INPUT | rmq send {topic}"
    assert done.err == (
        f"rmq: interrupted: {went} sent, 0 failed; line {went + 1} and all after it were not sent; "
        f"continue with: {rest}\n"
    )
    assert 5 <= went < 100


def test_as_json(rmq: Run, topic: str, interrupt_at: Callable[[int], None]) -> None:
    interrupt_at(5)
    done = rmq("send", topic, "-q", "0", "--json", stdin=LINES)
    went = len(done.json_lines)
    assert (done.code, done.err.count("\n")) == (ExitCode.INTERRUPTED, 1)
    assert done.error["message"].startswith(f"interrupted: {went} sent, 0 failed; line {went + 1} and all")
    missing = rmq("send", topic, "--file", "/no/such/file", "--json")
    assert missing.error["exitCode"] == missing.code == ExitCode.NOT_FOUND


def test_an_input_that_ends_in_an_error(rmq: Run, topic: str, tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.write_bytes(b"1\n2\n")
    done = rmq("send", topic, "--file", str(first), "--file", str(tmp_path / "second"))
    assert done.code == ExitCode.NOT_FOUND
    said, why = done.err.splitlines()
    assert said.startswith("rmq: interrupted: 2 sent, 0 failed; line 3 and all after it were not sent")
    assert why.endswith("second: No such file or directory")


def test_import(rmq: Run, topic: str, tmp_path: Path, interrupt_at: Callable[[int], None]) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps({"body": str(n), "queueId": 0}) + "\n" for n in range(1000)))
    interrupt_at(3)
    done = rmq("import", str(path), "--topic", topic)
    assert done.code == ExitCode.INTERRUPTED
    went = len(rmq("pull", topic).lines)
    assert done.err == f"rmq: interrupted: {went} sent, 0 failed; continue with --resume\n"
    assert 3 <= went < 1000
    assert rmq("import", str(path), "--topic", topic, "--resume").code == 0
    assert len(rmq("pull", topic).lines) == 1000


def test_consume(rmq: Run, topic: str) -> None:
    rmq("send", topic, stdin=LINES)
    command = f"kill -INT {os.getpid()}; sleep 10"
    done = rmq("consume", topic, "-g", "G_stopped", "--from", "start", "--exec", command)
    assert done.code == ExitCode.INTERRUPTED
    assert (
        done.err.splitlines()[-1]
        == "rmq: interrupted: 0 messages consumed; group G_stopped goes on after them"
    )


def test_bench(rmq: Run, interrupt_at: Callable[[int], None]) -> None:
    interrupt_at(5)
    done = rmq("bench", "send", "--rate", "100", "-c", "1000")
    assert done.code == ExitCode.INTERRUPTED
    assert done.err.startswith("rmq: interrupted: ") and done.err.endswith(" 0 failed; there is no result\n")
    assert "RMQ_BENCH_" not in rmq("topic", "list").out.decode()
