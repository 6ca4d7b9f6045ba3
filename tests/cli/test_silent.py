"""Processes that hang, stopped by a signal: clients that do not reply to a broker, and a silent broker."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rmqcli.broker.testing.embedded import Cluster, embedded_in_thread
from rmqcli.cli.exit_codes import ExitCode
from tests.cli.conftest import Result, Run, patient
from tests.cli.members import member
from tests.cli.waiting import until
from tests.support import RMQ

TIMEOUTS = ("0.5", "3", "20")
DELETING = ("--timeout", "5")
"""For commands that cannot be repeated."""


def until_rows(rmq: Run, rows: int, *arguments: str) -> Result:
    return until(rmq, lambda result: len(result.lines) == rows, *arguments)


def impatient(rmq: Run, holds: Callable[[Result], bool], *arguments: str) -> Result:
    """Runs a command with the first of the timeouts that is long enough for all but the broker that hangs.

    `holds` accepts the result then.
    """
    for seconds in TIMEOUTS:
        result = rmq("--timeout", seconds, *arguments)
        if holds(result):
            break
    return result


def ends_with(code: ExitCode) -> Callable[[Result], bool]:
    return lambda result: result.code == code


def says(text: str) -> Callable[[Result], bool]:
    return lambda result: text in result.err


@contextmanager
def process(cluster: Cluster, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [*RMQ, *arguments, "-n", cluster.namesrv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as running:
        try:
            yield running
        finally:
            running.kill()


@pytest.fixture
def group(topic: str) -> str:
    return f"g_{topic}"[:120]


@pytest.fixture
def silent(
    rmq: Run, cluster: Cluster, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The id of a client that hangs."""
    monkeypatch.setattr("rmqcli.broker.handlers.relay.RELAY_SECONDS", 0.3)
    monkeypatch.setattr("rmqcli.broker.handlers.relay.STATUS_SECONDS", 0.3)
    with process(cluster, "consume", topic, "-g", group, "--tag", "paid || sent") as consumer:
        row = until_rows(rmq, 1, "group", "clients", group).lines[0]
        os.kill(consumer.pid, signal.SIGSTOP)
        yield row[0]


def test_a_silent_client_is_named(rmq: Run, group: str, topic: str, silent: str) -> None:
    status = rmq("group", "status", group)
    assert (status.code, status.out) == (ExitCode.FAILED, b"")
    assert f"rmq: {silent}: " in status.err and "Timeout" in status.err
    held = rmq("offsets", "show", group, "-T", topic, "--clients")
    assert (held.code, held.out) == (ExitCode.FAILED, b"")
    assert held.err == f"rmq: {silent}: did not return its offsets\n"


def test_those_that_answer_are_shown_beside_a_silent_one(
    rmq: Run, cluster: Cluster, group: str, topic: str, silent: str
) -> None:
    with member(cluster, group, topic):
        clients = {row[0] for row in until_rows(rmq, 2, "group", "clients", group).lines}
        (talking,) = clients - {silent}
        commands = (
            ("group", "status", group, "-T", topic),
            ("offsets", "show", group, "-T", topic, "--clients"),
        )
        found = [until(rmq, ends_with(ExitCode.PARTLY), *command) for command in commands]
        shown = [({row[0] for row in one.lines}, silent in one.err, talking in one.err) for one in found]
        assert shown == [({talking}, True, False)] * 2


def test_a_message_for_a_silent_client(rmq: Run, group: str, topic: str, silent: str) -> None:
    sent = rmq("send", topic, "x").lines[0]
    result = rmq("group", "deliver", group, "-T", topic, "--id", sent[3], "--client", silent)
    assert (result.code, result.out) == (ExitCode.TIMED_OUT, b"")
    assert (
        result.err
        == f"rmq: client {silent} did not respond within 10 s; it may still be consuming {sent[3]}\n"
    )


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    with embedded_in_thread(enable_property_filter=True) as cluster:
        yield cluster


