"""Topics, groups, brokers and queries, against scripted brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from rmqcli.client import (
    Admin,
    BrokerRefused,
    ClientError,
    ConnectionFailed,
    ConsumerOffline,
    GroupNotFound,
    InvalidRequest,
    NoRoute,
    NotFound,
    NotPermitted,
    RequestTimeout,
    TopicNotFound,
    UnexpectedReply,
)
from rmqcli.client.admin.admin import ADMIN_TIMEOUT
from rmqcli.client.admin.values import BEYOND_END, BROADCASTING, stored
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.config import (
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from rmqcli.codec.bodies.heartbeat import ConsumeType, MessageModel, SubscriptionData
from rmqcli.codec.bodies.offsets import ConsumerOffsetSerializeWrapper
from rmqcli.codec.bodies.route import BrokerData, KVTable, QueueData, TopicList, TopicRouteData
from rmqcli.codec.bodies.running import (
    ClientConnection,
    ConsumerConnection,
    ConsumerRunningInfo,
    ProcessQueueInfo,
    ProducerTableInfo,
)
from rmqcli.codec.bodies.stats import (
    BrokerStatsData,
    BrokerStatsItem,
    ConsumeStats,
    GroupList,
    OffsetWrapper,
    TopicOffset,
    TopicStatsTable,
)
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.headers.base import from_ext
from rmqcli.codec.headers.pull import QueryMessageRequestHeader
from rmqcli.codec.headers.topics import CreateTopicRequestHeader
from rmqcli.codec.ids import UniqIdFactory
from rmqcli.codec.inner_batch import INNER_BATCH
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.records.reading import decode_record
from rmqcli.codec.remoting.command import RemotingCommand
from tests.client.masters import NAMESRV, NOW, SLAVE, TOPIC, A, B, Cluster, admin_of, body
from tests.client.scripted import Network, Reply, ok, refuse, silent
from tests.codec.samples import make_record
from tests.support import JavaStore

INDEX_SEEN = {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}


@pytest.fixture
def cluster(network: Network) -> Cluster:
    return Cluster(network)


def queue(name: str, number: int = 0, topic: str = TOPIC) -> MessageQueue:
    return MessageQueue(topic, name, number)


# --- topics


async def test_topics_are_sorted(cluster: Cluster, autojump_clock: Any) -> None:
    async with admin_of(cluster) as admin:
        assert await admin.topics.names() == ["%RETRY%G2", "A", "T"]
        assert [data.broker_name for data in (await admin.topics.route(TOPIC)).queue_datas] == [
            "broker-a",
            "broker-b",
        ]
        with pytest.raises(NoRoute):
            await admin.topics.route("Unknown")


async def test_settings_and_statistics(cluster: Cluster, autojump_clock: Any) -> None:
    config = TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1, perm=6)
    cluster.both(
        RequestCode.GET_ALL_TOPIC_CONFIG,
        body(TopicConfigSerializeWrapper(topic_config_table={TOPIC: config})),
    )
    for name, server in (("broker-b", cluster.b), ("broker-a", cluster.a)):
        table = TopicStatsTable(offset_table={queue(name): TopicOffset(min_offset=1, max_offset=5)})
        server.replies[RequestCode.GET_TOPIC_STATS_INFO] = body(table)
    cluster.a.replies[RequestCode.QUERY_TOPIC_CONSUME_BY_WHO] = body(GroupList(group_list=["G2", "G1"]))
    cluster.b.replies[RequestCode.QUERY_TOPIC_CONSUME_BY_WHO] = body(GroupList(group_list=["G1"]))
    async with admin_of(cluster) as admin:
        assert set(await admin.topics.settings(TOPIC)) == {"broker-a", "broker-b"}
        stats = await admin.topics.stats(TOPIC)
        assert list(stats) == [queue("broker-a"), queue("broker-b")]
        assert stats[queue("broker-a")].max_offset == 5
        assert await admin.topics.groups(TOPIC) == ["G1", "G2"]


def _has(cluster: Cluster, *, read: int) -> None:
    """Topic T is on broker-a alone, with one write queue."""
    data = TopicRouteData(
        queue_datas=[QueueData(broker_name="broker-a", read_queue_nums=read, write_queue_nums=1, perm=6)],
        broker_datas=[BrokerData(cluster="C1", broker_name="broker-a", broker_addrs={0: A})],
    )
    cluster.namesrv.replies[RequestCode.GET_ROUTEINFO_BY_TOPIC] = body(data)


def _halved(cluster: Cluster, *, readable: bool = True) -> None:
    """Topic T has 3 read queues, of which a broker of 4.9 lists the one that is a write queue, too."""
    _has(cluster, read=3)
    listed = TopicStatsTable(offset_table={queue("broker-a"): TopicOffset(max_offset=5)})
    ends = {0: (0, 5), 1: (2, 9), 2: (4, 4)}
    record = make_record(queue_id=1, queue_offset=8, store_timestamp=NOW)
    head = {"nextBeginOffset": "9", "minOffset": "2", "maxOffset": "9", "suggestWhichBrokerId": "0"}
    cluster.a.replies |= {
        RequestCode.GET_TOPIC_STATS_INFO: body(listed),
        RequestCode.GET_MIN_OFFSET: lambda one: ok({"offset": str(ends[_number(one)][0])})(one),
        RequestCode.GET_MAX_OFFSET: lambda one: ok({"offset": str(ends[_number(one)][1])})(one),
        RequestCode.PULL_MESSAGE: ok(head, record) if readable else refuse(16),
    }


def _number(command: RemotingCommand) -> int:
    return int((command.ext_fields or {})["queueId"])


@pytest.mark.parametrize("readable", [True, False])
async def test_statistics_have_the_queues_that_a_broker_leaves_out(
    cluster: Cluster, readable: bool, autojump_clock: Any
) -> None:
    """Those that are read and not written: what is in them waits for consumers."""
    _halved(cluster, readable=readable)
    async with admin_of(cluster) as admin:
        stats = await admin.topics.stats(TOPIC)
        hidden = await admin.topics.hidden(TOPIC, 1)
    last = NOW if readable else 0
    assert stats == {
        queue("broker-a", 0): TopicOffset(min_offset=0, max_offset=5),
        queue("broker-a", 1): TopicOffset(min_offset=2, max_offset=9, last_update_timestamp=last),
        queue("broker-a", 2): TopicOffset(min_offset=4, max_offset=4),
    }
    assert (stored(stats), hidden) == (12, {queue("broker-a", 1): 7})


async def test_a_queue_that_cannot_be_asked_for_is_a_failure(cluster: Cluster, autojump_clock: Any) -> None:
    _halved(cluster)
    cluster.a.replies[RequestCode.GET_MAX_OFFSET] = refuse(1)
    failures: dict[str, ClientError] = {}
    async with admin_of(cluster) as admin:
        assert list(await admin.topics.stats(TOPIC, failures=failures)) == [queue("broker-a")]
        assert list(failures) == ["broker-a"]
        for call in (admin.topics.stats(TOPIC), admin.topics.hidden(TOPIC, 1)):
            with pytest.raises(BrokerRefused):
                await call


async def test_what_this_client_changed_is_not_read_from_an_old_route(
    cluster: Cluster, autojump_clock: Any
) -> None:
    _halved(cluster)
    cluster.a.replies[RequestCode.UPDATE_AND_CREATE_TOPIC] = ok()
    async with admin_of(cluster) as admin:
        assert len(await admin.topics.stats(TOPIC)) == 3
        _has(cluster, read=2)
        await admin.topics.put(TopicConfig(TOPIC, 2, 1), "broker-a")
        assert len(await admin.topics.stats(TOPIC)) == 2


async def test_a_topic_is_not_a_group_of_its_own(cluster: Cluster, autojump_clock: Any) -> None:
    """A broker of 5.3.3 names the topic where it means its running groups."""
    cluster.both(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, body(GroupList(group_list=["G1", TOPIC])))
    cluster.a.replies[RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG] = body(SubscriptionGroupWrapper())
    found = []
    async with admin_of(cluster) as admin:
        for groups in ({}, {TOPIC: SubscriptionGroupConfig(group_name=TOPIC)}):
            cluster.b.replies[RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG] = body(
                SubscriptionGroupWrapper(subscription_group_table=groups)
            )
            found.append(await admin.topics.groups(TOPIC))
    assert found == [["G1"], ["G1", TOPIC]]


async def test_one_broker_of_two_fails(cluster: Cluster, autojump_clock: Any) -> None:
    config = TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1, perm=6)
    table = TopicStatsTable(offset_table={queue("broker-a"): TopicOffset(min_offset=1, max_offset=5)})
    cluster.a.replies |= {
        RequestCode.GET_ALL_TOPIC_CONFIG: body(
            TopicConfigSerializeWrapper(topic_config_table={TOPIC: config})
        ),
        RequestCode.GET_TOPIC_STATS_INFO: body(table),
        RequestCode.GET_ALL_PRODUCER_INFO: body(ProducerTableInfo(data={})),
        RequestCode.GET_PRODUCER_CONNECTION_LIST: refuse(1, "the producer group[G] not exist"),
    }
    for code in cluster.a.replies:
        cluster.b.replies[code] = silent
    async with admin_of(cluster) as admin:
        calls: list[tuple[Callable[..., Awaitable[Any]], tuple[str, ...], Any]] = [
            (admin.topics.settings, (TOPIC,), {"broker-a": config}),
            (admin.topics.stats, (TOPIC,), dict(table.offset_table)),
            (admin.clients.producers, (), []),
            (admin.clients.producers_of, ("G",), []),
        ]
        for call, arguments, expected in calls:
            with pytest.raises(RequestTimeout):
                await call(*arguments)
            failures: dict[str, ClientError] = {}
            assert await call(*arguments, failures=failures) == expected
            assert list(failures) == ["broker-b"]


async def test_topic_that_no_broker_has(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.both(RequestCode.GET_ALL_TOPIC_CONFIG, body(TopicConfigSerializeWrapper(topic_config_table={})))
    async with admin_of(cluster) as admin:
        with pytest.raises(TopicNotFound, match="no broker has topic T"):
            await admin.topics.settings(TOPIC)


async def test_create_topic(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.both(RequestCode.UPDATE_AND_CREATE_TOPIC, ok())
    async with admin_of(cluster) as admin:
        everywhere = await admin.topics.create("New", read_queues=3, write_queues=2, perm=4)
        one = await admin.topics.create("New", brokers=["broker-b"])
        of_cluster = await admin.topics.create("New", cluster="C1")
    header = from_ext(CreateTopicRequestHeader, cluster.a.asked[0].ext_fields)
    assert (header.topic, header.read_queue_nums, header.write_queue_nums, header.perm) == ("New", 3, 2, 4)
    assert (header.default_topic, header.topic_filter_type) == ("TBW102", "SINGLE_TAG")
    assert sorted(everywhere.brokers) == ["broker-a", "broker-b"]
    assert (one.brokers, of_cluster.brokers) == (("broker-b",), ("broker-a",))


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"brokers": ["nowhere"]}, NotFound, "^no broker nowhere; known: broker-a, broker-b$"),
        ({"cluster": "C9"}, NotFound, "^no cluster C9; known: C1, C2$"),
        ({"topic": "b@d"}, InvalidRequest, "illegal characters"),
    ],
)
async def test_create_topic_nowhere(
    cluster: Cluster, options: dict[str, Any], error: type[Exception], text: str, autojump_clock: Any
) -> None:
    async with admin_of(cluster) as admin:
        with pytest.raises(error, match=text):
            await admin.topics.create(**({"topic": "New"} | options))


async def test_create_topic_partly(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.a.replies[RequestCode.UPDATE_AND_CREATE_TOPIC] = ok()
    cluster.b.replies[RequestCode.UPDATE_AND_CREATE_TOPIC] = refuse(16)
    async with admin_of(cluster) as admin:
        change = await admin.topics.create("New")
        assert change.brokers == ("broker-a",)
        assert isinstance(change.failures["broker-b"], NotPermitted)
        cluster.a.replies[RequestCode.UPDATE_AND_CREATE_TOPIC] = refuse(1)
        with pytest.raises(BrokerRefused):
            await admin.topics.create("New")


async def test_create_ordered_topic_updates_every_name_server(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.both(RequestCode.UPDATE_AND_CREATE_TOPIC, ok())
    for server in (cluster.namesrv, cluster.other):
        server.replies |= {RequestCode.PUT_KV_CONFIG: ok(), RequestCode.GET_KV_CONFIG: refuse(22)}
    async with admin_of(cluster) as admin:
        await admin.topics.create("New", write_queues=4, order=True)
    for server in (cluster.namesrv, cluster.other):
        put = next(c for c in server.asked if c.code == RequestCode.PUT_KV_CONFIG)
        assert put.ext_fields == {
            "namespace": "ORDER_TOPIC_CONFIG",
            "key": "New",
            "value": "broker-a:4;broker-b:4",
        }


@pytest.mark.parametrize(
    ("known", "value"),
    [
        (ok({"value": "broker-a:8;broker-b:8"}), "broker-a:8;broker-b:4"),
        (ok({"value": "broker-z:1"}), "broker-z:1;broker-b:4"),
        (refuse(22), "broker-b:4"),
    ],
)
async def test_an_ordered_topic_on_one_broker_keeps_its_queues_on_others(
    cluster: Cluster, autojump_clock: Any, known: Any, value: str
) -> None:
    cluster.both(RequestCode.UPDATE_AND_CREATE_TOPIC, ok())
    for server in (cluster.namesrv, cluster.other):
        server.replies |= {RequestCode.PUT_KV_CONFIG: ok(), RequestCode.GET_KV_CONFIG: known}
    async with admin_of(cluster) as admin:
        await admin.topics.create("New", write_queues=4, order=True, brokers=["broker-b"])
    put = next(c for c in cluster.other.asked if c.code == RequestCode.PUT_KV_CONFIG)
    assert (put.ext_fields or {})["value"] == value


async def test_an_ordered_topic_keeps_the_queues_of_other_clusters_and_of_a_broker_that_is_down(
    cluster: Cluster, autojump_clock: Any
) -> None:
    known = ok({"value": "broker-a:8;broker-b:8;broker-z:8"})
    cluster.both(RequestCode.UPDATE_AND_CREATE_TOPIC, ok())
    for server in (cluster.namesrv, cluster.other):
        server.replies |= {RequestCode.PUT_KV_CONFIG: ok(), RequestCode.GET_KV_CONFIG: known}
    cluster.b.refuses = True
    async with admin_of(cluster) as admin:
        await admin.topics.create("New", write_queues=4, order=True, cluster="C1")
        await admin.topics.create("New", write_queues=4, order=True)
    puts = [c.ext_fields or {} for c in cluster.other.asked if c.code == RequestCode.PUT_KV_CONFIG]
    assert [put["value"] for put in puts] == ["broker-a:4;broker-b:8;broker-z:8"] * 2


async def test_update_keeps_the_rest(cluster: Cluster, autojump_clock: Any) -> None:
    config = TopicConfig(topic_name=TOPIC, read_queue_nums=3, write_queue_nums=5, perm=6, topic_sys_flag=2)
    cluster.both(
        RequestCode.GET_ALL_TOPIC_CONFIG,
        body(TopicConfigSerializeWrapper(topic_config_table={TOPIC: config})),
    )
    cluster.both(RequestCode.UPDATE_AND_CREATE_TOPIC, ok())
    async with admin_of(cluster) as admin:
        change = await admin.topics.update(TOPIC, perm=4)
    sent = [c for c in cluster.a.asked if c.code == RequestCode.UPDATE_AND_CREATE_TOPIC]
    header = from_ext(CreateTopicRequestHeader, sent[0].ext_fields)
    assert change.brokers == ("broker-a", "broker-b")
    assert (header.read_queue_nums, header.write_queue_nums, header.perm, header.topic_sys_flag) == (
        3,
        5,
        4,
        2,
    )


async def test_update_names_a_broker_whose_settings_it_cannot_read(
    cluster: Cluster, autojump_clock: Any
) -> None:
    table = TopicConfigSerializeWrapper(topic_config_table={TOPIC: TopicConfig(topic_name=TOPIC)})
    cluster.both(RequestCode.GET_ALL_TOPIC_CONFIG, body(table))
    cluster.both(RequestCode.UPDATE_AND_CREATE_TOPIC, ok())
    cluster.b.refuses = True
    async with admin_of(cluster) as admin:
        change = await admin.topics.update(TOPIC, perm=4)
    assert (change.brokers, list(change.failures)) == (("broker-a",), ["broker-b"])


async def test_update_does_not_wait_for_one_broker_after_the_other(
    cluster: Cluster, autojump_clock: Any
) -> None:
    config = TopicConfig(topic_name=TOPIC)
    cluster.both(
        RequestCode.GET_ALL_TOPIC_CONFIG,
        body(TopicConfigSerializeWrapper(topic_config_table={TOPIC: config})),
    )
    cluster.both(RequestCode.UPDATE_AND_CREATE_TOPIC, silent)
    async with admin_of(cluster) as admin:
        with pytest.raises(RequestTimeout):
            await admin.topics.update(TOPIC, perm=4)
        assert trio.current_time() == pytest.approx(ADMIN_TIMEOUT)


async def test_delete_topic_everywhere(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.both(RequestCode.DELETE_TOPIC_IN_BROKER, ok())
    for server in (cluster.namesrv, cluster.other):
        server.replies[RequestCode.DELETE_TOPIC_IN_NAMESRV] = ok()
        server.replies[RequestCode.DELETE_KV_CONFIG] = ok()
    async with admin_of(cluster) as admin:
        change = await admin.topics.delete(TOPIC)
    assert change.brokers == ("broker-a", "broker-b")
    for server in (cluster.namesrv, cluster.other):
        assert server.count(RequestCode.DELETE_TOPIC_IN_NAMESRV) == 1
        assert server.count(RequestCode.DELETE_KV_CONFIG) == 1, (
            "the route does not tell whether it is ordered"
        )


async def test_delete_topic_does_not_wait_for_a_lost_broker_again(
    cluster: Cluster, autojump_clock: Any
) -> None:
    cluster.both(RequestCode.DELETE_TOPIC_IN_BROKER, ok())
    lost = RequestTimeout("broker-b", "QUERY_TOPIC_CONSUME_BY_WHO", 5.0)
    async with admin_of(cluster) as admin:
        change = await admin.topics.delete(TOPIC, failures={"broker-b": lost})
    assert (change.brokers, change.failures) == (("broker-a",), {"broker-b": lost})
    assert cluster.b.count(RequestCode.DELETE_TOPIC_IN_BROKER) == 0
    assert cluster.namesrv.count(RequestCode.DELETE_TOPIC_IN_NAMESRV) == 0


async def test_delete_topic_keeps_the_route_while_a_broker_has_it(
    cluster: Cluster, autojump_clock: Any
) -> None:
    cluster.a.replies[RequestCode.DELETE_TOPIC_IN_BROKER] = ok()
    cluster.b.refuses = True
    async with admin_of(cluster) as admin:
        change = await admin.topics.delete(TOPIC)
    assert set(change.failures) == {"broker-b"}
    assert cluster.namesrv.count(RequestCode.DELETE_TOPIC_IN_NAMESRV) == 0


# --- groups


def online(*clients: str, topic: str = TOPIC, model: MessageModel = MessageModel.CLUSTERING) -> Reply:
    connection = ConsumerConnection(
        connection_set=[
            ClientConnection(client_id=c, client_addr="1.2.3.4:5", language="JAVA", version=409)
            for c in clients
        ],
        subscription_table={topic: SubscriptionData(topic=topic, sub_string="*")},
        message_model=model,
    )
    return body(connection)


def stats(table: dict[MessageQueue, tuple[int, int]], tps: float = 0.5) -> Reply:
    offsets = {q: OffsetWrapper(broker_offset=high, consumer_offset=at) for q, (high, at) in table.items()}
    return body(ConsumeStats(offset_table=offsets, consume_tps=tps))


async def test_describe_group(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.both(RequestCode.GET_CONSUMER_CONNECTION_LIST, refuse(206))
    cluster.a.replies[RequestCode.GET_CONSUMER_CONNECTION_LIST] = online("c2", "c1")
    cluster.a.replies[RequestCode.GET_CONSUME_STATS] = stats({queue("broker-a"): (10, 4)})
    cluster.b.replies[RequestCode.GET_CONSUME_STATS] = stats({queue("broker-b"): (3, 7)})
    for name, server in (("broker-a", cluster.a), ("broker-b", cluster.b)):
        table = TopicStatsTable(offset_table={queue(name): TopicOffset(min_offset=6, max_offset=10)})
        server.replies[RequestCode.GET_TOPIC_STATS_INFO] = body(table)
    async with admin_of(cluster) as admin:
        group = await admin.groups.describe("G")
    assert group.online
    assert [c.client_id for c in group.connections] == ["c1", "c2"]
    assert list(group.subscriptions) == [TOPIC]
    assert group.consume_tps == 1.0
    # 4 is below the lowest message 6: what is gone cannot lag; 7 is beyond the end 3: of a former topic
    assert [(q.queue.broker_name, q.consumer_offset, q.lag, q.lag_unknown) for q in group.queues] == [
        ("broker-a", 4, 4, None),
        ("broker-b", 7, None, BEYOND_END),
    ]
    assert (group.lag, group.lag_unknown) == (None, BEYOND_END)


async def test_the_lag_of_a_broadcasting_group_is_unknown(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.both(RequestCode.GET_CONSUMER_CONNECTION_LIST, online("c1", model=MessageModel.BROADCASTING))
    cluster.both(RequestCode.GET_CONSUME_STATS, stats({queue("broker-a"): (10, 0)}))
    cluster.both(RequestCode.GET_TOPIC_STATS_INFO, body(TopicStatsTable(offset_table={})))
    names = SubscriptionGroupWrapper(subscription_group_table={"G": SubscriptionGroupConfig(group_name="G")})
    cluster.both(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, body(names))
    async with admin_of(cluster) as admin:
        group = await admin.groups.describe("G", TOPIC)
        lags = await admin.offsets.lags("G", TOPIC)
        listed = (await admin.groups.summaries())[0]
    found: list[Any] = [group, listed, *group.queues, *lags]
    assert {(one.lag, one.lag_unknown) for one in found} == {(None, BROADCASTING)}


async def test_a_group_with_offsets_but_no_settings(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.both(RequestCode.GET_CONSUME_STATS, stats({queue("broker-a"): (10, 4)}))
    cluster.both(
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        body(SubscriptionGroupWrapper(subscription_group_table={})),
    )
    async with admin_of(cluster) as admin:
        with pytest.raises(GroupNotFound, match=r"^group G has offsets but no settings; it is created"):
            await admin.groups.settings("G")


async def test_owners_of_queues(cluster: Cluster, autojump_clock: Any) -> None:
    connection = ConsumerConnection(
        connection_set=[ClientConnection(client_id=client) for client in ("c1", "c2")],
        subscription_table={TOPIC: SubscriptionData(topic=TOPIC, sub_string="*")},
        consume_type=ConsumeType.CONSUME_PASSIVELY,
    )
    cluster.both(RequestCode.GET_CONSUMER_CONNECTION_LIST, body(connection))
    cluster.both(RequestCode.GET_CONSUME_STATS, stats({}))
    cluster.a.replies[RequestCode.GET_CONSUME_STATS] = stats(
        {queue("broker-a"): (10, 4), queue("broker-a", 1): (3, 3)}
    )
    cluster.both(RequestCode.GET_TOPIC_STATS_INFO, body(TopicStatsTable()))

    def running(command: RemotingCommand) -> Any:
        if (command.ext_fields or {})["clientId"] == "c2":
            return command.reply(207, "timeout")
        return body(ConsumerRunningInfo(mq_table={queue("broker-a"): ProcessQueueInfo()}))(command)

    cluster.a.replies[RequestCode.GET_CONSUMER_RUNNING_INFO] = running
    cluster.b.replies[RequestCode.GET_CONSUMER_RUNNING_INFO] = refuse(1, "not online")
    async with admin_of(cluster) as admin:
        group = await admin.groups.describe("G")
        offsets = await admin.offsets.lags("G")
    assert [lag.client_id for lag in group.queues] == ["c1", None]
    assert list(group.queues) == offsets


async def test_offsets_of_a_topic_without_any_are_not_found(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.both(RequestCode.GET_CONSUMER_CONNECTION_LIST, refuse(206))
    queue = MessageQueue("T", "broker-a", 0)

    def answer(command: RemotingCommand) -> RemotingCommand:
        asked = (command.ext_fields or {}).get("topic")
        table = {} if asked == "Other" else {queue: OffsetWrapper(10, 4, 0)}
        return command.reply(0, None, None, encode_body(ConsumeStats(offset_table=table)))

    cluster.both(RequestCode.GET_CONSUME_STATS, answer)
    async with admin_of(cluster) as admin:
        with pytest.raises(NotFound, match=r"^group G has no offsets on topic Other$"):
            await admin.offsets.lags("G", "Other")


async def test_group_that_no_broker_knows(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.both(RequestCode.GET_CONSUMER_CONNECTION_LIST, refuse(206))
    cluster.both(RequestCode.GET_CONSUME_STATS, stats({}))
    cluster.both(
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        body(SubscriptionGroupWrapper(subscription_group_table={})),
    )
    async with admin_of(cluster) as admin:
        with pytest.raises(GroupNotFound, match=r"^no broker knows group G; it is created"):
            await admin.groups.describe("G")
        with pytest.raises(GroupNotFound):
            await admin.offsets.lags("G")
        with pytest.raises(ConsumerOffline):
            await admin.clients.consumers("G")


async def test_list_of_groups(cluster: Cluster, autojump_clock: Any) -> None:
    table = {name: SubscriptionGroupConfig(group_name=name) for name in ("G1", "TOOLS_CONSUMER")}
    cluster.both(
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        body(SubscriptionGroupWrapper(subscription_group_table=table)),
    )
    cluster.both(RequestCode.GET_CONSUMER_CONNECTION_LIST, refuse(206))

    def stats_of(command: RemotingCommand) -> Any:
        if (command.ext_fields or {})["consumerGroup"] == "G2":
            return command.reply(1, "broken")
        return stats({queue("broker-a"): (10, 4)}, 0)(command)

    cluster.a.replies[RequestCode.GET_CONSUME_STATS] = stats_of
    cluster.b.replies[RequestCode.GET_CONSUME_STATS] = stats({}, 0)
    async with admin_of(cluster) as admin:
        assert await admin.groups.names() == ["G1", "G2"]
        assert "TOOLS_CONSUMER" in await admin.groups.names(system=True)
        first, second = await admin.groups.summaries()
    assert (first.name, first.clients, first.lag, first.error) == ("G1", 0, 6, None)
    assert isinstance(second.error, BrokerRefused)
    assert (second.lag, second.lag_unknown) == (None, str(second.error))


async def test_offsets_of_broadcasting_clients_make_no_group(cluster: Cluster, autojump_clock: Any) -> None:
    """5.3.3 keeps the least of them under a name of its own."""
    keys = ("T@G1", "T@G3@broadcast")
    cluster.both(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, body(SubscriptionGroupWrapper()))
    cluster.both(
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        body(ConsumerOffsetSerializeWrapper(offset_table={key: {0: 28} for key in keys})),
    )
    async with admin_of(cluster) as admin:
        assert await admin.groups.names() == ["G1", "G2", "G3"]


async def test_retry_topics_of_pop_make_no_groups(cluster: Cluster, autojump_clock: Any) -> None:
    topics = [
        "T",
        "my_T",
        "%RETRY%G1_T",
        "%RETRY%G1+my_T",
        "%RETRY%my_G2_T",
        "%RETRY%my_G2",
        "%RETRY%other_T",
    ]
    cluster.namesrv.replies[RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER] = body(
        TopicList(topic_list=topics)
    )
    table = {name: SubscriptionGroupConfig(group_name=name) for name in ("G1", "my_G2")}
    cluster.both(
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        body(SubscriptionGroupWrapper(subscription_group_table=table)),
    )
    async with admin_of(cluster) as admin:
        assert await admin.groups.names() == ["G1", "my_G2", "other_T"]


async def test_group_settings(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.both(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, ok())
    cluster.both(RequestCode.DELETE_SUBSCRIPTIONGROUP, ok())
    async with admin_of(cluster) as admin:
        made = await admin.groups.create(
            SubscriptionGroupConfig(group_name="G", retry_max_times=3), cluster="C2"
        )
        gone = await admin.groups.delete("G", remove_offset=True)
        with pytest.raises(InvalidRequest):
            await admin.groups.create(SubscriptionGroupConfig(group_name="b@d"))
    assert made.brokers == ("broker-b",)
    assert b'"retryMaxTimes":3' in bytes(cluster.b.asked[0].body)
    assert gone.brokers == ("broker-a", "broker-b")
    assert (cluster.a.asked[-1].ext_fields or {})["removeOffset"] == "true"


async def test_offsets_of_a_known_group_without_any(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.both(RequestCode.GET_CONSUMER_CONNECTION_LIST, refuse(206))
    cluster.both(RequestCode.GET_CONSUME_STATS, stats({}))
    table = {"G": SubscriptionGroupConfig(group_name="G")}
    cluster.both(
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        body(SubscriptionGroupWrapper(subscription_group_table=table)),
    )
    async with admin_of(cluster) as admin:
        with pytest.raises(NotFound, match="group G has no offsets on topic T"):
            await admin.offsets.lags("G", TOPIC)


# --- brokers


async def test_clusters_with_the_runtime_of_each_broker(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.both(RequestCode.GET_BROKER_RUNTIME_INFO, body(KVTable(table={"brokerVersionDesc": "V4_9_8"})))
    cluster.slave.refuses = True
    async with admin_of(cluster) as admin:
        seats = await admin.brokers.summaries()
    assert [(s.cluster, s.broker_name, s.broker_id, s.address) for s in seats] == [
        ("C1", "broker-a", 0, A),
        ("C1", "broker-a", 1, SLAVE),
        ("C2", "broker-b", 0, B),
    ]
    assert [s.runtime and s.runtime["brokerVersionDesc"] for s in seats] == ["V4_9_8", None, "V4_9_8"]
    assert "cannot connect to 10.0.0.3:10911" in str(seats[1].error)


async def test_seats_are_masters_and_slaves(cluster: Cluster, autojump_clock: Any) -> None:
    async with admin_of(cluster) as admin:
        assert await admin.brokers.seats() == {"broker-a": A, "broker-a:1": SLAVE, "broker-b": B}
        assert await admin.brokers.seats(brokers=["broker-b"]) == {"broker-b": B}
        assert await admin.brokers.seats(cluster="C1") == {"broker-a": A, "broker-a:1": SLAVE}
        with pytest.raises(NotFound, match="no broker broker-b; known: broker-a"):
            await admin.brokers.seats(brokers=["broker-b"], cluster="C1")


async def test_configurations_by_seat(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.both(RequestCode.GET_BROKER_CONFIG, ok({"version": "{}"}, b"deleteWhen=04\n"))
    cluster.slave.refuses = True
    async with admin_of(cluster) as admin:
        seats = await admin.brokers.seats()
        failures: dict[str, ClientError] = {}
        found = await admin.brokers.configs(seats, failures=failures)
        with pytest.raises(InvalidRequest, match="cannot be written as a line of text"):
            await admin.brokers.set_config(seats, {"a": "1\nb=2"})
    assert found == {"broker-a": {"deleteWhen": "04"}, "broker-b": {"deleteWhen": "04"}}
    assert list(failures) == ["broker-a:1"]


async def test_statistics_of_those_that_have_them(cluster: Cluster, autojump_clock: Any) -> None:
    item = BrokerStatsData(stats_minute=BrokerStatsItem(sum=3, tps=0.5))
    code = RequestCode.VIEW_BROKER_STATS_DATA
    seats = {"broker-a": A, "broker-b": B}
    async with admin_of(cluster) as admin:

        async def ask() -> tuple[list[BrokerStatsData], dict[str, ClientError]]:
            failures: dict[str, ClientError] = {}
            return await admin.brokers.statistics(seats, "TOPIC_PUT_NUMS", "T", failures=failures), failures

        cluster.a.replies[code] = body(item)
        cluster.b.replies[code] = refuse(1, "The stats <TOPIC_PUT_NUMS> <T> not exist")
        assert await ask() == ([item], {})
        cluster.b.replies[code] = refuse(1, "out of order")
        assert (await ask())[1]["broker-b"].__class__ is BrokerRefused
        cluster.both(code, silent)
        nothing, failures = await ask()
    assert (nothing, list(failures)) == ([], ["broker-a", "broker-b"])


async def test_any_request(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.a.replies[26] = ok({"version": "1"}, b"k=v")
    async with admin_of(cluster) as admin:
        reply = await admin.invoke(A, 26, {"x": "y"}, b"body")
        unknown = await admin.invoke(A, 9999)
    assert (reply.code, bytes(reply.body)) == (0, b"k=v")
    assert (cluster.a.asked[0].ext_fields, bytes(cluster.a.asked[0].body)) == ({"x": "y"}, b"body")
    assert unknown.code == 3


async def test_name_server_that_is_silent_is_a_timeout(network: Network, autojump_clock: Any) -> None:
    network.server(NAMESRV, {RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: silent})
    async with Admin(namesrv=NAMESRV, open_stream=network.open_stream, timeout=2.0) as admin:
        with pytest.raises(
            RequestTimeout, match="did not answer GET_ALL_TOPIC_LIST_FROM_NAMESERVER within 2 s"
        ):
            await admin.topics.names()


async def test_a_timeout_of_zero_is_not_the_default(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.a.replies[26] = silent
    async with admin_of(cluster) as admin:
        with pytest.raises(RequestTimeout):
            await admin.invoke(A, 26, timeout=1)
        began = trio.current_time()
        with pytest.raises((ConnectionFailed, RequestTimeout)):
            await admin.invoke(A, 26, timeout=0)
        assert trio.current_time() == began


@pytest.mark.parametrize("data", [b"", b"null", b"[", b"\xff\xfe", b'{"topicList":5}'])
async def test_unreadable_bodies(cluster: Cluster, data: bytes, autojump_clock: Any) -> None:
    cluster.namesrv.replies[RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER] = ok(None, data)
    async with admin_of(cluster) as admin:
        with pytest.raises(UnexpectedReply, match="ns:9876 answered GET_ALL_TOPIC_LIST_FROM_NAMESERVER"):
            await admin.topics.names()


# --- queries


def record(keys: str, uniq: str = "", topic: str = TOPIC, at: int = 5) -> bytes:
    properties = {"KEYS": keys} | ({"UNIQ_KEY": uniq} if uniq else {})
    return make_record(topic=topic.encode(), store_timestamp=at, properties=encode_properties(properties))


async def test_query_by_key_leaves_collisions_out(cluster: Cluster, autojump_clock: Any) -> None:
    found = record("k1 k2", at=9) + record("k11", at=1) + record("k1", topic="Other")
    cluster.a.replies[RequestCode.QUERY_MESSAGE] = ok(INDEX_SEEN, found)
    cluster.b.replies[RequestCode.QUERY_MESSAGE] = ok(INDEX_SEEN, record("k1", at=3))
    async with admin_of(cluster) as admin:
        result = await admin.messages.query_by_key(TOPIC, "k1")
    assert [(m.store_timestamp, m.broker_name) for m in result.messages] == [(3, "broker-b"), (9, "broker-a")]
    assert not result.failures
    assert (cluster.a.asked[0].ext_fields or {})["_UNIQUE_KEY_QUERY"] == "false"


async def test_a_count_is_of_all_brokers(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.a.replies[RequestCode.QUERY_MESSAGE] = ok(INDEX_SEEN, record("k1", at=1) + record("k1", at=4))
    cluster.b.replies[RequestCode.QUERY_MESSAGE] = ok(INDEX_SEEN, record("k1", at=2) + record("k1", at=3))
    async with admin_of(cluster) as admin:
        found = {
            count: await admin.messages.query_by_key(TOPIC, "k1", max_num=count) for count in (1, 2, 3, 5)
        }
    times = {count: [m.store_timestamp for m in result.messages] for count, result in found.items()}
    assert times == {1: [4], 2: [3, 4], 3: [2, 3, 4], 5: [1, 2, 3, 4]}
    assert [result.may_be_more for result in found.values()] == [True, True, True, False]


async def test_a_full_answer_of_a_broker_may_not_be_all(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.a.replies[RequestCode.QUERY_MESSAGE] = ok(INDEX_SEEN, record("other") * 63 + record("k1"))
    cluster.b.replies[RequestCode.QUERY_MESSAGE] = refuse(22)
    async with admin_of(cluster) as admin:
        result = await admin.messages.query_by_key(TOPIC, "k1", max_num=1000)
    assert (len(result.messages), result.may_be_more) == (1, True)


async def test_query_reports_brokers_that_could_not_be_asked(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.a.replies[RequestCode.QUERY_MESSAGE] = refuse(22)
    cluster.b.replies[RequestCode.QUERY_MESSAGE] = refuse(1, "index broken")
    async with admin_of(cluster) as admin:
        result = await admin.messages.query_by_key(TOPIC, "k1")
        assert result.messages == ()
        assert "index broken" in str(result.failures["broker-b"])
        cluster.a.replies[RequestCode.QUERY_MESSAGE] = refuse(16)
        with pytest.raises(NotPermitted):
            await admin.messages.query_by_key(TOPIC, "k1")


async def test_unique_key_is_looked_up_from_its_time(cluster: Cluster, autojump_clock: Any) -> None:
    uniq = UniqIdFactory(b"\x0a\x00\x00\x09", 0xFFFF, 0xFFFFFFFF, lambda: NOW - 60_000).next()
    cluster.a.replies[RequestCode.QUERY_MESSAGE] = ok(INDEX_SEEN, record("k", uniq))
    cluster.b.replies[RequestCode.QUERY_MESSAGE] = refuse(22)
    async with admin_of(cluster) as admin:
        result = await admin.messages.query_by_id(TOPIC, uniq)
    header = from_ext(QueryMessageRequestHeader, cluster.a.asked[0].ext_fields)
    assert [m.msg_id for m in result.messages] == [uniq]
    assert header.begin_timestamp == NOW - 61_000
    assert (header.key, header.end_timestamp) == (uniq, 2**63 - 1)
    assert (cluster.a.asked[0].ext_fields or {})["_UNIQUE_KEY_QUERY"] == "true"


async def test_unique_key_with_a_misleading_time_is_looked_up_again(
    cluster: Cluster, autojump_clock: Any
) -> None:
    uniq = UniqIdFactory(b"\x0a\x00\x00\x09", 0xFFFF, 0xFFFFFFFF, lambda: NOW - 60_000).next()

    def late_index(command: RemotingCommand) -> Any:
        begin = int((command.ext_fields or {})["beginTimestamp"])
        return command.reply(22) if begin else ok(INDEX_SEEN, record("k", uniq))(command)

    cluster.both(RequestCode.QUERY_MESSAGE, late_index)
    async with admin_of(cluster) as admin:
        assert len((await admin.messages.query_by_uniq_key(TOPIC, uniq)).messages) == 2


async def test_offset_id_goes_to_the_broker_it_names(cluster: Cluster, autojump_clock: Any) -> None:
    offset_id = "0A00000100002A9F0000000000001C0D"
    cluster.a.replies[RequestCode.VIEW_MESSAGE_BY_ID] = ok({}, record("k"))
    async with admin_of(cluster) as admin:
        result = await admin.messages.query_by_id(TOPIC, offset_id)
        message = await admin.messages.view(offset_id)
    assert result.messages == (message,)
    assert message.broker_name == "broker-a"
    assert (cluster.a.asked[0].ext_fields or {})["offset"] == str(0x1C0D)


async def test_an_offset_id_names_all_messages_of_an_inner_batch(
    cluster: Cluster, store_five: JavaStore, autojump_clock: Any
) -> None:
    line = next(line for line in store_five.of_kind("msg") if line["sysFlag"] & INNER_BATCH)
    stored = decode_record(store_five.commit_log, line["phy"])
    content = store_five.commit_log[line["phy"] : line["phy"] + stored.store_size]
    cluster.a.replies[RequestCode.VIEW_MESSAGE_BY_ID] = ok({}, content)
    offset_id = "0A00000100002A9F0000000000001C0D"
    async with admin_of(cluster) as admin:
        found = (await admin.messages.query_by_id(TOPIC, offset_id)).messages
        first = await admin.messages.view(offset_id)
    assert [message.queue_offset for message in found] == list(range(8))
    assert first == found[0]


async def test_nothing_at_an_offset_id(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.a.replies[RequestCode.VIEW_MESSAGE_BY_ID] = refuse(1, "can not find message by the offset, 7181")
    async with admin_of(cluster) as admin:
        with pytest.raises(NotFound, match="can not find message by the offset"):
            await admin.messages.view("0A00000100002A9F0000000000001C0D")
        cluster.a.replies[RequestCode.VIEW_MESSAGE_BY_ID] = refuse(
            1, "org.apache.rocketmq.acl.common.AclException: no"
        )
        with pytest.raises(NotPermitted):
            await admin.messages.view("0A00000100002A9F0000000000001C0D")
        with pytest.raises(InvalidRequest):
            await admin.messages.view("nonsense")


def test_the_text_of_a_refusal_has_no_loose_end() -> None:
    """Java's remark continues with an address in its second line."""
    remark = (
        "subscription group [G] does not exist, \n"
        "See http://rocketmq.apache.org/docs/faq/ for further details."
    )
    text = str(GroupNotFound(26, remark, "a:1", "PULL_MESSAGE"))
    assert "does not exist; it is created by its first consumer, unless" in text
