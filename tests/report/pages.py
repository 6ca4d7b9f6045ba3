"""Pages to look at: of folders that a Java broker left, and of clusters that are written down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rmqcli.client import RequestTimeout
from rmqcli.client.admin.values import BrokerLag
from rmqcli.codec.bodies.heartbeat import ConsumeType, MessageModel, SubscriptionData
from rmqcli.codec.bodies.route import BrokerData, ClusterInfo
from rmqcli.codec.bodies.running import ClientConnection, ConsumerConnection, ConsumerRunningInfo
from rmqcli.codec.bodies.stats import OffsetWrapper, TopicOffset
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.doctor.group_facts import Members
from rmqcli.doctor.survey import Reading, Survey
from rmqcli.report.cluster.reading import ClusterReading
from rmqcli.report.cluster.sections import cluster_page
from rmqcli.report.cluster.topics import HOUR_MS, HOURS, DeadLetters, Hours, TopicReading
from rmqcli.report.html import html_of
from rmqcli.report.store.sections import store_page
from rmqcli.report.store.topics import read_store

NOW = 1_763_888_400_000  # 2025-11-23 09:00:00 UTC
NS = "10.1.1.1:9876"
HOSTILE = "<script>alert(1)</script>&\"'\x1b[2J\x07\u202etopic\udc80\n]]>--><!--"
LONG = "shipping-labels-" * 7
RUNTIME = {
    "brokerVersionDesc": "V4_9_8",
    "putTps": "1234.5 1100.0 900.25",
    "getTransferedTps": "2345.6 2200.0 1900.0",
    "msgPutTotalTodayNow": "98765432",
    "msgPutTotalTodayMorning": "12345678",
    "commitLogMaxOffset": "987654321098",
    "commitLogMinOffset": "123456789012",
    "commitLogDiskRatio": "0.93",
    "bootTimestamp": str(NOW - 40 * 24 * HOUR_MS),
}


@contextmanager
def silent(part: str, size: int) -> Iterator[object]:
    yield lambda count: None


def of_store(root: Path, count: int = 100, *, verify: bool = True) -> str:
    found = read_store(root, silent, verify=verify, jobs=1)  # type: ignore[arg-type]
    return html_of(store_page(found, NOW, count))


def address(number: int) -> str:
    return f"10.0.0.{number}:10911"


def survey(brokers: int, lost: Sequence[int]) -> Survey:
    info = ClusterInfo(
        broker_addr_table={
            f"broker-{number}": BrokerData(
                cluster="production", broker_name=f"broker-{number}", broker_addrs={0: address(number)}
            )
            for number in range(brokers)
        },
        cluster_addr_table={"production": [f"broker-{number}" for number in range(brokers)]},
    )
    error = RequestTimeout(address(0), "GET_BROKER_RUNTIME_INFO", 3.0)
    readings = {
        address(number): error if number in lost else Reading(RUNTIME, NOW, NOW + 2)
        for number in range(brokers)
    }
    return Survey({NS: info}, readings=readings)


def topic(name: str, messages: int) -> TopicReading:
    ends = TopicOffset(min_offset=100, max_offset=100 + messages, last_update_timestamp=NOW - 5000)
    queues = {MessageQueue(name, "broker-1", 0): ends}
    return TopicReading(name, queues, messages / 86400, messages)


def lag(group: str, topic: str, behind: int) -> BrokerLag:
    offsets = OffsetWrapper(broker_offset=10**9, consumer_offset=10**9 - behind, last_timestamp=NOW - 60_000)
    return BrokerLag("broker-1", group, MessageQueue(topic, "broker-1", 0), offsets)


def member(group: str, expressions: dict[str, str]) -> Members:
    """A group with one client for each expression."""
    clients = {name: SubscriptionData(topic="orders", sub_string=text) for name, text in expressions.items()}
    connection = ConsumerConnection(
        connection_set=[ClientConnection(client_id=name, language="JAVA", version=433) for name in clients],
        subscription_table={"orders": SubscriptionData(topic="orders", sub_string="*")},
        consume_type=ConsumeType.CONSUME_PASSIVELY,
        message_model=MessageModel.CLUSTERING,
    )
    states = {name: ConsumerRunningInfo(subscription_set=[data]) for name, data in clients.items()}
    return Members(group, connection, states)


def cluster_reading(topics: int = 12, brokers: int = 4, lost: Sequence[int] = (0,)) -> ClusterReading:
    """A cluster in which all goes wrong that can, with names that were chosen to hurt."""
    names = ["orders", "payments", HOSTILE, LONG, *(f"topic-{number}" for number in range(topics - 4))]
    found = ClusterReading(survey(brokers, lost))
    found.failures = {
        f"broker-{number}": answer
        for number in lost
        if isinstance(answer := found.survey.readings[address(number)], RequestTimeout)
    }
    found.topics = [topic(name, 86_400 * 10_000 // (place + 1)) for place, name in enumerate(names)]
    begin = (NOW // HOUR_MS - HOURS + 1) * HOUR_MS
    waves = [60 + 40 * (hour % 12) for hour in range(HOURS)]
    found.hours = Hours(
        begin,
        {name: [wave * 1000 // (place + 1) for wave in waves] for place, name in enumerate(names[:20])},
    )
    found.configs = {
        f"broker-{number}": {
            "flushDiskType": "SYNC_FLUSH" if number == 2 else "ASYNC_FLUSH",
            "x": HOSTILE * (number == 3),
        }
        for number in range(1, brokers)
    }
    found.dead = [DeadLetters("billing", 42, NOW - 7_200_000), DeadLetters("quiet", 0, 0)]
    found.lags = [
        lag("billing", "orders", 1_234_567),
        lag(HOSTILE, LONG, 12),
        lag("recreated", "orders", -5),
        lag("mixed", "orders", 0),
        *(lag(f"group-{number}", "payments", number) for number in range(6)),
    ]
    found.groups = sorted({one.group for one in found.lags})
    found.members = {name: Members(name, None) for name in found.groups}
    found.members = {**found.members, "mixed": member("mixed", {"10.0.0.7@1": "*", "10.0.0.8@2": HOSTILE})}
    return found


def of_cluster(found: ClusterReading, count: int = 100) -> str:
    return html_of(cluster_page(found, NS, NOW, count))
