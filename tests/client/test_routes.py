"""Routes: their queues, when they are read again, and invalid ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rmqcli.broker.testing.in_memory import embedded_in_memory
from rmqcli.client import (
    Admin,
    ConnectionFailed,
    NoNameServer,
    NoRoute,
    Producer,
    PullConsumer,
    RequestTimeout,
    UnexpectedReply,
)
from rmqcli.client.errors import InvalidRequest
from rmqcli.client.instance import ClientInstance
from rmqcli.client.routing.routes import publish_queues
from rmqcli.client.wire.addresses import name_servers, split_address
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.route import BrokerData, QueueData, TopicRouteData, subscribe_queues
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue
from tests.client.scripted import HEARTBEATS, Network, ok, route, sent, silent

NAMESRV = "ns:9876"
ROUTE, SEND = RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.SEND_MESSAGE_V2
MAX = RequestCode.GET_MAX_OFFSET


def data(*queues: QueueData, order: str | None = None, **brokers: dict[int, str]) -> TopicRouteData:
    found = [
        BrokerData(cluster="C", broker_name=name, broker_addrs=addresses)
        for name, addresses in brokers.items()
    ]
    return TopicRouteData(order_topic_conf=order, queue_datas=list(queues), broker_datas=found)


def spread(name: str, read: int, write: int, perm: int = 6) -> QueueData:
    return QueueData(broker_name=name, read_queue_nums=read, write_queue_nums=write, perm=perm)


def places(queues: tuple[MessageQueue, ...]) -> list[str]:
    return [f"{queue.broker_name}{queue.queue_id}" for queue in queues]


def test_queues_of_a_route() -> None:
    masters: Any = {"b": {0: "b:1"}, "a": {0: "a:1"}, "slave_only": {1: "s:1"}}
    found = data(spread("b", 1, 2), spread("a", 3, 1), spread("slave_only", 1, 1), **masters)
    assert places(publish_queues("T", found)) == ["a0", "b0", "b1"]
    assert places(subscribe_queues("T", found)) == ["a0", "a1", "a2", "b0", "slave_only0"]


@pytest.mark.parametrize(
    ("perm", "publish", "subscribe"), [(6, 1, 1), (4, 0, 1), (2, 1, 0), (0, 0, 0), (7, 1, 1)]
)
def test_permissions(perm: int, publish: int, subscribe: int) -> None:
    found = data(spread("a", 1, 1, perm), a={0: "a:1"})
    assert (len(publish_queues("T", found)), len(subscribe_queues("T", found))) == (publish, subscribe)


@pytest.mark.parametrize(
    ("order", "expected"),
    [("b:2;a:1", ["b0", "b1", "a0"]), ("a:x;b;:3;;a:1", ["a0"]), ("a:999999999999", []), ("a:-1", [])],
)
def test_order_of_an_ordered_topic(order: str, expected: list[str]) -> None:
    assert places(publish_queues("T", data(spread("a", 4, 4), order=order, a={0: "a:1"}))) == expected


@pytest.mark.parametrize(
    "queues",
    [
        [spread("a", 2**31 - 1, 2**31 - 1)],
        [spread("a", 65_536, 0), spread("b", 1, 1)],
        [spread("a", 40_000, 40_000)] * 2,
        [spread("a", -(2**31), -(2**31)), spread("b", 65_537, 65_537)],
    ],
)
async def test_impossible_queue_counts_are_not_believed(
    network: Network, queues: list[QueueData], autojump_clock: Any
) -> None:
    network.server(NAMESRV, {ROUTE: ok(None, encode_body(data(*queues, a={0: "a:1"}, b={0: "b:1"})))})
    async with PullConsumer(namesrv=NAMESRV, open_stream=network.open_stream) as consumer:
        with pytest.raises(UnexpectedReply, match="more than 65536 queues"):
            await consumer.message_queues("T")


def test_an_ordered_topic_has_no_more_queues_either() -> None:
    order = ";".join(f"b{number}:99999" for number in range(1000))
    assert len(publish_queues("T", data(order=order))) == 65_536


@pytest.mark.parametrize("address", ["nonsense", "a:0", "a:99999", ":10911", "a:1x"])
async def test_broker_address_that_is_none(network: Network, address: str, autojump_clock: Any) -> None:
    network.server(NAMESRV, {ROUTE: route({"T": {"broker-a": 1}}, {"broker-a": {0: address}})})
    async with PullConsumer(namesrv=NAMESRV, open_stream=network.open_stream) as consumer:
        with pytest.raises(ConnectionFailed, match="not an address"):
            await consumer.max_offset(MessageQueue("T", "broker-a", 0))


async def test_many_that_wait_for_one_route_time_out_together(network: Network, autojump_clock: Any) -> None:
    network.server(NAMESRV, {ROUTE: silent})
    async with Producer(namesrv=NAMESRV, open_stream=network.open_stream, send_timeout=3.0) as producer:
        ended: list[float] = []

        async def send() -> None:
            with pytest.raises((RequestTimeout, NoNameServer)):
                await producer.send(Message.of("T", b"x"))
            ended.append(trio.current_time())

        async with trio.open_nursery() as senders:
            for _ in range(20):
                senders.start_soon(send)
    assert len(ended) == 20
    assert max(ended) < 3.5


async def test_route_is_asked_again_after_a_failure_but_not_at_every_one(
    network: Network, autojump_clock: Any
) -> None:
    namesrv = network.server(NAMESRV, {ROUTE: route({"T": {"broker-a": 1}}, {"broker-a": {0: "a:1"}})})
    async with Producer(namesrv=NAMESRV, open_stream=network.open_stream) as producer:
        for _ in range(5):
            with pytest.raises(ConnectionFailed):
                await producer.send(Message.of("T", b"x"))
        assert namesrv.count(ROUTE) == 1
        await trio.sleep(2)
        namesrv.replies[ROUTE] = route({"T": {"broker-b": 1}}, {"broker-b": {0: "b:1"}})
        network.server("b:1", {RequestCode.SEND_MESSAGE_V2: sent, **HEARTBEATS})
        assert (await producer.send(Message.of("T", b"x"))).message_queue.broker_name == "broker-b"


@pytest.mark.parametrize("asked", ["refused", "silent"])
async def test_a_broker_and_the_name_server_lost_leave_the_other_broker(
    network: Network, asked: str, autojump_clock: Any
) -> None:
    brokers = {"broker-a": {0: "a:1"}, "broker-b": {0: "b:1"}}
    namesrv = network.server(NAMESRV, {ROUTE: route({"T": {"broker-a": 1, "broker-b": 1}}, brokers)})
    a, _ = (network.server(address, {SEND: sent, **HEARTBEATS}) for address in ("a:1", "b:1"))
    async with Producer(namesrv=NAMESRV, open_stream=network.open_stream) as producer:
        await producer.send(Message.of("T", b"x"))
        await trio.sleep(5)
        a.refuses = True
        await a.drop()
        namesrv.refuses = asked == "refused"
        namesrv.replies[ROUTE] = silent
        if namesrv.refuses:
            await namesrv.drop()
        for _ in range(4):
            assert (await producer.send(Message.of("T", b"x"))).message_queue.broker_name == "broker-b"
        asked_before = namesrv.count(ROUTE)
        for _ in range(20):
            await producer.send(Message.of("T", b"x"))
        assert namesrv.count(ROUTE) - asked_before <= 1


WAYS: dict[str, Callable[[Producer], Awaitable[object]]] = {
    "one try": lambda producer: producer.send(Message.of("T", b"x"), queue=MessageQueue("T", "broker-a", 0)),
    "no time for another": lambda producer: producer.send(Message.of("T", b"x")),
    "one-way": lambda producer: producer.send_oneway(Message.of("T", b"x")),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_any_failed_send_makes_the_route_doubtful(
    network: Network, way: Callable[[Producer], Awaitable[object]], autojump_clock: Any
) -> None:
    namesrv = network.server(NAMESRV, {ROUTE: route({"T": {"broker-a": 1}}, {"broker-a": {0: "a:1"}})})
    old = network.server("a:1", {SEND: sent, **HEARTBEATS})
    network.server("a:2", {SEND: sent, **HEARTBEATS})
    async with Producer(namesrv=NAMESRV, open_stream=network.open_stream) as producer:
        await producer.send(Message.of("T", b"x"))
        old.replies[SEND] = silent
        namesrv.replies[ROUTE] = route({"T": {"broker-a": 1}}, {"broker-a": {0: "a:2"}})
        await trio.sleep(5)
        if way is not WAYS["no time for another"]:
            old.refuses = True
            await old.drop()
        with pytest.raises((ConnectionFailed, RequestTimeout)):
            await way(producer)
        await trio.sleep(2)
        await way(producer)


async def test_who_reads_a_broker_that_moved_finds_it(network: Network, autojump_clock: Any) -> None:
    namesrv = network.server(NAMESRV, {ROUTE: route({"T": {"broker-a": 1}}, {"broker-a": {0: "a:1"}})})
    old, new = (network.server(address, {MAX: ok({"offset": "5"})}) for address in ("a:1", "a:2"))
    queue = MessageQueue("T", "broker-a", 0)
    async with PullConsumer(namesrv=NAMESRV, open_stream=network.open_stream) as consumer:
        assert await consumer.max_offset(queue) == 5
        await trio.sleep(5)
        old.refuses = True
        await old.drop()
        namesrv.replies[ROUTE] = route({}, {})  # for a while the name server knows neither
        for _ in range(2):
            with pytest.raises(ConnectionFailed):
                await consumer.max_offset(queue)
        namesrv.replies[ROUTE] = route({"T": {"broker-a": 1}}, {"broker-a": {0: "a:2"}})
        assert await consumer.max_offset(queue) == 5
    assert new.count(MAX) == 1


async def test_route_that_cannot_be_read_is_kept(network: Network, autojump_clock: Any) -> None:
    namesrv = network.server(NAMESRV, {ROUTE: route({"T": {"broker-a": 1}}, {"broker-a": {0: "a:1"}})})
    network.server("a:1", {RequestCode.SEND_MESSAGE_V2: sent, **HEARTBEATS})
    async with Producer(namesrv=NAMESRV, open_stream=network.open_stream) as producer:
        await producer.send(Message.of("T", b"x"))
        namesrv.refuses = True
        await namesrv.drop()
        await trio.sleep(100)
        await producer.send(Message.of("T", b"x"))


async def test_lost_name_server_is_connected_again(network: Network, autojump_clock: Any) -> None:
    namesrv = network.server(NAMESRV, {ROUTE: route({"T": {"a": 1}, "U": {"a": 1}}, {"a": {0: "a:1"}})})
    async with Admin(namesrv=NAMESRV, open_stream=network.open_stream) as admin:
        await admin.topics.route("T")
        await namesrv.drop()
        await trio.testing.wait_all_tasks_blocked()
        await admin.topics.route("U")
    assert namesrv.opened == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1;b:2", ("a:1", "b:2")),
        ("a:1, b", ("a:1", "b:9876")),
        (["a:1", "a:1", "[::1]:5"], ("a:1", "[::1]:5")),
        ("http://a:80", ("a:80",)),
        ("[::1]", ("[::1]:9876",)),
    ],
)
def test_lists_of_name_servers(text: str | list[str], expected: tuple[str, ...]) -> None:
    assert name_servers(text) == expected


@pytest.mark.parametrize("text", ["", ";", "a:b", "a:70000", ":1"])
def test_lists_that_are_none(text: str) -> None:
    with pytest.raises(InvalidRequest):
        name_servers(text)


def test_an_address_is_split() -> None:
    assert split_address("[fe80::1]:10911") == ("fe80::1", 10911)


async def test_a_broker_that_no_route_names_gets_no_heartbeats(network: Network, autojump_clock: Any) -> None:
    """Java `cleanOfflineBroker`; brokers that an administrator learned of stay."""
    replies = {SEND: sent, **HEARTBEATS}
    servers = {name: network.server(f"{name}:1", replies) for name in "ab"}
    masters = {name: {0: f"{name}:1"} for name in "ab"}
    namesrv = network.server(NAMESRV, {ROUTE: route({"T": {"a": 1, "b": 1}}, masters)})

    def beats(name: str) -> int:
        return servers[name].count(RequestCode.HEART_BEAT)

    async with Producer("PG", namesrv=NAMESRV, open_stream=network.open_stream) as producer:
        await producer.send(Message.of("T", b"x"))
        producer.instance.routes.learn({"c": {0: "c:1"}})
        await trio.sleep(45)
        assert beats("a") == beats("b") >= 2
        namesrv.replies[ROUTE] = route({"T": {"a": 1}}, masters)
        await trio.sleep(20)
        before = beats("b")
        await trio.sleep(120)
        assert (beats("b"), sorted(producer.instance.routes.brokers)) == (before, ["a", "c"])
        namesrv.replies[ROUTE] = route({"T": {"a": 1, "b": 1}}, masters)
        await trio.sleep(31)
        assert beats("b") > before


async def test_topics_that_do_not_exist_leave_nothing_behind(autojump_clock: MockClock) -> None:
    async with (
        embedded_in_memory(auto_create_topic_enable=False) as cluster,
        ClientInstance(**cluster.client()) as instance,
    ):
        async with trio.open_nursery() as nursery:

            async def ask(name: str) -> None:
                with pytest.raises(NoRoute):
                    await instance.route(name, create=True)

            for name in ("a", "a", "a", "b"):
                nursery.start_soon(ask, name)
        assert not instance.routes._locks and not len(instance.routes)
