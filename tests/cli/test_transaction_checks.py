"""`rmq send --transaction unknown --check`: a producer that answers a broker's checks, three every 0.1 s."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from broker.testing.embedded import Cluster, embedded_in_thread
from rmqcli.cli.exit_codes import ExitCode
from tests.cli.conftest import Run
from tests.cli.waiting import has_rows, until

TOPIC = "payments"
CHECK = re.compile(r"rmq: check (\d) of ([0-9A-F]{32}): (\w+)")


@pytest.fixture(scope="module")
def asking() -> Iterator[Cluster]:
    with embedded_in_thread(
        transaction_check_interval=100, transaction_time_out=100, transaction_check_max=3
    ) as running:
        yield running


@pytest.fixture
def bank(cli: Run, asking: Cluster) -> Run:
    return lambda *arguments, stdin=b"": cli("-n", asking.namesrv, "--timeout", "30", *arguments, stdin=stdin)


@pytest.mark.parametrize("answer", ["commit", "rollback"])
def test_it_ends_when_every_message_is_decided(bank: Run, answer: str) -> None:
    topic = f"{TOPIC}-{answer}"
    assert bank("topic", "create", topic, "-q", "1").code == 0
    sent = bank("send", topic, "--transaction", "unknown", "--check", answer, stdin=b"a\nb\n")
    assert sent.code == 0
    assert sorted(CHECK.findall(sent.err)) == sorted(("1", line[3], answer) for line in sent.lines)
    assert bank("send", topic, "last").code == 0
    last = until(bank, lambda result: b"last" in result.out, "pull", topic, "-f", "%v\n")
    assert sorted(last.out.split()) == ([b"a", b"b", b"last"] if answer == "commit" else [b"last"])


def test_an_answer_that_decides_nothing_is_asked_for_until_the_broker_gives_up(bank: Run) -> None:
    assert bank("topic", "create", TOPIC, "-q", "1").code == 0
    half, ids = ("send", TOPIC, "paid", "--transaction", "unknown", "--check", "unknown"), list[str]()
    for seconds in ("2", "10", "60"):  # as long as a busy machine needs for three checks
        sent = bank(*half, "--wait", seconds)
        ids.append(sent.lines[0][3])
        if len(CHECK.findall(sent.err)) == 3:
            break
    assert sent.code == ExitCode.TIMED_OUT
    assert [(times, answer) for times, _, answer in CHECK.findall(sent.err)] == [
        ("1", "unknown"),
        ("2", "unknown"),
        ("3", "unknown"),
    ]
    assert f"rmq: undecided after {seconds} s: 1 message; the broker continues to check" in sent.err
    given_up = until(
        bank,
        lambda result: len(result.lines) == len(ids),
        *("pull", "TRANS_CHECK_MAX_TIME_TOPIC", "-f", "%i %v\n"),
    )
    assert given_up.out.decode().split() == [word for msg_id in ids for word in (msg_id, "paid")]


def test_half_messages_of_others_are_left_alone(bank: Run) -> None:
    topic = f"{TOPIC}-shared"
    assert bank("topic", "create", topic, "-q", "1").code == 0
    other = bank("send", topic, "other", "--transaction", "unknown").lines[0][3]
    mine = bank("send", topic, "mine", "--transaction", "unknown", "--check", "commit")
    assert [row[1] for row in CHECK.findall(mine.err)] == [mine.lines[0][3]]
    until(bank, lambda found: other in found.out.decode(), "pull", "TRANS_CHECK_MAX_TIME_TOPIC", "-f", "%i\n")
    found = until(bank, has_rows, "pull", topic, "-f", "%v\n")
    assert found.out == b"mine\n"


def test_the_rest_is_settled_when_some_could_not_be_sent(bank: Run) -> None:
    assert bank("topic", "create", TOPIC, "-q", "1").code == 0
    lines = b'{"topic":"t","body":"good"}\nnonsense\n'
    sent = bank("send", TOPIC, "--jsonl", "--transaction", "unknown", "--check", "commit", stdin=lines)
    assert sent.code == ExitCode.PARTLY
    assert [row[1:] for row in CHECK.findall(sent.err)] == [(sent.lines[0][3], "commit")]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--transaction", "unknown", "--check", "maybe"], "--check maybe"),
        (["--transaction", "commit", "--check", "commit"], "--transaction unknown"),
        (["--check", "commit"], "--transaction unknown"),
        (["--wait", "1"], "--check"),
        (["--transaction", "unknown", "--check", "unknown"], "--wait"),
    ],
)
def test_options_that_do_not_fit(cli: Run, options: list[str], named: str) -> None:
    result = cli("send", "orders", "x", *options)
    assert result.code == ExitCode.USAGE
    assert named in result.err
