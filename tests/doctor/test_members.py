"""What the answers about a group show, field by field: each case has one thing that is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rmqcli.client import RequestTimeout
from rmqcli.codec.bodies.config import SubscriptionGroupConfig
from rmqcli.codec.bodies.heartbeat import ConsumeType, MessageModel, SubscriptionData
from rmqcli.codec.bodies.route import BrokerData, QueueData, TopicRouteData
from rmqcli.codec.bodies.running import (
    ClientConnection,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStatus,
    ProcessQueueInfo,
)
from rmqcli.codec.bodies.stats import OffsetWrapper
from rmqcli.codec.codes import Perm
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.doctor.finding import Finding
from rmqcli.doctor.group_facts import Members
from rmqcli.doctor.members import judged

NOW = 1_700_000_000_000
QUEUES = [MessageQueue("T", name, number) for name in ("a", "b") for number in (0, 1)]
RW = Perm.READ | Perm.WRITE
SETTINGS = SubscriptionGroupConfig(group_name="g")


def connection(*clients: str, **changes: Any) -> ConsumerConnection:
    """Clients `ID` at 10.0.0.1, or `ID@HOST`."""
    found: dict[str, Any] = {
        "connection_set": [
            ClientConnection(
                client_id=one.partition("@")[0], client_addr=f"{one.partition('@')[2] or '10.0.0.1'}:{port}"
            )
            for port, one in enumerate(clients, 5000)
        ],
        "subscription_table": {"T": SubscriptionData(topic="T", sub_string="*")},
        "consume_type": ConsumeType.CONSUME_PASSIVELY,
        "message_model": MessageModel.CLUSTERING,
    }
    return ConsumerConnection(**found | changes)


def state(
    queues: Any = (), subscription: Mapping[str, Any] | None = None, **changes: Any
) -> ConsumerRunningInfo:
    fields: dict[str, Any] = {"topic": "T", "sub_string": "*", "sub_version": NOW - 1}
    data = SubscriptionData(**fields | dict(subscription or {}))
    held = ProcessQueueInfo(last_consume_timestamp=NOW, locked=True)
    found: dict[str, Any] = {"subscription_set": [data], "mq_table": dict.fromkeys(queues, held)}
    return ConsumerRunningInfo(**found | changes)


def held(**changes: Any) -> dict[MessageQueue, ProcessQueueInfo]:
    return {queue: ProcessQueueInfo(locked=True, **changes) for queue in QUEUES[2:]}


def route(of_a: Mapping[str, Any] | None = None, **of_b: Any) -> TopicRouteData:
    good: dict[str, Any] = {"read_queue_nums": 2, "write_queue_nums": 2, "perm": RW}
    return TopicRouteData(
        queue_datas=[QueueData("a", **good | dict(of_a or {})), QueueData("b", **good | of_b)],
        broker_datas=[BrokerData(broker_name=name, broker_addrs={0: name}) for name in ("a", "b")],
    )


def members(**changes: Any) -> Members:
    both = connection("c1", "c2")
    found: dict[str, Any] = {
        "connection": both,
        "states": {"c1": state(QUEUES[:2]), "c2": state(QUEUES[2:])},
        "queues": {"T": QUEUES},
        "answers": {"a": both, "b": both},
        "settings": {"a": SETTINGS, "b": SETTINGS},
        "routes": {"T": route()},
        "offsets": {queue: OffsetWrapper(broker_offset=5, consumer_offset=5) for queue in QUEUES},
        "now_ms": NOW,
    }
    return Members("g", **found | changes)


def wrong(found: Members) -> list[Finding]:
    return [one for one in judged(found) if one.status in ("warn", "fail")]


def test_nothing_is_wrong() -> None:
    assert wrong(members()) == []


def settings(**changes: Any) -> dict[str, Any]:
    one = SubscriptionGroupConfig(group_name="g", **changes)
    return {"settings": {"a": one, "b": one}}


def properties(**of_second: str) -> dict[str, Any]:
    """Of two clients with the same properties, except for the second."""
    common = dict.fromkeys(of_second, "x")
    return {
        "states": {
            "c1": state(QUEUES[:2], properties=common),
            "c2": state(QUEUES[2:], properties=common | of_second),
        }
    }


def second(subscription: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    return {"states": {"c1": state(QUEUES[:2]), "c2": state(QUEUES[2:], subscription, **changes)}}


BROADCASTING = connection("c1", "c2", message_model=MessageModel.BROADCASTING)
OTHER = connection("c1", "c2", subscription_table={"T": SubscriptionData(topic="T", sub_string="old")})
RATES = {"T": ConsumeStatus(consume_failed_tps=2.0, consume_ok_tps=1.0)}
HOUR = {"T": ConsumeStatus(consume_failed_msgs=7, consume_ok_tps=1.0)}
WITHOUT_T = connection("c1", "c2", subscription_table={})
NO_ANSWER = RequestTimeout("c", "GET_CONSUMER_RUNNING_INFO", 3)
SILENT_TWO: dict[str, Any] = {"states": {}, "silent": {"c1": NO_ANSWER, "c2": NO_ANSWER}}
RETRY = "%RETRY%g"
WAITING = {QUEUES[2]: OffsetWrapper(broker_offset=9, consumer_offset=5)}
UNLOCKED: dict[str, Any] = {
    "properties": {"PROP_CONSUMEORDERLY": "true"},
    "mq_table": {queue: ProcessQueueInfo(last_consume_timestamp=NOW) for queue in QUEUES[2:]},
}


@pytest.mark.parametrize(
    ("changes", "status", "check", "text"),
    [
        # connections
        ({"answers": {"a": connection("c1", "c2"), "b": connection("c1")}}, "fail", "connections", "c2 is not connected to b"),
        ({"answers": {"a": connection("c1", "c2"), "b": ConsumerConnection()}}, "fail", "connections", "c1, c2 are not connected to b"),
        ({"answers": {"a": connection("c1", "c1", "c2"), "b": connection("c1", "c2")}}, "fail", "connections", "c1 is the client id of several"),
        ({"answers": {"a": connection("c1", "c2"), "b": connection("c1", "c2@10.9.9.9")}}, "fail", "connections", "c2 is the client id of several"),
        # running infos
        (properties(messageModel="BROADCASTING"), "fail", "modes", "different message models: c1 x, c2 BROADCASTING"),
        (properties(PROP_CONSUME_TYPE="y"), "fail", "modes", "different kinds of consumers"),
        (properties(PROP_CONSUMEORDERLY="true"), "fail", "modes", "different orderly consumption"),
        (properties(consumeFromWhere="y"), "warn", "modes", "different starts of new queues"),
        (properties(maxReconsumeTimes="3"), "warn", "modes", "different numbers of retries"),
        (properties(PROP_NAMESERVER_ADDR="10.0.0.7:9876"), "warn", "modes", "clients have no name server in common"),
        (second({"sub_version": NOW + 60_000}), "warn", "clocks", "the clock of c2 is 1 min 0 s ahead"),
        (second(properties={"PROP_CONSUMER_START_TIMESTAMP": str(NOW + 5000)}), "warn", "clocks", "the clock of c2 is 5 s ahead"),
        (second(mq_table=held(last_pull_timestamp=NOW + 90_000)), "warn", "clocks", "the clock of c2 is 1 min 30 s ahead"),
        (second(mq_table=held(last_consume_timestamp=NOW + 90_000)), "warn", "clocks", "the clock of c2 is 1 min 30 s ahead"),
        (second(mq_table=held(last_pull_timestamp=NOW - 300_000)), "warn", "progress", "queues b:0-1 were not pulled for 5 min 0 s by c2"),
        (second(status_table=RATES), "fail", "failures", "2 of 3 messages per second fail"),
        (second(status_table=HOUR), "warn", "failures", "7 messages failed in the last hour"),
        ({**second(**UNLOCKED), "offsets": WAITING}, "warn", "locks", "c2 has no lock of queue b:0"),
        # subscriptions of brokers
        ({"answers": {"a": OTHER, "b": connection("c1", "c2")}}, "warn", "subscriptions", "a filters T by 'old' (TAG)"),
        ({"answers": {"a": WITHOUT_T, "b": connection("c1", "c2")}}, "fail", "subscriptions", "a knows no subscription of T: it refuses"),
        ({**SILENT_TWO, "answers": {"a": OTHER, "b": connection("c1", "c2")}}, "warn", "subscriptions", "b filters T by '*' (TAG), not as a does"),
        ({"answers": {"a": BROADCASTING, "b": connection("c1", "c2")}}, "fail", "modes", "different message models: a BROADCASTING, b CLUSTERING"),
        ({"answers": {"a": connection("c1", "c2"), "b": connection("c1", "c2", consume_type=ConsumeType.CONSUME_ACTIVELY)}}, "fail", "modes", "different kinds of consumers: a CONSUME_PASSIVELY, b CONSUME_ACTIVELY"),
        # topics
        ({"absent": ("bills",)}, "fail", "topic", "is subscribed to, and does not exist"),
        ({"routes": {"T": route(perm=Perm.WRITE)}}, "fail", "topic", "cannot be read on b"),
        ({"routes": {"T": route(read_queue_nums=0)}}, "fail", "topic", "cannot be read on b"),
        ({"routes": {"T": route(write_queue_nums=4)}}, "fail", "topic", "b stores in 4 queues, consumers read 2"),
        ({"routes": {"T": TopicRouteData()}}, "fail", "topic", "no queue can be read from"),
        ({"routes": {"T": route(perm=Perm.READ, of_a={"perm": Perm.READ})}}, "warn", "topic", "cannot be sent to: nothing new comes"),
        ({"routes": {"T": route(), RETRY: route(perm=Perm.READ)}}, "fail", "topic", "cannot be written on b: messages that fail"),
        ({"routes": {"T": route(), RETRY: route()}, **settings(retry_queue_nums=3)}, "fail", "settings", "a: failed messages go to 3 queues of %RETRY%g, consumers read 2"),
        # settings
        (settings(consume_enable=False), "fail", "settings", "a: the group must not consume"),
        ({**settings(consume_broadcast_enable=False), "connection": BROADCASTING}, "fail", "settings", "a: the group must not broadcast"),
        (settings(retry_queue_nums=0), "fail", "settings", "a: there is no retry queue"),
        (settings(retry_max_times=0), "warn", "settings", "a: no retries"),
        (settings(retry_max_times=-1), "warn", "settings", "a: no retries"),
        (second(properties={"maxReconsumeTimes": "0"}), "warn", "modes", "c2 asks for no retries"),
        (settings(notify_consumer_ids_changed_enable=False), "warn", "settings", "a: clients are not told"),
        (settings(broker_id=1), "warn", "settings", "a: clients are to read from broker id 1"),
        ({"settings": {"a": SETTINGS, "b": SubscriptionGroupConfig("g", retry_max_times=3)}}, "warn", "settings", "the settings on b are not"),
        ({"settings": {"a": SETTINGS}}, "warn", "settings", "b has no settings of the group"),
        # offsets
        ({"offsets": {QUEUES[0]: OffsetWrapper(broker_offset=5, consumer_offset=9)}}, "fail", "offsets", "offsets are beyond the end: the next 4 messages"),
        ({"offsets": WAITING, "expired": [QUEUES[2]]}, "fail", "offsets", "messages were deleted before they were consumed: queue b:0"),
        ({"offsets": {QUEUES[0]: OffsetWrapper(5, 5, NOW + 3_600_000)}}, "warn", "offsets", "consumed messages were stored 1 h 0 min in the future"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found(changes: Mapping[str, Any], status: str, check: str, text: str) -> None:
    first, *_ = [one for one in wrong(members(**changes)) if one.check == check]
    assert (first.status, first.text[: len(text)]) == (status, text)
    assert first.fix


def test_tags_and_a_sql92_condition_of_one_text_are_unlike() -> None:
    found = wrong(members(**second({"expression_type": "SQL92"})))
    assert [one.text for one in found if one.status == "fail"] == [
        "T '*' (SQL92) is subscribed to by c2 only",
        "T '*' (TAG) is subscribed to by c1 only",
    ]


def test_offsets_of_a_topic_that_is_no_longer_subscribed_only_warn() -> None:
    offsets = {MessageQueue("old", "a", 0): OffsetWrapper(broker_offset=0, consumer_offset=9)}
    assert [one.status for one in wrong(members(offsets=offsets))] == ["warn"]


def test_a_broadcasting_group_has_no_offsets_on_brokers() -> None:
    offsets = {queue: OffsetWrapper(broker_offset=5, consumer_offset=0) for queue in QUEUES}
    delays = dict.fromkeys(QUEUES, 3_600_000)
    assert wrong(members(connection=BROADCASTING, offsets=offsets, delays=delays)) == []


def test_what_cannot_be_seen_is_not_called_ok() -> None:
    """Pull consumers need not report their queues: nobody knows whether their messages move."""
    pulling = connection("c1", "c2", consume_type=ConsumeType.CONSUME_ACTIVELY)
    offsets = {queue: OffsetWrapper(broker_offset=5, consumer_offset=4) for queue in QUEUES}
    changes = {"connection": pulling, "answers": {"a": pulling, "b": pulling}, "states": {}}
    (found,) = [one for one in judged(members(offsets=offsets, **changes)) if one.check == "progress"]
    assert (found.status, found.text[:21]) == ("skip", "4 messages to consume")


def test_a_queue_of_a_pull_consumer_may_rest() -> None:
    pulling = connection("c1", "c2", consume_type=ConsumeType.CONSUME_ACTIVELY)
    rested = second(mq_table=held(last_pull_timestamp=NOW - 300_000))
    assert wrong(members(connection=pulling, answers={"a": pulling, "b": pulling}, **rested)) == []
