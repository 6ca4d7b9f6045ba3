"""`rmq tail` of several topics, from a time, until a time."""

from __future__ import annotations

import pytest

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.grammar.times import parse_future
from rmqcli.grammar.values import GrammarError
from tests.cli.conftest import Run


@pytest.fixture
def other(rmq: Run, topic: str) -> str:
    name = f"other_{topic}"
    assert rmq("topic", "create", name, "--queues", "1").code == 0
    assert rmq("send", topic, stdin=b"1\n2\n").code == 0
    assert rmq("send", name, stdin=b"3\n4\n").code == 0
    return name


def test_several_topics(rmq: Run, topic: str, other: str) -> None:
    done = rmq("tail", topic, other, topic, "--idle", "0.1")
    assert sorted((line[0], line[-1]) for line in done.lines) == sorted(
        [(topic, "1"), (topic, "2"), (other, "3"), (other, "4")]
    )
    assert [len(line) for line in rmq("tail", topic, "--idle", "0.1").lines] == [8, 8]
    last = rmq("tail", topic, other, "--last", "1", "--idle", "0.1", "-f", "%t %v").out.decode()
    assert last == f"{other} 4"
    assert rmq("tail", topic, "nowhere").code == ExitCode.NOT_FOUND


def test_where_a_tail_starts(rmq: Run, topic: str, other: str) -> None:
    def shown(*options: str) -> list[bytes]:
        done = rmq("tail", other, "--idle", "0.1", "-f", r"%v\n", *options)
        assert done.code == 0, done.err
        return done.out.split()

    assert shown("-o", "@-5m") == shown("-o", "start") == [b"3", b"4"]
    assert shown("-o", "-1") == shown("-o", "1") == [b"4"]
    assert shown("-o", "end") == []
    for wrong in (("-o", "1:2"), ("-o", "@-5m:@-1m"), ("-o", "-1", "--last", "2")):
        assert rmq("tail", other, *wrong).code == ExitCode.USAGE


def test_until_a_time(rmq: Run, topic: str, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqcli.commands.tail._LATE_S", 0.1)
    done = rmq("tail", other, "--until", "+100ms", "-f", r"%v\n")
    assert (done.code, done.out) == (0, b"3\n4\n")
    past = rmq("tail", other, "--until", "@-1m")
    assert past.code == ExitCode.USAGE
    assert "rmq pull -o" in past.err


def test_times_to_come() -> None:
    now = 1_700_000_000_000
    assert parse_future("--until", "+1m30s", now) == now + 90_000
    assert parse_future("--until", f"@{now + 5}", now) == now + 5
    assert parse_future("--until", "2030-01-01T00:00:00Z", now) == 1_893_456_000_000
    for wrong in ("now", "+", "+x", "-1m", "1:2", ""):
        with pytest.raises(GrammarError):
            parse_future("--until", wrong, now)


def test_what_is_followed_is_said(rmq: Run, topic: str, other: str) -> None:
    said = rmq("tail", topic, other, "--idle", "0.1", "-v").err
    assert f"rmq: following {topic} and {other}: 5 queues on broker-a, from the last 10 messages\n" in said
    assert "following" not in rmq("tail", topic, "--idle", "0.1").err