@pytest.fixture
def two_brokers(
    cli: Run, own_cluster: Cluster, tmp_path: Path
) -> Iterator[tuple[Run, subprocess.Popen[bytes]]]:
    """broker-a, and the process of broker-b; a group `billing` on both."""
    values = ("--set", "brokerName=broker-b", "--set", "enablePropertyFilter=true")
    settings = ("--port", "0", "--store", str(tmp_path / "b"), *values)

    def rmq(*arguments: str, stdin: bytes = b"") -> Result:
        return patient(cli)("-n", own_cluster.namesrv, *arguments, stdin=stdin)

    with process(own_cluster, "broker", *settings) as other:
        until_rows(rmq, 2, "cluster", "list")
        assert rmq("group", "create", "billing").code == 0
        yield rmq, other


def retries(rmq: Run) -> list[list[str]]:
    return [row[:3:2] for row in rmq("group", "settings", "billing").lines]


def partly_done(result: Result, what: str) -> list[str]:
    """Returns the lines of standard error beside `what`; nothing is in the output."""
    assert (result.code, result.out) == (ExitCode.PARTLY, b"")
    lines = result.err.splitlines()
    lines.remove(what)
    return lines


def test_a_change_that_one_of_two_brokers_does_not_take(
    two_brokers: tuple[Run, subprocess.Popen[bytes]],
) -> None:
    rmq, other = two_brokers
    os.kill(other.pid, signal.SIGSTOP)
    partly = ends_with(ExitCode.PARTLY)
    changed = impatient(rmq, partly, "group", "update", "billing", "--retries", "3")
    _, lost = partly_done(changed, "group billing updated on broker-a")
    assert lost.startswith("rmq: broker-b: ") and "did not answer" in lost
    as_json = impatient(rmq, partly, "group", "update", "billing", "--retries", "4", "--json")
    assert (as_json.code, as_json.json["brokers"], list(as_json.json["failures"])) == (
        3,
        ["broker-a"],
        ["broker-b"],
    )
    late = ends_with(ExitCode.TIMED_OUT)
    alone = impatient(rmq, late, "group", "update", "billing", "--retries", "3", "-b", "broker-b")
    assert (alone.code, alone.out) == (ExitCode.TIMED_OUT, b"")
    made = impatient(rmq, partly, "group", "create", "shipping", "--replace")
    partly_done(made, "group shipping created on broker-a")
    os.kill(other.pid, signal.SIGCONT)
    assert retries(rmq) == [["broker-a", "4"], ["broker-b", "16"]]
    assert rmq("group", "update", "billing", "--retries", "5").code == 0
    assert retries(rmq) == [["broker-a", "5"], ["broker-b", "5"]]


def test_a_broker_that_does_not_know_the_group_is_left_alone(
    two_brokers: tuple[Run, subprocess.Popen[bytes]],
) -> None:
    rmq, _ = two_brokers
    assert rmq("group", "create", "local", "-b", "broker-a").code == 0
    assert rmq("group", "update", "local", "--retries", "1").err.endswith(
        "\ngroup local updated on broker-a\n"
    )
    elsewhere = rmq("group", "update", "local", "--retries", "1", "-b", "broker-b")
    assert (elsewhere.code, "broker-b does not know group local" in elsewhere.err) == (4, True)


@pytest.fixture
def one_is_silent(two_brokers: tuple[Run, subprocess.Popen[bytes]]) -> Iterator[Run]:
    """Two messages of topic `orders` on each broker; broker-b hangs."""
    rmq, other = two_brokers
    assert rmq("topic", "create", "orders", "--queues", "1").code == 0
    for name in ("broker-a", "broker-b", "broker-a", "broker-b"):
        assert rmq("send", "orders", name, "-b", name).code == 0
    assert len(rmq("consume", "orders", "-g", "readers", "--from", "start", "-c", "4").lines) == 4
    os.kill(other.pid, signal.SIGSTOP)

    yield rmq
    os.kill(other.pid, signal.SIGCONT)


