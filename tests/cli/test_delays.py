"""`rmq send --delay` and `--at`: by a timer or a delay level of the broker that gets the message; `rmq recall`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rmqcli.broker.handlers import HANDLERS
from rmqcli.broker.testing.embedded import embedded_in_thread
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.recall_handle import RecallHandle
from rmqcli.codec.store.delay_levels import DEFAULT_DELAY_LEVELS as DEFAULT_TEXT
from rmqcli.flows.delays import Delays, chosen_level, timer_problem
from rmqcli.flows.errors import InvalidInput
from tests.cli.conftest import Run

DELAY_LEVELS = tuple(DEFAULT_TEXT.split())
OWN = ("1s", "90s", "2d")


def test_the_default_levels() -> None:
    levels = [chosen_level({"a": DELAY_LEVELS}, text, "no timers") for text in DELAY_LEVELS]
    assert levels == list(range(1, 19))
    assert chosen_level({"a": DELAY_LEVELS}, "60s", "") == 5


@pytest.mark.parametrize(("delay", "level"), [("1s", 1), ("1m30s", 2), ("48h", 3)])
def test_a_level_is_the_one_of_the_same_length(delay: str, level: int) -> None:
    assert chosen_level({"a": OWN}, delay, "") == level


def test_brokers_that_differ_agree_about_some_levels() -> None:
    tables = {"a": OWN, "b": DELAY_LEVELS}
    assert chosen_level(tables, "1s", "") == 1
    with pytest.raises(
        InvalidInput, match="no timers; it is level none on a, 3 on b: choose one with --broker"
    ):
        chosen_level(tables, "10s", "no timers")
    with pytest.raises(InvalidInput, match=r"no timers, and no such delay level .1s, 90s, 2d, 5s, 10s"):
        chosen_level(tables, "7s", "no timers")


def test_all_brokers_must_serve_the_timer() -> None:
    with_timers, without = Delays(OWN, 60_000), Delays(OWN)
    assert timer_problem({"a": with_timers}, 60_000) is None
    assert timer_problem({"a": with_timers, "b": without}, 1) == "no timers on b"
    assert timer_problem({"a": with_timers}, 60_001) == "longer than the 1 min 0 s of a (timerMaxDelaySec)"
    assert timer_problem({}, 1) == "no broker"


@pytest.fixture
def without_timers(rmq: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """A broker as one of 4.9, which has delay levels only."""
    settings: dict[str, Any] = {"message_delay_level": " ".join(OWN), "timer_wheel_enable": False}
    with embedded_in_thread(auto_create_topic_enable=True, **settings) as cluster:
        monkeypatch.setenv("RMQ_NAMESRV", cluster.namesrv)
        yield rmq


def waiting(rmq: Run, level: int) -> list[str]:
    result = rmq("pull", "SCHEDULE_TOPIC_XXXX", "-q", str(level - 1), "-f", r"%v\n")
    return result.out.decode().split()


def test_a_message_waits_in_the_level_of_the_broker(without_timers: Run) -> None:
    """Also for a topic that is yet to be created."""
    assert without_timers("send", "orders", "two-days", "--delay", "2d").code == 0
    assert without_timers("send", "orders", "-q", "0", "--delay", "90s", stdin=b"a\nb\n").code == 0
    assert waiting(without_timers, 3) == ["two-days"]
    assert waiting(without_timers, 2) == ["a", "b"]


def test_without_timers_a_delay_is_one_of_the_levels(without_timers: Run) -> None:
    refused = without_timers("send", "orders", "x", "--delay", "10s")
    assert (refused.code, refused.out) == (ExitCode.USAGE, b"")
    text = "rmq: --delay 10s: no timers on broker-a, and no such delay level (1s, 90s, 2d)\n"
    assert refused.err == text
    refused = without_timers("send", "orders", "x", "--at", "+1h")
    assert (refused.code, refused.out) == (ExitCode.USAGE, b"")
    text = "rmq: --at +1h: no timers on broker-a; use --delay with a delay level: 1s, 90s, 2d\n"
    assert refused.err == text


TIMER_TOPIC = "rmq_sys_wheel_timer"


@pytest.fixture
def with_timers(rmq: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    with embedded_in_thread(auto_create_topic_enable=True) as cluster:
        monkeypatch.setenv("RMQ_NAMESRV", cluster.namesrv)
        yield rmq


def test_a_broker_with_timers_delays_by_any_time(with_timers: Run) -> None:
    assert with_timers("send", "orders", "soon", "--delay", "1h1s").code == 0
    assert with_timers("send", "orders", "level", "--delay", "1m").code == 0
    assert with_timers("send", "orders", "at", "--at", "+30m").code == 0
    found = with_timers("pull", TIMER_TOPIC, "-f", r"%v %h{TIMER_DELAY_MS} %h{REAL_TOPIC}\n").out.decode()
    assert found.splitlines() == ["soon 3601000 orders", "level 60000 orders", "at  orders"]
    batch = with_timers("send", "orders", "--batch", "2", "--delay", "2s", stdin=b"a\nb\n")
    assert batch.code != 0
    assert "messages with a timer cannot be sent in a batch" in batch.err
    both = with_timers("send", "orders", "x", "--at", "+1h", "--delay", "1s")
    assert both.err == "rmq: --at cannot be combined with --delay-level or --delay\n"


def test_a_timer_is_no_longer_than_the_broker_allows(with_timers: Run) -> None:
    refused = with_timers("send", "orders", "x", "--delay", "4d")
    assert (refused.code, refused.out) == (ExitCode.USAGE, b"")
    assert refused.err.startswith(
        "rmq: --delay 4d: longer than the 72 h 0 min of broker-a (timerMaxDelaySec), "
    )
    refused = with_timers("send", "orders", "x", "--at", "+4d")
    assert refused.err == "rmq: --at +4d: longer than the 72 h 0 min of broker-a (timerMaxDelaySec)\n"


def test_a_time_that_has_passed_is_no_delay(with_timers: Run) -> None:
    sent = with_timers("send", "orders", "-q", "0", "x", "--at", "@2020-01-01")
    assert (sent.code, sent.err) == (0, "rmq: --at @2020-01-01 has passed: delivered immediately\n")
    assert with_timers("pull", "orders", "-q", "0", "-f", r"%v\n").out == b"x\n"


def test_a_time_that_is_none(with_timers: Run) -> None:
    refused = with_timers("send", "orders", "x", "--at", "yesterday")
    assert (refused.code, refused.out) == (ExitCode.USAGE, b"")
    assert refused.err.startswith("rmq: --at yesterday: expected an ISO time such as @2030-01-01T08:00, ")


# --- how many wait


def test_the_backlog_of_timers(with_timers: Run) -> None:
    for topic in ("orders", "orders", "calls"):
        assert with_timers("send", topic, "x", "--delay", "1h").code == 0
    shown = with_timers("topic", "stats", "--json").json
    assert {one["topic"]: one["timers"] for one in shown} == {"orders": 2, "calls": 1}
    assert with_timers("topic", "stats", "orders").err == "2 timer messages waiting for orders\n"
    shown = with_timers("top", "topics", "--once", "--interval", "0.1", "--json").json
    assert {one["name"]: one["timers"] for one in shown} == {"orders": 2, "calls": 1}
    shown = with_timers("top", "brokers", "--once", "--interval", "0.1", "--json").json
    assert [one["timers"] for one in shown] == [3]


def test_a_broker_of_4_9_has_no_backlog(rmq: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(HANDLERS, RequestCode.GET_TIMER_METRICS)
    with embedded_in_thread(auto_create_topic_enable=True) as cluster:
        monkeypatch.setenv("RMQ_NAMESRV", cluster.namesrv)
        assert rmq("send", "orders", "x").code == 0
        shown = rmq("topic", "stats", "--json")
        assert (shown.code, [one["timers"] for one in shown.json]) == (0, [None])
        shown = rmq("topic", "stats", "orders")
        assert (shown.code, shown.err) == (0, "")


# --- recalls


def test_recalled_messages_are_not_delivered(with_timers: Run) -> None:
    sent = with_timers("send", "orders", "--delay", "1h", "--json", stdin=b"a\nb\n").json_lines
    done = with_timers("recall", *(one["recallHandle"] for one in sent), "--json").json
    assert [one["msgId"] for one in done] == [one["msgId"] for one in sent]
    assert {(one["topic"], one["brokerName"]) for one in done} == {("orders", "broker-a")}
    handle = (
        with_timers("send", "orders", "c", "--delay", "1h", "--columns", "recallHandle").out.decode().strip()
    )
    (line,) = with_timers("recall", handle).lines
    assert line[:2] == ["orders", "broker-a"] and int(line[3]) == RecallHandle.decode(handle).due
    assert with_timers("send", "orders", "now", "--json").json_line["recallHandle"] is None


def test_what_cannot_be_recalled_is_said(with_timers: Run) -> None:
    bad = with_timers("recall", "orders")
    assert (bad.code, bad.err) == (
        ExitCode.USAGE,
        "rmq: 'orders' is not a recall handle; rmq send --json prints one as recallHandle\n",
    )
    good = with_timers("send", "orders", "a", "--delay", "1h", "--json").json_line["recallHandle"]
    past = RecallHandle("orders", "broker-a", 1, "key").encode()
    partly = with_timers("recall", past, good)
    assert (partly.code, len(partly.lines)) == (ExitCode.PARTLY, 1)
    assert partly.err.startswith("rmq: key: ") and "it is due, and delivered or about to be\n" in partly.err


def test_a_broker_that_cannot_recall(rmq: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(HANDLERS, RequestCode.RECALL_MESSAGE)
    with embedded_in_thread() as cluster:
        monkeypatch.setenv("RMQ_NAMESRV", cluster.namesrv)
        assert rmq("send", "orders", "x").code == 0
        refused = rmq("recall", RecallHandle("orders", "broker-a", 1, "key").encode())
    assert (refused.code, refused.out) == (ExitCode.FAILED, b"")
    assert refused.err.endswith("brokers of RocketMQ 5.3.2 and later and of rmq recall messages\n")


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
    assert sent.err.startswith("rmq: broker-a did not return its delays, assuming the default: ")
    assert sent.err.count("\n") == 1
