"""Messages whose broker did not answer: counted apart from sent and failed by every command that sends."""

from __future__ import annotations

import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.client import RequestTimeout
from rmqcli.client.wire.pool import Pool
from rmqcli.codec.codes import RequestCode
from tests.cli.conftest import Run

SENDS = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
SAID = "127.0.0.1:1 did not answer SEND_MESSAGE_V2 within 3 s"


@pytest.fixture
def lost_answers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The places, from 1, of the sends that are stored but not answered; the first by default."""
    places, count, request = [1], 0, Pool.request

    def asked(
        pool: Pool, address: str, command: Any, *arguments: Any, **named: Any
    ) -> Coroutine[Any, Any, Any]:
        nonlocal count
        answer = request(pool, address, command, *arguments, **named)
        if command.code not in SENDS:
            return answer
        count += 1
        return without_answer(answer) if count in places else answer

    async def without_answer(answer: Coroutine[Any, Any, Any]) -> Any:
        await answer
        error = RequestTimeout("127.0.0.1:1", "SEND_MESSAGE_V2", 3)
        error.was_sent = True
        raise error

    monkeypatch.setattr(Pool, "request", asked)
    return places


def test_one_message(rmq: Run, topic: str, lost_answers: list[int]) -> None:
    done = rmq("send", topic, "x", "-q", "0")
    assert done.code == ExitCode.TIMED_OUT
    (row,) = done.lines
    assert (row[:3], row[4]) == (["", "", ""], "UNKNOWN")
    first, second = done.err.splitlines()
    assert first == f"rmq: outcome unknown: {SAID}"
    assert second.startswith(f"rmq: {row[3]} may be stored")
    assert rmq("query", topic, "--id", row[3], "-f", "%v").out == b"x"


def test_many_messages(rmq: Run, topic: str, lost_answers: list[int]) -> None:
    lost_answers[:] = [2]
    done = rmq(
        "send", topic, "-q", "0", "--json", "--jsonl", stdin=b'{"body":"1"}\n{"body":"2"}\nbad\n{"body":"4"}'
    )
    assert done.code == ExitCode.TIMED_OUT
    assert [line["status"] for line in done.json_lines] == ["SEND_OK", "SEND_OK", "UNKNOWN"]
    unknown = done.json_lines[-1]
    assert unknown["brokerName"] is None
    assert rmq("query", topic, "--id", unknown["msgId"], "-f", "%v").out == b"2"
    for said in ("not sent: line 3: ", f"outcome unknown: line 2: {SAID}", "2 sent, 1 failed, 1 unknown"):
        assert said in done.err


def test_a_batch(rmq: Run, topic: str, lost_answers: list[int]) -> None:
    done = rmq("send", topic, "-q", "0", "--batch", "3", stdin=b"1\n2\n3\n")
    assert done.code == ExitCode.TIMED_OUT
    bodies = [rmq("query", topic, "--id", row[3], "-f", "%v").out for row in done.lines]
    assert bodies == [b"1", b"2", b"3"]


def test_a_request(rmq: Run, topic: str, lost_answers: list[int]) -> None:
    lost_answers[:] = [1, 2, 3]
    done = rmq("request", topic, "x")
    assert done.code == ExitCode.TIMED_OUT
    assert done.err.startswith("rmq: outcome unknown, ")
    assert " may be stored: 127.0.0.1:1 did not answer" in done.err


def test_a_half_message_that_nobody_ends_is_not_delivered(
    rmq: Run, topic: str, lost_answers: list[int]
) -> None:
    lost_answers[:] = [1, 2, 3]
    done = rmq("send", topic, "x", "--transaction", "commit")
    assert (done.code, done.out) == (ExitCode.TIMED_OUT, b"")
    assert done.err.startswith(f"rmq: not sent: {SAID}")
    assert "discards a half message" in done.err


def test_an_import(rmq: Run, topic: str, tmp_path: Path, lost_answers: list[int]) -> None:
    lost_answers[:] = range(1, 9)
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps({"body": str(n), "queueId": 0}) + "\n" for n in range(3)))
    done = rmq("import", str(path), "--topic", topic, "--json")
    assert done.code == ExitCode.TIMED_OUT
    assert (done.json["sent"], done.json["failed"], done.json["unknown"]) == (0, 0, 3)
    assert f"rmq: outcome unknown: in.jsonl: rows 1-3: {SAID}\n" in done.err
    assert "those of unknown outcome may be stored twice" in done.err
