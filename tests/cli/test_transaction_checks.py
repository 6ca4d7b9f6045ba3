"""`rmq send --transaction unknown --check`: a producer that answers a broker's checks, one every 0.1 s.

A busy machine may need more than one check until the broker has the answer; each answer that commits stores
the message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import trio

from rmqcli import broker
from rmqcli.broker.testing.embedded import Cluster, embedded_in_thread
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.client import Admin, PullConsumer, TransactionState
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.message import Message
from rmqcli.flows.sending import Answered, Transacting
from tests.cli.conftest import Run
from tests.cli.waiting import has_rows, until
from tests.support import PATIENCE

TOPIC = "payments"
CHECK = re.compile(r"rmq: check (\d+) of ([0-9A-F]{32}): (\w+)")
SOON: dict[str, Any] = {"transaction_check_interval": 100, "transaction_time_out": 100}
AS_OFTEN_AS_IT_TAKES = 1_000_000


@pytest.fixture
def asking() -> Iterator[Cluster]:
    with embedded_in_thread(**SOON, transaction_check_max=AS_OFTEN_AS_IT_TAKES) as running:
        yield running


@pytest.fixture
def bank(cli: Run, asking: Cluster) -> Run:
    return lambda *arguments, stdin=b"": cli("-n", asking.namesrv, "--timeout", "30", *arguments, stdin=stdin)


async def check_no_more_than(times: int, cluster: Cluster) -> None:
    async with Admin(namesrv=cluster.namesrv, timeout=PATIENCE) as admin:
        body = b"transactionCheckMax=%d" % times
        await admin.invoke(cluster.broker_address, RequestCode.UPDATE_BROKER_CONFIG, body=body)


async def test_one_check_of_each_message_is_enough_and_stores_it_once(autojump_clock: Any) -> None:
    told: list[Answered] = []
    async with broker.embedded_in_memory(**SOON, transaction_check_max=1) as cluster:
        sending = Transacting(TransactionState.UNKNOW, TransactionState.COMMIT_MESSAGE, **cluster.client())
        async with sending.producer:
            ids = [(await sending.send(Message.of(TOPIC, body))).msg_id for body in (b"a", b"b")]
            await sending.settle(None, told.append)
            await trio.sleep(300)
        async with PullConsumer("reader", **cluster.client()) as reader:
            queues = await reader.message_queues(TOPIC)
            assert sum([await reader.max_offset(queue) for queue in queues]) == len(ids)
    assert sorted(told) == sorted(Answered(msg_id, "1", True) for msg_id in ids)


@pytest.mark.parametrize("answer", ["commit", "rollback"])
def test_it_ends_when_every_message_is_decided(bank: Run, answer: str) -> None:
    topic = f"{TOPIC}-{answer}"
    assert bank("topic", "create", topic, "--queues", "1").code == 0
    sent = bank("send", topic, "--transaction", "unknown", "--check", answer, stdin=b"a\nb\n")
    assert sent.code == 0
    assert {row[1:] for row in CHECK.findall(sent.err)} == {(line[3], answer) for line in sent.lines}
    assert bank("send", topic, "last").code == 0
    last = until(bank, lambda result: b"last" in result.out, "pull", topic, "-f", "%v\n")
    assert set(last.out.split()) == ({b"a", b"b", b"last"} if answer == "commit" else {b"last"})


def test_an_answer_that_decides_nothing_is_asked_for_until_the_broker_gives_up(
    bank: Run, asking: Cluster
) -> None:
    trio.run(check_no_more_than, 3, asking)
    assert bank("topic", "create", TOPIC, "--queues", "1").code == 0
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


def test_half_messages_of_others_are_left_alone(bank: Run, asking: Cluster) -> None:
    """Each scan of the broker checks the other message first: it is the older one."""
    topic = f"{TOPIC}-shared"
    assert bank("topic", "create", topic, "--queues", "1").code == 0
    other = bank("send", topic, "other", "--transaction", "unknown").lines[0][3]
    mine = bank("send", topic, "mine", "--transaction", "unknown", "--check", "commit")
    assert {row[1] for row in CHECK.findall(mine.err)} == {mine.lines[0][3]}
    until(bank, has_rows, "pull", topic, "-f", "%v\n")
    trio.run(check_no_more_than, 1, asking)
    until(bank, lambda found: other in found.out.decode(), "pull", "TRANS_CHECK_MAX_TIME_TOPIC", "-f", "%i\n")
    assert set(bank("pull", topic, "-f", "%v\n").out.split()) == {b"mine"}


def test_the_rest_is_settled_when_some_could_not_be_sent(bank: Run) -> None:
    assert bank("topic", "create", TOPIC, "--queues", "1").code == 0
    lines = b'{"topic":"t","body":"good"}\nnonsense\n'
    sent = bank("send", TOPIC, "--jsonl", "--transaction", "unknown", "--check", "commit", stdin=lines)
    assert sent.code == ExitCode.PARTLY
    assert {row[1:] for row in CHECK.findall(sent.err)} == {(sent.lines[0][3], "commit")}


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
