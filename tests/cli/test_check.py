"""`rmq check`: exit codes of a monitoring plug-in, whatever happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqcli.broker.system import system_now_ms
from rmqcli.broker.testing.embedded import Cluster
from rmqcli.doctor.survey import LostBroker, Seen, SeenFile
from tests.cli.conftest import Run


def test_lag(rmq: Run, topic: str) -> None:
    group = f"g_{topic}"[:100]
    for number in range(3):
        rmq("send", topic, str(number))
    rmq("consume", topic, "-g", group, "--from", "start", "-c", "3")
    rmq("send", topic, "unread")
    checked = rmq("check", "lag", group)
    assert (checked.code, checked.err) == (0, "")
    assert checked.out.decode() == f"RMQ LAG OK - highest lag 1 ({group}) | lag_{group}=1;;;0;\n"
    assert rmq("check", "lag", group, "--warn", "0").code == 1
    critical = rmq("check", "lag", group, "--topic", topic, "--warn", "0", "--crit", "0", "--json")
    assert (critical.code, critical.json["state"]) == (2, "CRITICAL")
    assert (
        f'rmq_group_lag_messages{{group="{group}"}} 1\n'.encode()
        in rmq("check", "lag", group, "-f", "prometheus").out
    )


@pytest.mark.parametrize(
    ("words", "start"),
    [
        (("brokers",), "RMQ BROKERS OK - brokers that do not answer: 0 | lost=0;;0;0;"),
        (("brokers", "--expect", "5"), "RMQ BROKERS CRITICAL - "),
        (("brokers", "--expect", "5", "--warn", "1"), "RMQ BROKERS WARNING - "),
        (("disk", "--warn", "100"), "RMQ DISK OK - fullest disk "),
        (("disk", "--warn", "101:", "--crit", "102:"), "RMQ DISK CRITICAL - fullest disk "),
        (("send", "--crit", "@60000:"), "RMQ SEND OK - slowest send "),
        (("dlq", "--warn", "100000"), "RMQ DLQ OK - most dead letters"),
        (("lag", "nobody"), "RMQ LAG UNKNOWN - "),
        (("dlq", "nobody"), "RMQ DLQ UNKNOWN - "),
        (("disk", "-b", "broker-x"), "RMQ DISK UNKNOWN - no broker broker-x; known: broker-a"),
        (("send", "-T", "nowhere"), "RMQ SEND UNKNOWN - topic nowhere not found"),
        (("lag", "--warn", "much"), "RMQ LAG UNKNOWN - 'much' is not a range"),
        (("lag", "-f", "xml"), "RMQ LAG UNKNOWN - --format xml: expected nagios, prometheus, json"),
        (("lag", "-n", "127.0.0.1:1"), "RMQ LAG UNKNOWN - cannot connect to name server 127.0.0.1:1"),
        (("lag", "--profile", "none"), "RMQ LAG UNKNOWN - profile none not found"),
    ],
)
def test_states(rmq: Run, words: tuple[str, ...], start: str) -> None:
    checked = rmq("check", *words)
    states = {" OK ": 0, " WARNING ": 1, " CRITICAL ": 2, " UNKNOWN ": 3}
    assert checked.out.decode().startswith(start)
    assert checked.code == next(code for name, code in states.items() if name in start)
    assert checked.err == ""


def test_a_wrong_command_line_is_unknown_not_critical(rmq: Run) -> None:
    wrong = rmq("check", "brokers", "--expect", "many")
    assert (wrong.code, wrong.out, wrong.err.count("\n")) == (3, b"", 1)
    assert rmq("check", "bogus").code == rmq("check", "lag", "--bogus").code == 3
    assert rmq("topic", "list", "--bogus").code == rmq("topic", "bogus").code == 2


@pytest.fixture
def former(cluster: Cluster) -> SeenFile:
    """The file of an earlier run, which saw a broker more."""
    file = SeenFile(cluster.namesrv)
    file.write(Seen([LostBroker("broker-z", "c", "10.0.0.9:10911", system_now_ms() - 3_930_000)]))
    return file


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (("brokers",), "CRITICAL"),
        (("send",), "CRITICAL"),
        (("disk", "--warn", "101", "--crit", "102"), "UNKNOWN"),
        (("dlq", "--warn", "100000"), "UNKNOWN"),
        (("lag",), "UNKNOWN"),
        (("brokers", "--expect", "1"), "OK"),
        (("send", "-b", "broker-a"), "OK"),
    ],
)
def test_a_broker_of_an_earlier_run_is_lost(
    rmq: Run, former: SeenFile, words: tuple[str, ...], state: str
) -> None:
    checked = rmq("check", *words)
    first, *details = checked.out.decode().splitlines()
    assert first.startswith(f"RMQ {words[0].upper()} {state} - ")
    said = "broker-z: is no longer registered; 1 h 5 min ago it was, at 10.0.0.9:10911"
    assert (said in details) is (state != "OK")
    again = rmq("check", "brokers")
    assert again.code == (0 if "--expect" in words else 2)


def test_doctor_and_metrics_name_it_too(rmq: Run, former: SeenFile) -> None:
    examined = rmq("doctor")
    assert [line[:3] for line in examined.lines if line[0] == "fail"] == [["fail", "broker", "broker-z"]]
    shown = rmq("metrics", "show")
    assert b'rmq_up{broker="broker-z",brokerIP="10.0.0.9:10911",cluster="c"} 0.0' in shown.out
    assert (shown.code, "broker-z: does not answer" in shown.err) == (3, True)


def test_a_state_folder_that_cannot_be_written_is_said(
    rmq: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RMQ_STATE_DIR", str(tmp_path / "file"))
    checked = rmq("check", "brokers")
    assert (checked.code, b"\nbrokers of earlier runs are unknown: " in checked.out) == (0, True)
    assert "skip" in [line[0] for line in rmq("doctor").lines if "earlier runs" in line[3]]


def test_a_topic_that_a_lost_broker_may_have_had(rmq: Run, former: SeenFile) -> None:
    missing = rmq("pull", "only_there")
    assert (missing.code, missing.err.count("\n")) == (4, 1)
    assert missing.err.endswith("; a broker that had it may be lost: broker-z (rmq doctor)\n")
