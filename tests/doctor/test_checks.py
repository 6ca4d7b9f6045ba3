"""Checks on surveys that are written down: no network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rmqcli.client import ClientError, ConnectionFailed, NoRoute, NotPermitted, NotSupported, RequestTimeout
from rmqcli.codec.bodies.config import SubscriptionGroupConfig
from rmqcli.codec.bodies.heartbeat import SubscriptionData
from rmqcli.codec.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from rmqcli.codec.bodies.running import ClientConnection, ConsumerConnection, ConsumerRunningInfo
from rmqcli.codec.codes import Perm
from rmqcli.doctor import brokers, groups, servers
from rmqcli.doctor.checks import judge
from rmqcli.doctor.finding import Finding, Status, worst
from rmqcli.doctor.reaching import HANGS, advice, kind_of
from rmqcli.doctor.survey import GroupSurvey, LostBroker, Reading, Survey

NS, OTHER = "10.1.1.1:9876", "10.1.1.2:9876"
A, B = "10.0.0.1:10911", "10.0.0.2:10911"
BOOT = 1_700_000_000_000
TABLE = {
    "bootTimestamp": str(BOOT),
    "runtime": "[ 0 days, 1 hours, 0 minutes, 5 seconds ]",
    "brokerVersionDesc": "V4_9_8",
    "commitLogDiskRatio": "0.28",
}
NOW = BOOT + 3_605_000
DOWN = ConnectionFailed(A, "Connection refused")


def view(addresses: Mapping[str, Mapping[int, str]]) -> ClusterInfo:
    return ClusterInfo(
        broker_addr_table={
            name: BrokerData(cluster="c", broker_name=name, broker_addrs=dict(table))
            for name, table in addresses.items()
        }
    )


ONE = view({"a": {0: A}})


def reading(now: int = NOW, **changes: str) -> Reading:
    return Reading(TABLE | changes, now, now + 2)


def survey(info: ClusterInfo = ONE, **changes: Any) -> Survey:
    addresses = [
        address for data in info.broker_addr_table.values() for address in data.broker_addrs.values()
    ]
    found: dict[str, Any] = {
        "views": {NS: info},
        "readings": dict.fromkeys(addresses, reading()),
    }
    return Survey(**found | changes)


def lines(findings: Any) -> list[tuple[Status, str]]:
    return [(finding.status, finding.text) for finding in findings]


def test_a_healthy_cluster() -> None:
    found = judge(survey(vip={A: None}))
    assert worst(found) is Status.OK
    assert [finding.check for finding in found] == [
        "name server",
        "same view",
        "broker",
        "version",
        "disk",
        "clock",
        "VIP port",
        "core",
    ]
    assert all(finding.fix is None for finding in found)


def test_name_servers_that_are_none() -> None:
    refused = NotSupported(3, None, NS, "GET_BROKER_CLUSTER_INFO")
    found = judge(Survey({NS: refused, OTHER: DOWN}))
    assert lines(found) == [(Status.FAIL, "is a broker, not a name server"), (Status.FAIL, str(DOWN))]
    assert found[0].fix is not None and "-n" in found[0].fix
    assert found[1].fix == servers.START, "what runs elsewhere is not started here"
    (here,) = judge(Survey({"127.0.0.1:9876": ConnectionFailed("127.0.0.1:9876", "refused")}))[:1]
    assert here.fix is not None and "rmq up" in here.fix


def test_name_servers_that_differ() -> None:
    both = view({"a": {0: A}, "b": {0: B}})
    (found,) = servers.same_view(Survey({NS: both, OTHER: ONE}))
    assert (found.status, found.target, found.text) == (Status.FAIL, OTHER, f"does not know b {B}")
    assert next(iter(servers.same_view(Survey({NS: both, OTHER: both})))).status is Status.OK


def test_routes() -> None:
    data = ONE.broker_addr_table["a"]
    queues = QueueData(broker_name="a", read_queue_nums=4, write_queue_nums=2, perm=Perm.READ | Perm.WRITE)
    readable = QueueData(broker_name="a", read_queue_nums=4, write_queue_nums=4, perm=Perm.READ)
    slave = BrokerData(cluster="c", broker_name="a", broker_addrs={1: A})
    routes: dict[str, TopicRouteData | ClientError] = {
        "1": TopicRouteData(queue_datas=[queues], broker_datas=[data]),
        "2": TopicRouteData(queue_datas=[readable], broker_datas=[data]),
        "3": TopicRouteData(queue_datas=[queues], broker_datas=[slave]),
        "4": NoRoute("orders", "4"),
        "5": DOWN,
    }
    assert lines(servers.route(survey(topic="orders", routes=routes))) == [
        (Status.OK, "topic orders: 2 queues to send to, 4 to read from"),
        (Status.FAIL, "topic orders has no queue that can be sent to"),
        (Status.FAIL, "topic orders has no queue that can be sent to"),
        (Status.FAIL, "has no topic orders"),
        (Status.FAIL, str(DOWN)),
        (Status.FAIL, "has other queues or permissions of topic orders than 1"),
    ]


READ_WRITE = Perm.READ | Perm.WRITE


@pytest.mark.parametrize(
    ("of_b", "order", "status", "text"),
    [
        ({"perm": Perm.READ}, None, Status.WARN, "topic orders cannot be sent to on b"),
        ({"perm": Perm.WRITE}, None, Status.FAIL, "topic orders: cannot be read on b"),
        ({"write_queue_nums": 8}, None, Status.FAIL, "topic orders: b stores in 8 queues, consumers read 4"),
        (
            {"read_queue_nums": 12, "write_queue_nums": 12},
            None,
            Status.WARN,
            "topic orders has 4 queues to send to on a, 12 on b: b gets 75% of the messages",
        ),
        ({}, "a:4;b:5", Status.FAIL, "the order of topic orders names b:5, which has 4 queues"),
        ({}, "a:4;c:1", Status.FAIL, "the order of topic orders names c:1, which has 0 queues"),
        ({}, "a:4;b:4", None, ""),
    ],
)
def test_routes_that_are_whole_only_on_one_broker(
    of_b: Mapping[str, int], order: str | None, status: Status | None, text: str
) -> None:
    good: dict[str, Any] = {"read_queue_nums": 4, "write_queue_nums": 4, "perm": READ_WRITE}
    found = TopicRouteData(
        order_topic_conf=order,
        queue_datas=[QueueData("a", **good), QueueData("b", **good | dict(of_b))],
        broker_datas=[BrokerData(broker_name=name, broker_addrs={0: A}) for name in ("a", "b")],
    )
    wrong = [
        one
        for one in servers.route(survey(topic="orders", routes={"1": found}))
        if one.status is not Status.OK
    ]
    assert [(one.status, one.text[: len(text)]) for one in wrong[:1]] == (
        [] if status is None else [(status, text)]
    )
    assert all(one.fix for one in wrong)


@pytest.mark.parametrize(
    ("figures", "status", "text"),
    [
        ({"sendThreadPoolQueueHeadWaitTimeMills": "201"}, "fail", "sends wait for 0.2 s"),
        ({"sendThreadPoolQueueHeadWaitTimeMills": "200"}, "", ""),
        ({"pullThreadPoolQueueHeadWaitTimeMills": "6000"}, "warn", "pulls wait for 6 s"),
        ({"pageCacheLockTimeMills": "1500"}, "fail", "a write takes 1.5 s"),
        ({"dispatchBehindBytes": str(32 << 20)}, "warn", "32.0 MiB of stored messages are in no queue yet"),
        ({"timerReadBehind": "90"}, "warn", "messages of timers are 1 min 30 s late"),
        ({"EndTransactionQueueSize": "9", "EndTransactionThreadPoolQueueCapacity": "9"}, "fail", "the queue of end"),
        ({"sendThreadPoolQueueSize": "10000", "sendThreadPoolQueueCapacity": "10000"}, "fail", "the queue of send"),
        ({"remainTransientStoreBufferNumbs": "0"}, "fail", "no buffer of the transient store pool is free"),
        ({"startAcceptSendRequestTimeStamp": str(NOW + 60_002)}, "fail", "refuses sends for another 1 min 0 s"),
        ({"earliestMessageTimeStamp": str(NOW + 3_600_002)}, "warn", "its first message is from 1 h 0 min in the"),
        ({"brokerActive": "false"}, "warn", "is a master that is not active"),
        ({"earliestMessageTimeStamp": "-1", "timerReadBehind": "much"}, "", ""),
    ],
)  # fmt: skip
def test_what_a_broker_says_of_itself(figures: Mapping[str, str], status: str, text: str) -> None:
    found = list(brokers.keeps_up(survey(readings={A: reading(NOW, **figures)})))
    assert [(one.status, one.text[: len(text)]) for one in found] == ([(status, text)] if status else [])
    assert all(one.fix for one in found)


@pytest.mark.parametrize(
    ("master", "slave", "status"),
    [(1 << 30, 1 << 30, "ok"), (1 << 30, 1000 << 20, "warn"), (1 << 30, 0, "fail"), (0, 1 << 30, "fail")],
)
def test_slaves_have_what_their_master_has(master: int, slave: int, status: str) -> None:
    ends = {A: reading(commitLogMaxOffset=str(master)), B: reading(commitLogMaxOffset=str(slave))}
    (found,) = brokers.slaves(survey(view({"a": {0: A, 1: B}}), readings=ends))
    assert (found.status, found.target) == (status, f"a {B}")


@pytest.mark.parametrize(
    ("rates", "slave", "status"),
    [
        ("0.0 0.0 3.5", 1000, "warn"),
        ("0.0 0.0 0.0 ", 1001, "ok"),
        ("0.0 0.2 3.5", 1000, "ok"),
        ("0.0", 1000, "ok"),
        ("", 1000, "ok"),
    ],
)
def test_a_slave_that_stands_still_while_nothing_is_stored(rates: str, slave: int, status: str) -> None:
    ends = {A: reading(commitLogMaxOffset="1001", putTps=rates), B: reading(commitLogMaxOffset=str(slave))}
    (found,) = brokers.slaves(survey(view({"a": {0: A, 1: B}}), readings=ends))
    assert found.status == status
    assert status == "ok" or found.text == "is 1 B behind its master, which has stored nothing for a minute"


def test_addresses_and_names_that_are_taken_twice() -> None:
    shared = view({"a": {0: A}, "b": {0: A}})
    (found,) = brokers.addresses(survey(shared))
    assert (found.status, found.target, found.text[:25]) == (Status.FAIL, A, "is announced by a and b: ")
    info = ClusterInfo(ONE.broker_addr_table, {"c": ["a"], "d": ["a"]})
    (found,) = brokers.addresses(survey(info))
    assert (found.status, found.text) == (Status.WARN, "is in the clusters c and d")


def test_name_servers_that_differ_in_the_id_of_a_broker() -> None:
    (found, other) = servers.same_view(Survey({NS: ONE, OTHER: view({"a": {1: A}})}))
    assert {found.text, other.text} == {f"does not know a {A}", f"does not know a:1 {A}"}


def test_a_lost_broker_may_have_had_the_topic() -> None:
    gone = [LostBroker("b", "c", B, NOW - 1000)]
    info = survey(topic="orders", routes={NS: NoRoute("orders", NS)}, gone=gone, now_ms=NOW)
    (found,) = servers.route(info)
    assert found.fix is not None and found.fix.startswith("if a broker that is no longer registered had it")
    assert [one.target for one in brokers.brokers(info) if one.status is Status.FAIL] == ["b"]


def test_a_topic_on_one_broker_of_several() -> None:
    """As its first message leaves it that creates it."""
    queues = [
        QueueData(broker_name=name, read_queue_nums=4, write_queue_nums=4, perm=Perm.READ | Perm.WRITE)
        for name in ("a", "b")
    ]
    both = view({"a": {0: A}, "b": {0: B}})
    data = both.broker_addr_table
    one = TopicRouteData(queue_datas=queues[:1], broker_datas=[data["a"]])
    two = TopicRouteData(queue_datas=queues, broker_datas=[data["a"], data["b"]])
    fine = (Status.OK, "topic orders: 4 queues to send to, 4 to read from")
    alone = (Status.WARN, "topic orders is on a only: nothing is sent to b")
    for info, found, expected in (
        (both, one, [fine, alone]),
        (both, two, [(Status.OK, "topic orders: 8 queues to send to, 8 to read from")]),
        (ONE, one, [fine]),
        (view({"a": {0: A}, "b": {1: B}}), one, [fine]),
    ):
        assert lines(servers.route(survey(info, topic="orders", routes={"1": found}))) == expected


def test_brokers_that_do_not_answer() -> None:
    refused = NotPermitted(16, "no", A, "GET_BROKER_RUNTIME_INFO")
    found = list(brokers.brokers(survey(readings={A: DOWN})))
    assert (found[0].status, found[0].target) == (Status.FAIL, f"a {A}")
    assert found[0].fix is not None and f"--map {A}=HOST:PORT" in found[0].fix
    denied = survey(readings={A: refused})
    assert next(iter(brokers.brokers(denied))).status is Status.OK
    assert next(iter(brokers.permission(denied))).status is Status.FAIL
    assert lines(brokers.brokers(survey(ClusterInfo()))) == [(Status.FAIL, "no broker is registered")]


@pytest.mark.parametrize(
    ("address", "kind", "hint"),
    [
        ("0.0.0.0:10911", "unspecified", "brokerIP1"),
        ("127.0.0.1:10911", "loopback", "brokerIP1"),
        ("localhost:10911", "loopback", "brokerIP1"),
        ("172.17.0.2:10911", "private", "--map 172.17.0.2:10911=HOST:PORT"),
        ("[::1]:10911", "loopback", "--map"),
        ("8.8.8.8:10911", "public", "firewall"),
        ("broker.example:10911", "public", "firewall"),
    ],
)
def test_kinds_of_addresses(address: str, kind: str, hint: str) -> None:
    assert kind_of(address) == kind
    assert hint in advice(address)


def test_addresses_that_others_cannot_reach() -> None:
    local, nowhere = view({"a": {0: "127.0.0.1:10911"}}), view({"a": {0: "0.0.0.0:10911"}})
    assert [one.status for one in brokers.addresses(survey(local))] == [Status.WARN]
    assert [one.status for one in brokers.addresses(survey(nowhere))] == [Status.FAIL]
    assert list(brokers.addresses(survey(views={"127.0.0.1:9876": local}))) == []


def test_only_slaves_left() -> None:
    info = view({"a": {1: A}, "b": {0: B, 1: A}})
    (found,) = brokers.masters(survey(info))
    assert (found.status, found.target) == (Status.FAIL, "a")


def test_versions() -> None:
    info = view({"a": {0: A}, "b": {0: B}})
    readings = {A: reading(), B: reading(brokerVersionDesc="V5_3_3")}
    assert lines(brokers.versions(survey(info, readings=readings))) == [
        (Status.WARN, "V4_9_8 on a; V5_3_3 on b")
    ]
    assert list(brokers.versions(survey(readings={A: DOWN}))) == []


@pytest.mark.parametrize(
    ("ratio", "status"),
    [("0.74", "ok"), ("0.75", "warn"), ("0.9", "fail"), ("-1", "skip"), ("much", "skip")],
)
def test_disks(ratio: str, status: str) -> None:
    (found,) = brokers.disks(survey(readings={A: reading(commitLogDiskRatio=ratio)}))
    assert found.status == status


@pytest.mark.parametrize(
    ("now", "skew"),
    [
        (NOW, 0),
        (NOW + 1000, 0),
        (NOW - 2, 0),
        (NOW + 4000, -3000),
        (NOW - 4002, 4000),
    ],
)
def test_the_skew_is_known_to_a_second(now: int, skew: int) -> None:
    assert brokers.skew_ms(reading(now)) == skew
    (found,) = brokers.clocks(survey(readings={A: reading(now)}))
    assert found.status is (Status.WARN if abs(skew) > brokers.SKEW_MS else Status.OK)


def test_a_broker_that_does_not_say_its_time() -> None:
    assert brokers.skew_ms(reading(runtime="soon")) is None
    assert brokers.skew_ms(reading(bootTimestamp="")) is None


def test_a_closed_vip_port_counts_only_where_the_broker_answers() -> None:
    assert [one.target for one in brokers.vip_ports(survey(vip={A: DOWN}))] == ["10.0.0.1:10909"]
    assert list(brokers.vip_ports(survey(vip={A: DOWN}, readings={A: DOWN}))) == []


def about(group: GroupSurvey, topic: str | None = None) -> list[Finding]:
    return [*groups.group(survey(topic=topic, group=group)), *groups.subscriptions(survey(group=group))]


def state(**topics: str) -> ConsumerRunningInfo:
    return ConsumerRunningInfo(
        subscription_set=[SubscriptionData(topic=name, sub_string=text) for name, text in topics.items()]
    )


def test_groups() -> None:
    allowed = SubscriptionGroupConfig(group_name="g")
    running = ConsumerConnection(
        connection_set=[ClientConnection(client_id="1"), ClientConnection(client_id="2")],
        subscription_table={"orders": SubscriptionData(topic="orders")},
    )
    same = {"1": state(orders="*"), "2": state(orders="*")}
    unlike = {"1": state(orders="*"), "2": state(orders="paid")}
    assert lines(about(GroupSurvey("g", {}, None, {}))) == [(Status.FAIL, "no broker knows the group")]
    assert lines(about(GroupSurvey("g", {"a": allowed}, None, {}))) == [(Status.WARN, "no client is running")]
    assert lines(about(GroupSurvey("g", {}, DOWN, {})))[0][0] is Status.SKIP
    assert [one.status for one in about(GroupSurvey("g", {}, running, same), "orders")] == [Status.OK] * 2
    assert lines(about(GroupSurvey("g", {}, running, same), "bills"))[0] == (
        Status.FAIL,
        "subscribes to orders, not to bills",
    )
    assert lines(about(GroupSurvey("g", {}, running, unlike)))[1:] == [
        (Status.FAIL, "orders '*' is subscribed to by 1 only"),
        (Status.FAIL, "orders 'paid' is subscribed to by 2 only"),
    ]


def test_a_broker_that_hangs_has_another_remedy_than_one_that_is_not_reached() -> None:
    hangs = RequestTimeout(A, "GET_BROKER_RUNTIME_INFO", 5)
    (found,) = brokers.brokers(survey(readings={A: hangs}))
    assert (found.status, found.fix) == (Status.FAIL, HANGS)