def test_what_the_other_broker_says_is_shown(one_is_silent: Run) -> None:
    expected, found = {}, {}
    for command, column, shown in (
        (("topic", "stats", "orders"), 0, ["broker-a"]),
        (("topic", "describe", "orders"), 0, ["broker-a"]),
        (("cluster", "producers"), 0, []),
        (("cluster", "producers", "-g", "nobody"), 0, []),
        (("pull", "orders"), -1, ["broker-a", "broker-a"]),
        (("pull", "orders", "-o", "-1"), -1, ["broker-a"]),
        (("pull", "orders", "--where", "UNIQ_KEY IS NOT NULL"), -1, ["broker-a", "broker-a"]),
        (("group", "settings", "billing"), 0, ["broker-a"]),
        (("group", "list"), 0, ["billing", "readers"]),
        (("group", "describe", "readers", "-T", "orders"), 1, ["broker-a"]),
        (("offsets", "show", "readers", "-T", "orders"), 1, ["broker-a"]),
    ):
        result = impatient(one_is_silent, ends_with(ExitCode.PARTLY), *command)
        told = re.sub(r"rmq: broker-b: .* within [0-9.]+ s\n", "silence", result.err)
        found[command] = result.code, [row[column] for row in result.lines], told
        expected[command] = ExitCode.PARTLY, shown, "silence"
    assert found == expected


def test_the_silent_broker_alone_has_nothing_to_show(one_is_silent: Run) -> None:
    expected, found = {}, {}
    for command, asked in (
        (("pull", "orders", "-b", "broker-b"), "GET_MIN_OFFSET"),
        (("pull", "orders", "-b", "broker-b", "--where", "a = 1"), "CHECK_CLIENT_CONFIG"),
        (("tail", "orders", "-b", "broker-b"), "GET_MIN_OFFSET"),
    ):
        result = impatient(one_is_silent, says(f"did not answer {asked}"), *command)
        found[command] = result.code, result.out, re.findall(r"did not answer \w+", result.err)
        expected[command] = ExitCode.TIMED_OUT, b"", [f"did not answer {asked}"]
    assert found == expected


def test_a_topic_is_changed_where_it_can_be(one_is_silent: Run) -> None:
    partly = ends_with(ExitCode.PARTLY)
    changed = impatient(one_is_silent, partly, "topic", "update", "orders", "--perm", "r")
    (lost,) = partly_done(changed, "topic orders updated on broker-a")
    assert lost.startswith("rmq: broker-b: ")
    late = ends_with(ExitCode.TIMED_OUT)
    alone = impatient(one_is_silent, late, "topic", "update", "orders", "--perm", "r", "-b", "broker-b")
    assert (alone.code, alone.out) == (ExitCode.TIMED_OUT, b"")


def test_a_topic_is_deleted_where_it_can_be_and_groups_that_keep_offsets_are_named(
    one_is_silent: Run,
) -> None:
    deleted = one_is_silent(*DELETING, "topic", "delete", "orders", "--yes")
    writers, kept, lost = partly_done(deleted, "topic orders deleted from broker-a")
    assert writers.startswith("rmq: topic orders is written to, last ")
    assert kept.startswith("rmq: offsets of readers are kept; ")
    assert ": rmq offsets reset readers orders --to start -n 127.0.0.1:" in kept
    assert lost.startswith("rmq: broker-b: ") and "GET_TOPIC_STATS_INFO" in lost, "it was asked once"


def test_a_group_is_deleted_where_it_can_be(one_is_silent: Run) -> None:
    deleted = one_is_silent(*DELETING, "group", "delete", "billing", "--yes")
    (lost,) = partly_done(deleted, "group billing deleted from broker-a")
    assert lost.startswith("rmq: broker-b: ")
    everything = one_is_silent(*DELETING, "group", "delete", "readers", "--all", "--yes", "--json")
    assert (everything.code, everything.json["brokers"]) == (ExitCode.PARTLY, ["broker-a"])
    assert everything.json["keptTopics"] == {"broker-b": ["%RETRY%readers"]}
    kept = "; still has %RETRY%readers; repeat the command when the broker responds"
    assert everything.error["failures"]["broker-b"].endswith(kept)
    late = ends_with(ExitCode.TIMED_OUT)
    described = impatient(one_is_silent, late, "topic", "describe", "%RETRY%readers")
    assert described.lines == [], "it is gone where it could be deleted"


