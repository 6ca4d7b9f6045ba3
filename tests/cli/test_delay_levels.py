"""`rmq send --delay`: by the delay levels of the broker that gets the message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rmqcli.broker.handlers import HANDLERS
from rmqcli.broker.testing.embedded import embedded_in_thread
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.store.delay_levels import DEFAULT_DELAY_LEVELS as DEFAULT_TEXT
from rmqcli.flows.delay_levels import chosen_level
from rmqcli.flows.errors import InvalidInput
from tests.cli.conftest import Run

DELAY_LEVELS = tuple(DEFAULT_TEXT.split())
OWN = ("1s", "90s", "2d")


def test_the_default_levels() -> None:
    levels = [chosen_level({"a": DELAY_LEVELS}, text) for text in DELAY_LEVELS]
    assert levels == list(range(1, 19))
    assert chosen_level({"a": DELAY_LEVELS}, "60s") == 5


@pytest.mark.parametrize(("delay", "level"), [("1s", 1), ("1m30s", 2), ("48h", 3)])
def test_a_level_is_the_one_of_the_same_length(delay: str, level: int) -> None:
    assert chosen_level({"a": OWN}, delay) == level


def test_brokers_that_differ_agree_about_some_levels() -> None:
    tables = {"a": OWN, "b": DELAY_LEVELS}
    assert chosen_level(tables, "1s") == 1
    with pytest.raises(InvalidInput, match="level none on a, 3 on b: choose one with --broker"):
        chosen_level(tables, "10s")
    with pytest.raises(InvalidInput, match=r"no such delay level .available: 1s, 90s, 2d, 5s, 10s"):
        chosen_level(tables, "7s")


@pytest.fixture
def own_levels(rmq: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    settings: dict[str, Any] = {"message_delay_level": " ".join(OWN), "auto_create_topic_enable": True}
    with embedded_in_thread(**settings) as cluster:
        monkeypatch.setenv("RMQ_NAMESRV", cluster.namesrv)
        yield rmq


def waiting(rmq: Run, level: int) -> list[str]:
    result = rmq("pull", "SCHEDULE_TOPIC_XXXX", "-q", str(level - 1), "-f", r"%v\n")
    return result.out.decode().split()


def test_a_message_waits_in_the_level_of_the_broker(own_levels: Run) -> None:
    """Also for a topic that is yet to be created."""
    assert own_levels("send", "orders", "two-days", "--delay", "2d").code == 0
    assert own_levels("send", "orders", "-q", "0", "--delay", "90s", stdin=b"a\nb\n").code == 0
    assert waiting(own_levels, 3) == ["two-days"]
    assert waiting(own_levels, 2) == ["a", "b"]


TIMER_TOPIC = "rmq_sys_wheel_timer"


def test_any_other_delay_is_a_timer(own_levels: Run) -> None:
    assert own_levels("send", "orders", "soon", "--delay", "1h1s").code == 0
    assert own_levels("send", "orders", "at", "--at", "+30m").code == 0
    found = own_levels("pull", TIMER_TOPIC, "-f", r"%v %h{TIMER_DELAY_MS} %h{REAL_TOPIC}\n").out.decode()
    assert found.splitlines() == ["soon 3601000 orders", "at  orders"]
    batch = own_levels("send", "orders", "--batch", "2", "--delay", "2s", stdin=b"a\nb\n")
    assert batch.code != 0
    assert "messages with a timer cannot be sent in a batch" in batch.err
    past = own_levels("send", "orders", "x", "--at", "@2020-01-01")
    assert (past.code, past.out) == (ExitCode.USAGE, b"")
    assert "--at @2020-01-01: not in the future" in past.err
    both = own_levels("send", "orders", "x", "--at", "+1h", "--delay", "1s")
    assert both.err == "rmq: --at cannot be combined with --delay-level or --delay\n"


def test_without_timers_a_delay_is_one_of_the_levels(rmq: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with embedded_in_thread(message_delay_level=" ".join(OWN), timer_wheel_enable=False) as cluster:
        monkeypatch.setenv("RMQ_NAMESRV", cluster.namesrv)
        refused = rmq("send", "orders", "x", "--delay", "10s")
        assert (refused.code, refused.out) == (ExitCode.USAGE, b"")
        assert refused.err == "rmq: --delay 10s: no such delay level (available: 1s, 90s, 2d)\n"
        refused = rmq("send", "orders", "x", "--at", "+1h")
        assert (refused.code, refused.out) == (ExitCode.USAGE, b"")
        text = (
            "rmq: --at: no timers on broker-a (timerWheelEnable): use --delay with one of its delay levels\n"
        )
        assert refused.err == text


def test_a_broker_may_have_more_levels_than_java_gives_it(rmq: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    levels = [f"{number}s" for number in range(1, 31)]
    with embedded_in_thread(message_delay_level=" ".join(levels)) as cluster:
        monkeypatch.setenv("RMQ_NAMESRV", cluster.namesrv)
        assert rmq("send", "orders", "x", "--delay-level", "30").code == 0
        stored = rmq(
            "inspect", "delay", str(cluster.store_path), "--delay-levels", " ".join(levels), "--json"
        )
        assert [one["pending"] for one in stored.json if one["level"] == 30] == [1]
        refused = rmq("send", "orders", "x", "--delay-level", "31")
    assert (refused.code, refused.out) == (ExitCode.USAGE, b"")
    told = f"rmq: --delay-level 31: broker-a has 30 delay levels: {', '.join(levels)}\n"
    assert refused.err == told


def test_a_broker_that_does_not_tell_counts_as_one_with_the_default_levels(
    rmq: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(HANDLERS, RequestCode.GET_BROKER_CONFIG)
    with embedded_in_thread() as cluster:
        monkeypatch.setenv("RMQ_NAMESRV", cluster.namesrv)
        sent = rmq("send", "orders", "x", "--delay", "10s")
        assert waiting(rmq, 3) == ["x"]
    assert (sent.code, len(sent.lines)) == (0, 1)
    assert sent.err.startswith("rmq: broker-a did not return its delay levels, assuming the default: ")
    assert sent.err.count("\n") == 1
