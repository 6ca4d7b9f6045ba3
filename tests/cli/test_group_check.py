"""`rmq group check`, and `rmq group status --stack`."""

from __future__ import annotations

import pytest

from rmqcli.broker.testing.embedded import Cluster
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.client import RequestTimeout
from rmqcli.codec.bodies.heartbeat import ConsumeType, MessageModel, SubscriptionData
from rmqcli.codec.bodies.running import (
    ClientConnection,
    ConsumerConnection,
    ConsumerRunningInfo,
    ProcessQueueInfo,
)
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.doctor.group_facts import Members
from rmqcli.doctor.members import judged
from tests.cli.conftest import Run
from tests.cli.members import member
from tests.cli.waiting import until

QUEUES = [MessageQueue("T", "broker-a", number) for number in range(3)]


def connection(
    *clients: tuple[str, int], kind: str = ConsumeType.CONSUME_PASSIVELY, model: str = MessageModel.CLUSTERING
) -> ConsumerConnection:
    return ConsumerConnection(
        connection_set=[ClientConnection(client_id=name, language="JAVA", version=v) for name, v in clients],
        subscription_table={"T": SubscriptionData(topic="T", sub_string="*")},
        consume_type=ConsumeType(kind),
        message_model=MessageModel(model),
    )


def state(*numbers: int, expression: str = "*") -> ConsumerRunningInfo:
    return ConsumerRunningInfo(
        subscription_set=[SubscriptionData(topic="T", sub_string=expression)],
        mq_table={QUEUES[number]: ProcessQueueInfo() for number in numbers},
    )


TWO = connection(("c1", 1), ("c2", 1))


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"c1": state(0, 1), "c2": state(2)}, ("ok", "3 queues, each with an owner")),
        ({"c1": state(0), "c2": state(2)}, ("fail", "queue broker-a:1 without an owner")),
        ({"c1": state(0, 1), "c2": state(1, 2)}, ("warn", "queue broker-a:1 with several owners")),
        (
            {"c1": state(0), "c2": state(1), "c3": state(2), "c4": state()},
            ("warn", "3 queues for 4 clients: c4 without one"),
        ),
    ],
)
def test_owners_of_queues(members: dict[str, ConsumerRunningInfo], said: tuple[str, str]) -> None:
    found = judged(Members("G", TWO, members, {}, {"T": QUEUES}))
    assert [(one.status, one.target, one.text) for one in found if one.check == "queues"] == [
        (said[0], "G T", said[1])
    ]


def test_a_silent_client_may_own_what_nobody_else_does() -> None:
    silent = {"c2": RequestTimeout("a:10911", "GET_CONSUMER_RUNNING_INFO", 3.0)}
    found = {one.check: one for one in judged(Members("G", TWO, {"c1": state(0)}, silent, {"T": QUEUES}))}
    assert {check: one.status for check, one in found.items()} == {
        "clients": "warn",
        "versions": "ok",
        "subscriptions": "ok",
        "queues": "warn",
    }
    assert found["clients"].text.startswith("c2 does not report its state: ")


def test_queues_of_a_broker_that_does_not_answer_are_not_called_forgotten() -> None:
    other = MessageQueue("T", "broker-b", 0)
    members = {"c1": state(0, 1), "c2": state(2)}
    found = judged(Members("G", TWO, members, {}, {"T": [*QUEUES, other]}, {"broker-a": TWO}))
    assert [(one.status, one.text) for one in found if one.check == "queues"] == [
        ("warn", "queue broker-b:0 without an owner, of a broker that does not answer")
    ]


def test_unlike_subscriptions_and_versions() -> None:
    members = {"c1": state(0, 1), "c2": state(2, expression="paid")}
    found = list(judged(Members("G", connection(("c1", 1), ("c2", 2)), members, {}, {"T": QUEUES})))
    failed = [one for one in found if one.status == "fail"]
    assert [one.text for one in failed] == [
        "T '*' is subscribed to by c1 only",
        "T 'paid' is subscribed to by c2 only",
    ]
    assert [one.status for one in found if one.check == "versions"] == ["warn"]


@pytest.mark.parametrize(
    ("of", "reason"),
    [
        (connection(("c1", 1), model=MessageModel.BROADCASTING), "each client of a broadcasting group"),
        (connection(("c1", 1), kind=ConsumeType.CONSUME_ACTIVELY), "pull consumers choose"),
    ],
)
def test_queues_that_nobody_needs_to_own(of: ConsumerConnection, reason: str) -> None:
    (found,) = [
        one for one in judged(Members("G", of, {"c1": state()}, {}, {"T": QUEUES})) if one.check == "queues"
    ]
    assert (found.status, found.text.startswith(reason)) == ("skip", True)


def test_a_running_group(rmq: Run, cluster: Cluster, topic: str) -> None:
    group = f"G_{topic}"
    with member(cluster, group, topic):
        found = until(rmq, lambda result: result.code == 0, "group", "check", group)
        assert {(row[0], row[1]) for row in found.lines} - {("ok", "progress")} == {
            ("ok", check) for check in ("clients", "versions", "subscriptions", "queues")
        }
        listed = rmq("group", "check", "--json").json["checks"]
        assert f"{group} {topic}" in {one["target"] for one in listed}
        client = rmq("group", "clients", group).lines[0][0]
        stacks = rmq("group", "status", group, "--stack")
        assert (stacks.code, {row[0] for row in stacks.lines}) == (0, {client})
        assert any("thread" in row[1].lower() for row in stacks.lines)
        assert rmq("group", "status", group, "--stack", "--json").json[0]["jstack"]
    both = rmq("group", "status", group, "--stack", "--rates")
    assert (both.code, "cannot be combined" in both.err) == (ExitCode.USAGE, True)


def test_groups_without_clients(rmq: Run, topic: str) -> None:
    group = f"G_{topic}"
    rmq("group", "create", group)
    assert rmq("group", "check", group).lines == [["skip", "clients", group, "no client is running", ""]]
    unknown = rmq("group", "check", "no_such_group")
    assert (unknown.code, unknown.out) == (ExitCode.NOT_FOUND, b"")