def test_doctor_and_checks_name_the_silent_broker(one_is_silent: Run) -> None:
    found = impatient(one_is_silent, ends_with(ExitCode.FAILED), "doctor", "orders", "-g", "readers")
    failed = [line for line in found.lines if line[0] == "fail"]
    assert [(line[1], line[2].split()[0]) for line in failed] == [("broker", "broker-b")]
    lost = {
        "brokers": (2, b"CRITICAL"),
        "send": (2, b"CRITICAL"),
        "disk": (3, b"UNKNOWN"),
        "dlq": (3, b"UNKNOWN"),
    }
    for check, (code, state) in lost.items():
        limits = ("--warn", "1000000") if check in ("disk", "send") else ()
        result = impatient(one_is_silent, lambda result: b"broker-b" in result.out, "check", check, *limits)
        assert (result.code, result.out.split()[2], b"broker-b" in result.out) == (code, state, True)


def test_what_only_the_silent_broker_could_say(one_is_silent: Run) -> None:
    """A group that the others do not know may be known there; and half a reset would be none."""
    found = {}
    for command in (
        ("group", "settings", "nobody"),
        ("group", "describe", "nobody"),
        ("group", "delete", "nobody", "--yes"),
        ("group", "check", "nobody"),
        ("group", "clients", "nobody"),
        ("group", "clients", "readers"),
        ("group", "status", "readers"),
        ("offsets", "show", "nobody"),
        ("offsets", "reset", "readers", "orders", "--to", "start", "--yes"),
        ("trace", "7F0000017F00", "--trace-topic", "orders"),
    ):
        result = impatient(one_is_silent, lambda result: result.err.count("\n") == 1, *command)
        found[command] = result.code, result.out, " did not answer " in result.err, result.err.count("\n")
    assert found == dict.fromkeys(found, (ExitCode.TIMED_OUT, b"", True, 1))


def test_clients_are_shown_where_they_can_be(
    own_cluster: Cluster, two_brokers: tuple[Run, subprocess.Popen[bytes]]
) -> None:
    rmq, other = two_brokers
    assert rmq("topic", "create", "orders", "--queues", "1").code == 0
    with process(own_cluster, "consume", "orders", "-g", "readers"):
        (client,) = [row[0] for row in until_rows(rmq, 1, "group", "clients", "readers").lines]
        until_rows(rmq, 2, "group", "status", "readers", "-T", "orders")
        os.kill(other.pid, signal.SIGSTOP)
        found = {}
        for command in (
            ("group", "clients", "readers"),
            ("group", "status", "readers", "-T", "orders"),
            ("group", "describe", "readers", "--json"),
            ("offsets", "show", "readers", "-T", "orders", "--clients"),
        ):
            result = impatient(rmq, ends_with(ExitCode.PARTLY), *command)
            told = "broker-b: " in result.err, result.err.count("\n")
            found[command] = result.code, client in result.out.decode(), told
        checked = impatient(rmq, ends_with(ExitCode.PARTLY), "group", "check", "readers")
        os.kill(other.pid, signal.SIGCONT)
        assert (checked.code, checked.lines[0]) == (
            ExitCode.PARTLY,
            ["ok", "clients", "readers", "1 client running", ""],
        )
        assert found == dict.fromkeys(found, (ExitCode.PARTLY, True, (True, 1)))


def test_a_member_of_a_group_at_a_silent_broker_says_so(
    two_brokers: tuple[Run, subprocess.Popen[bytes]],
) -> None:
    rmq, other = two_brokers
    assert rmq("topic", "create", "orders", "--queues", "1", "-b", "broker-b").code == 0
    os.kill(other.pid, signal.SIGSTOP)
    silence = "did not answer GET_CONSUMER_LIST_BY_GROUP within "
    consume = ("consume", "orders", "-g", "readers", "--idle", "0.1")
    result = impatient(rmq, says(silence), *consume)
    os.kill(other.pid, signal.SIGCONT)
    assert (result.code, result.out) == (ExitCode.TIMED_OUT, b"")
    assert silence in result.err


@pytest.mark.parametrize("condition", [(), ("--where", "UNIQ_KEY IS NOT NULL")])
def test_the_other_broker_is_followed(one_is_silent: Run, condition: tuple[str, ...]) -> None:
    for timeout, idle in (("0.5", "1"), ("3", "6"), ("20", "40")):
        result = one_is_silent("--timeout", timeout, "tail", "orders", "--idle", idle, *condition)
        if len(result.lines) == 2 and "is lost" in result.err:
            break
    assert (result.code, [row[-1] for row in result.lines]) == (0, ["broker-a", "broker-a"])
    assert "broker-b" in result.err and result.err.count("is lost") == 1
