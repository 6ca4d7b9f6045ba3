"""Resets: plans, offline commits, running consumers on old and new brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from rmqcli.client import Admin, NotFound, OnlineResetUnsupported, ResetTarget
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.heartbeat import ConsumeType, SubscriptionData
from rmqcli.codec.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from rmqcli.codec.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from rmqcli.codec.bodies.running import (
    ClientConnection,
    ConsumerConnection,
    ConsumerRunningInfo,
    ProcessQueueInfo,
)
from rmqcli.codec.bodies.stats import ConsumeStats, OffsetWrapper, TopicOffset, TopicStatsTable
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.headers.base import from_ext
from rmqcli.codec.headers.offsets import ResetOffsetRequestHeader
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.remoting.command import RemotingCommand
from tests.client.scripted import Network, ok, refuse, route

NAMESRV, ADDRESS = "ns:9876", "a:10911"
TOPIC, GROUP = "T", "G"
Q0, Q1 = MessageQueue(TOPIC, "broker-a", 0), MessageQueue(TOPIC, "broker-a", 1)
LOW, HIGH = 10, 110


class Broker:
    """A broker with two queues, offsets, and perhaps running consumers that follow a reset."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.offsets: dict[int, int] = {0: 50, 1: 60}
        self.config = b"brokerName=broker-a\n"
        self.clients: list[str] = []
        self.consume_type: ConsumeType | None = None
        self.stuck = False
        brokers = {"broker-a": {0: ADDRESS}}
        info = ClusterInfo(
            broker_addr_table={
                "broker-a": BrokerData(cluster="C", broker_name="broker-a", broker_addrs={0: ADDRESS})
            },
            cluster_addr_table={"C": ["broker-a"]},
        )
        self.namesrv = network.server(
            NAMESRV,
            {
                RequestCode.GET_ROUTEINFO_BY_TOPIC: route({TOPIC: {"broker-a": 2}}, brokers),
                RequestCode.GET_BROKER_CLUSTER_INFO: ok(None, encode_body(info)),
            },
        )
        self.server = network.server(
            ADDRESS,
            {
                RequestCode.QUERY_CONSUMER_OFFSET: self.query,
                RequestCode.UPDATE_CONSUMER_OFFSET: self.update,
                RequestCode.GET_MIN_OFFSET: ok({"offset": str(LOW)}),
                RequestCode.GET_MAX_OFFSET: ok({"offset": str(HIGH)}),
                RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: ok({"offset": "77"}),
                RequestCode.GET_CONSUMER_CONNECTION_LIST: self.connections,
                RequestCode.GET_BROKER_CONFIG: lambda command: command.reply(0, None, None, self.config),
                RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self.reset,
            },
        )

    def query(self, command: RemotingCommand) -> RemotingCommand:
        offset = self.offsets.get(int((command.ext_fields or {})["queueId"]))
        return command.reply(22) if offset is None else command.reply(0, None, {"offset": str(offset)})

    def update(self, command: RemotingCommand) -> RemotingCommand:
        ext = command.ext_fields or {}
        self.offsets[int(ext["queueId"])] = int(ext["commitOffset"])
        return command.reply(0)

    def connections(self, command: RemotingCommand) -> RemotingCommand:
        if not self.clients:
            return command.reply(206, "Not Found the consumer group consumer Id")
        connection = ConsumerConnection(
            connection_set=[ClientConnection(client_id=client) for client in self.clients],
            consume_type=self.consume_type,
            subscription_table={TOPIC: SubscriptionData(topic=TOPIC, sub_string="*")},
        )
        return command.reply(0, None, None, encode_body(connection))

    def reset(self, command: RemotingCommand) -> RemotingCommand:
        header = from_ext(ResetOffsetRequestHeader, command.ext_fields)
        if len(self.offsets) < 2:
            return command.reply(1, f"THe consumer group <{GROUP}> not exist")
        if self.stuck:
            targets = {}
        elif header.offset is not None and header.queue_id is not None:
            targets = {header.queue_id: header.offset}
        else:
            offset = {0: LOW, -1: HIGH}.get(header.timestamp, 77)
            targets = {0: offset, 1: offset}
        self.offsets |= targets
        table = {MessageQueue(TOPIC, "broker-a", number): offset for number, offset in targets.items()}
        return command.reply(0, None, None, encode_body(ResetOffsetBody(offset_table=table)))

    def resets(self) -> list[ResetOffsetRequestHeader]:
        asked = [c for c in self.server.asked if c.code == RequestCode.INVOKE_BROKER_TO_RESET_OFFSET]
        return [from_ext(ResetOffsetRequestHeader, c.ext_fields) for c in asked]


@pytest.fixture
def broker(network: Network) -> Broker:
    return Broker(network)


@asynccontextmanager
async def admin_of(broker: Broker) -> AsyncIterator[Admin]:
    async with Admin(namesrv=NAMESRV, open_stream=broker.network.open_stream) as admin:
        yield admin


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (ResetTarget("start"), (10, 10)),
        (ResetTarget("end"), (110, 110)),
        (ResetTarget("offset", 0), (10, 10)),
        (ResetTarget("offset", 42), (42, 42)),
        (ResetTarget("offset", 9999), (110, 110)),
        (ResetTarget("shift", 5), (55, 65)),
        (ResetTarget("shift", -5), (45, 55)),
        (ResetTarget("shift", -1000), (10, 10)),
        (ResetTarget("time", 123456), (77, 77)),
        (ResetTarget("exact", exact={Q0: 11, Q1: 12}), (11, 12)),
    ],
)
async def test_plan(
    broker: Broker, target: ResetTarget, expected: tuple[int, int], autojump_clock: Any
) -> None:
    async with admin_of(broker) as admin:
        plan = await admin.offsets.plan_reset(GROUP, TOPIC, target)
    assert [(reset.queue, reset.old, reset.new) for reset in plan.queues] == [
        (Q0, 50, expected[0]),
        (Q1, 60, expected[1]),
    ]
    assert broker.offsets == {0: 50, 1: 60}
    assert not plan.online


async def test_a_target_outside_of_a_queue_is_told(broker: Broker, autojump_clock: Any) -> None:
    async with admin_of(broker) as admin:
        plan = await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("shift", 55))
    assert [(reset.new, reset.wanted) for reset in plan.queues] == [(105, None), (HIGH, 115)]


async def test_plan_counts_replayed_and_skipped_messages(broker: Broker, autojump_clock: Any) -> None:
    del broker.offsets[1]
    async with admin_of(broker) as admin:
        back = await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("offset", 20))
        forth = await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("end"))
    assert [(r.old, r.new, r.replayed, r.skipped) for r in back.queues] == [
        (50, 20, 30, 0),
        (None, 20, 0, 10),
    ]
    assert (back.replayed, back.skipped) == (30, 10)
    assert (forth.replayed, forth.skipped) == (0, 60 + 100)


async def test_plan_of_a_time_after_the_last_message_is_the_end(broker: Broker, autojump_clock: Any) -> None:
    last = {Q0: TopicOffset(LOW, HIGH, 5000), Q1: TopicOffset(LOW, HIGH, 6000)}
    # as a broker of 4.9 does: the last message for every later time
    broker.server.replies[RequestCode.SEARCH_OFFSET_BY_TIMESTAMP] = ok({"offset": str(HIGH - 1)})
    broker.server.replies[RequestCode.GET_TOPIC_STATS_INFO] = ok(None, encode_body(TopicStatsTable(last)))
    async with admin_of(broker) as admin:
        plan = await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("time", 5001))
    assert [reset.new for reset in plan.queues] == [HIGH, HIGH - 1]


async def test_plan_of_one_queue(broker: Broker, autojump_clock: Any) -> None:
    async with admin_of(broker) as admin:
        plan = await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("start"), queue_id=1)
        exact = await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("exact", exact={Q1: 33}))
        with pytest.raises(NotFound, match=r"^topic T has no queue 9$"):
            await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("start"), queue_id=9)
    assert [reset.queue for reset in plan.queues] == [reset.queue for reset in exact.queues] == [Q1]


async def test_offline_reset_commits_and_reads_back(broker: Broker, autojump_clock: Any) -> None:
    async with admin_of(broker) as admin:
        plan = await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("start"))
        result = await admin.offsets.reset(plan)
    assert broker.offsets == {0: 10, 1: 10}
    assert result.complete
    assert not result.online
    assert [(q.queue, q.wanted, q.found) for q in result.queues] == [(Q0, 10, 10), (Q1, 10, 10)]


async def test_offset_zero_is_an_offset(broker: Broker, autojump_clock: Any) -> None:
    broker.server.replies[RequestCode.GET_MIN_OFFSET] = ok({"offset": "0"})
    async with admin_of(broker) as admin:
        result = await admin.offsets.reset(
            await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("offset", 0))
        )
    assert broker.offsets == {0: 0, 1: 0}
    assert result.complete


async def test_offline_failures_are_reported_by_queue(broker: Broker, autojump_clock: Any) -> None:
    def update(command: RemotingCommand) -> RemotingCommand:
        return (
            command.reply(16, "no")
            if (command.ext_fields or {})["queueId"] == "1"
            else broker.update(command)
        )

    broker.server.replies[RequestCode.UPDATE_CONSUMER_OFFSET] = update
    async with admin_of(broker) as admin:
        result = await admin.offsets.reset(await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("end")))
    assert not result.complete
    assert [queue.confirmed for queue in result.queues] == [True, False]
    assert "NO_PERMISSION" in str(result.queues[1].error)


async def test_commit_that_does_not_stay_is_not_confirmed(broker: Broker, autojump_clock: Any) -> None:
    broker.server.replies[RequestCode.UPDATE_CONSUMER_OFFSET] = ok()
    async with admin_of(broker) as admin:
        result = await admin.offsets.reset(await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("end")))
    assert [(queue.found, queue.confirmed) for queue in result.queues] == [(50, False), (60, False)]


async def test_a_reset_of_a_new_broker_outlives_commits_until_the_next_pull(
    broker: Broker, autojump_clock: Any
) -> None:
    """5.3.3 answers SUCCESS to a commit that it ignores, so another reset must be its own, too."""
    broker.config = b"useServerSideResetOffset=true\n"
    ignored = {"0": "Offset has been previously reset"}

    def update(command: RemotingCommand) -> RemotingCommand:
        remark = ignored.get((command.ext_fields or {})["queueId"])
        return command.reply(0, remark) if remark else broker.update(command)

    broker.server.replies[RequestCode.UPDATE_CONSUMER_OFFSET] = update
    async with admin_of(broker) as admin:
        result = await admin.offsets.reset(await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("end")))
    assert [(queue.found, queue.confirmed) for queue in result.queues] == [(110, True)] * 2
    assert [(reset.queue_id, reset.offset) for reset in broker.resets()] == [(0, 110)]


@pytest.mark.parametrize(
    ("target", "timestamp"),
    [(ResetTarget("start"), 0), (ResetTarget("end"), -1), (ResetTarget("time", 1234), 1234)],
)
async def test_running_consumers_are_moved_by_the_broker(
    broker: Broker, target: ResetTarget, timestamp: int, autojump_clock: Any
) -> None:
    broker.clients = ["c1", "c2"]
    async with admin_of(broker) as admin:
        plan = await admin.offsets.plan_reset(GROUP, TOPIC, target)
        result = await admin.offsets.reset(plan)
    assert plan.clients == ("c1", "c2")
    assert result.online
    assert result.complete
    assert [(reset.timestamp, reset.is_force, reset.offset) for reset in broker.resets()] == [
        (timestamp, True, None)
    ]
    assert broker.server.count(RequestCode.UPDATE_CONSUMER_OFFSET) == 0


async def test_running_consumers_that_do_not_move(broker: Broker, autojump_clock: Any) -> None:
    broker.clients, broker.stuck = ["c1"], True
    async with admin_of(broker) as admin:
        plan = await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("start"))
        started = trio.current_time()
        result = await admin.offsets.reset(plan, settle=20)
    assert 20 <= trio.current_time() - started < 21
    assert [(queue.found, queue.confirmed) for queue in result.queues] == [(50, False), (60, False)]


class Replay:
    """Running clients that replay the last messages so fast that the committed offsets look as before."""

    def __init__(
        self,
        broker: Broker,
        *,
        consumed_after: int = 1001,
        holder: str = "c1",
        high: int = HIGH,
    ) -> None:
        self.broker = broker
        broker.clients, broker.stuck = ["c1", "c2"], True
        broker.offsets = {0: HIGH, 1: HIGH - 5}  # what c1 has not told yet
        self.after = (holder, consumed_after, high)
        self.now = ("c1", 1000, HIGH)
        broker.server.replies |= {
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self.reset,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.info,
            RequestCode.GET_MAX_OFFSET: lambda command: command.reply(0, None, {"offset": str(self.now[2])}),
        }

    def reset(self, command: RemotingCommand) -> RemotingCommand:
        self.now = self.after
        return self.broker.reset(command)

    def info(self, command: RemotingCommand) -> RemotingCommand:
        holder, consumed, _ = self.now
        activity = ProcessQueueInfo(commit_offset=HIGH, last_consume_timestamp=consumed)
        queue = Q0 if (command.ext_fields or {})["clientId"] == holder else Q1
        body = encode_body(ConsumerRunningInfo(mq_table={queue: activity}))
        return command.reply(0, None, None, body)


async def test_a_replay_that_is_over_before_anybody_looks(broker: Broker, autojump_clock: Any) -> None:
    Replay(broker)
    async with admin_of(broker) as admin:
        plan = await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("start"))
        started = trio.current_time()
        result = await admin.offsets.reset(plan)
    assert result.complete
    assert trio.current_time() - started < 1
    assert [(queue.old, queue.replayed) for queue in plan.queues] == [(HIGH, HIGH - LOW)] * 2
    assert [queue.found for queue in result.queues] == [HIGH, HIGH]


async def test_uncommitted_progress_does_not_look_like_a_move(broker: Broker, autojump_clock: Any) -> None:
    replay = Replay(broker, consumed_after=1000)
    broker.offsets = {0: LOW + 1, 1: 0}  # 0 is also what a broker answers that knows none
    async with admin_of(broker) as admin:
        plan = await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("start"))
        result = await admin.offsets.reset(plan, settle=3)
    assert plan.replayed == 2 * (HIGH - LOW)
    assert broker.offsets == {0: HIGH, 1: HIGH}
    assert [queue.confirmed for queue in result.queues] == [False, False]
    assert replay.now == replay.after


@pytest.mark.parametrize(
    "after",
    [
        {"consumed_after": 1000},
        {"holder": "c2"},
        {"high": HIGH + 1},
    ],
    ids=[
        "nothing consumed since",
        "the clients have exchanged their queues",
        "new messages came",
    ],
)
async def test_offsets_that_do_not_prove_a_move(
    broker: Broker, after: dict[str, Any], autojump_clock: Any
) -> None:
    Replay(broker, **after)
    async with admin_of(broker) as admin:
        result = await admin.offsets.reset(await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("start")))
    assert [(queue.found, queue.confirmed) for queue in result.queues] == [(HIGH, False)] * 2


@pytest.mark.parametrize(
    ("target", "queue_id", "wanted"),
    [
        (ResetTarget("offset", 42), None, "42"),
        (ResetTarget("shift", -5), None, "-5"),
        (ResetTarget("start"), 1, "start of single queues"),
    ],
)
async def test_resets_of_running_consumers_that_an_old_broker_cannot_do(
    broker: Broker, target: ResetTarget, queue_id: int | None, wanted: str, autojump_clock: Any
) -> None:
    broker.clients = ["c1"]
    for config in (broker.config, b"useServerSideResetOffset=false\n"):
        broker.config = config
        async with admin_of(broker) as admin:
            with pytest.raises(
                OnlineResetUnsupported, match=rf"group G has running clients \(1\), .* not to {wanted}; stop"
            ):
                await admin.offsets.plan_reset(GROUP, TOPIC, target, queue_id=queue_id)
    assert broker.offsets == {0: 50, 1: 60}
    assert not broker.resets()


async def test_an_old_broker_does_not_move_queues_that_are_only_read(
    broker: Broker, autojump_clock: Any
) -> None:
    """It moves the write queues, so the reset would leave the others where they are."""
    broker.clients = ["c1"]
    broker.namesrv.replies[RequestCode.GET_ROUTEINFO_BY_TOPIC] = ok(
        None,
        encode_body(
            TopicRouteData(
                queue_datas=[
                    QueueData(broker_name="broker-a", read_queue_nums=2, write_queue_nums=1, perm=6)
                ],
                broker_datas=[BrokerData(cluster="C", broker_name="broker-a", broker_addrs={0: ADDRESS})],
            )
        ),
    )
    async with admin_of(broker) as admin:
        text = (
            "of a topic that has as many read queues as write queues, not to start; stop the clients first$"
        )
        with pytest.raises(OnlineResetUnsupported, match=text):
            await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("start"))
        broker.config = b"useServerSideResetOffset=true\n"
        plan = await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("start"))
    assert [one.new for one in plan.queues] == [LOW, LOW]


async def test_new_broker_moves_single_queues_of_running_consumers(
    broker: Broker, autojump_clock: Any
) -> None:
    broker.clients, broker.config = ["c1"], b"brokerName=broker-a\nuseServerSideResetOffset=true\n"
    broker.server.replies[RequestCode.GET_CONSUMER_RUNNING_INFO] = lambda command: command.reply(
        0, None, None, running(broker.offsets)
    )
    async with admin_of(broker) as admin:
        plan = await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("shift", -5), queue_id=1)
        result = await admin.offsets.reset(plan)
    assert result.complete
    assert [(queue.found, queue.client) for queue in result.queues] == [(55, "c1")]
    assert broker.offsets == {0: 50, 1: 55}
    assert [(reset.queue_id, reset.offset) for reset in broker.resets()] == [(1, 55)]


def running(offsets: dict[int, int]) -> bytes:
    """The running info of a client that has the queues at these offsets."""
    table = {
        MessageQueue(TOPIC, "broker-a", number): ProcessQueueInfo(commit_offset=offset)
        for number, offset in offsets.items()
    }
    return encode_body(ConsumerRunningInfo(mq_table=table))


@pytest.mark.parametrize(
    ("code", "body", "seen"),
    [
        (RequestCode.GET_CONSUMER_RUNNING_INFO, running({0: 50, 1: 60}), [(50, "c1"), (60, "c1")]),
        (
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            encode_body(GetConsumerStatusBody(consumer_table={"c1": {Q0: 50}})),
            [(50, "c1"), (LOW, None)],
        ),
    ],
    ids=["it reports its queues", "it reports one offset"],
)
async def test_what_a_new_broker_writes_is_no_move_of_its_clients(
    broker: Broker, code: RequestCode, body: bytes, seen: list[Any], autojump_clock: Any
) -> None:
    broker.clients, broker.config = ["c1"], b"useServerSideResetOffset=true\n"
    broker.server.replies[code] = ok(None, body)
    async with admin_of(broker) as admin:
        plan = await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("start"))
        result = await admin.offsets.reset(plan, settle=5)
    assert broker.offsets == {0: LOW, 1: LOW}
    assert [(queue.found, queue.client) for queue in result.queues] == seen
    assert not any(queue.confirmed for queue in result.queues)


async def test_clients_that_pop_hold_no_queue_and_overwrite_nothing(
    broker: Broker, autojump_clock: Any
) -> None:
    broker.clients, broker.config = ["c1"], b"useServerSideResetOffset=true\n"
    body = encode_body(ConsumerRunningInfo(mq_table={}))
    broker.server.replies[RequestCode.GET_CONSUMER_RUNNING_INFO] = ok(None, body)
    async with admin_of(broker) as admin:
        plan = await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("start"))
        result = await admin.offsets.reset(plan, settle=5)
    assert (plan.online, result.complete, trio.current_time()) == (True, True, 0)


async def test_queues_at_the_new_offset_are_left_alone(broker: Broker, autojump_clock: Any) -> None:
    async with admin_of(broker) as admin:
        some = await admin.offsets.reset(
            await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("offset", 60))
        )
        none = await admin.offsets.reset(
            await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("offset", 60))
        )
    assert [queue.queue for queue in some.queues] == [Q0]
    assert (none.queues, none.complete) == ((), True)
    assert broker.server.count(RequestCode.UPDATE_CONSUMER_OFFSET) == 1


async def test_a_group_without_offsets_has_none_even_where_a_broker_answers_0(
    broker: Broker, autojump_clock: Any
) -> None:
    broker.offsets = {0: 0, 1: 0}
    stats = ConsumeStats(offset_table={})
    broker.server.replies[RequestCode.GET_CONSUME_STATS] = lambda command: command.reply(
        0, None, None, encode_body(stats)
    )
    async with admin_of(broker) as admin:
        before = await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("start"))
        stats = ConsumeStats(offset_table={Q0: OffsetWrapper(broker_offset=HIGH, consumer_offset=0)})
        after = await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("start"))
    assert [reset.old for reset in before.queues] == [None, None]
    assert [reset.old for reset in after.queues] == [0, 0]
    queries = [c for c in broker.server.asked if c.code == RequestCode.QUERY_CONSUMER_OFFSET]
    assert {(c.ext_fields or {})["setZeroIfNotFound"] for c in queries} == {"false"}


async def test_queue_without_an_offset_does_not_stop_the_reset_of_the_others(
    broker: Broker, autojump_clock: Any
) -> None:
    broker.clients = ["c1"]
    del broker.offsets[1]
    async with admin_of(broker) as admin:
        result = await admin.offsets.reset(await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("start")))
    assert result.complete
    assert broker.offsets == {0: 10, 1: 10}


async def test_refused_reset_is_reported_by_queue(broker: Broker, autojump_clock: Any) -> None:
    broker.clients = ["c1"]
    broker.server.replies[RequestCode.INVOKE_BROKER_TO_RESET_OFFSET] = refuse(1, "the client is too old")
    async with admin_of(broker) as admin:
        result = await admin.offsets.reset(await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("start")))
    assert not result.complete
    assert all("the client is too old" in str(queue.error) for queue in result.queues)


async def test_clients_of_another_topic_do_not_count(broker: Broker, autojump_clock: Any) -> None:
    connection = ConsumerConnection(
        connection_set=[ClientConnection(client_id="c1")],
        subscription_table={"Other": SubscriptionData(topic="Other", sub_string="*")},
    )
    broker.server.replies[RequestCode.GET_CONSUMER_CONNECTION_LIST] = ok(None, encode_body(connection))
    async with admin_of(broker) as admin:
        assert not (await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("start"))).online


async def test_clients_that_leave_between_plan_and_reset(broker: Broker, autojump_clock: Any) -> None:
    broker.clients = ["c1"]
    broker.server.replies[RequestCode.INVOKE_BROKER_TO_RESET_OFFSET] = refuse(206, "Consumer not online")
    async with admin_of(broker) as admin:
        result = await admin.offsets.reset(await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("end")))
    assert result.complete
    assert broker.offsets == {0: 110, 1: 110}


async def test_the_reply_proves_a_reset_of_clients_that_pop_and_report_no_queues(
    broker: Broker, autojump_clock: Any
) -> None:
    """As those of gRPC: their broker refuses 307. They have consumed the messages again before anybody looks."""
    broker.clients, broker.config = ["c1"], b"useServerSideResetOffset=true\n"
    broker.consume_type = ConsumeType.CONSUME_POP

    def consumed_at_once(command: RemotingCommand) -> RemotingCommand:
        reply = broker.reset(command)
        broker.offsets = {0: HIGH, 1: HIGH}
        return reply

    broker.server.replies[RequestCode.INVOKE_BROKER_TO_RESET_OFFSET] = consumed_at_once
    async with admin_of(broker) as admin:
        plan = await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("start"))
        result = await admin.offsets.reset(plan)
    assert (plan.online, result.complete, trio.current_time()) == (True, True, 0)
    assert [queue.found for queue in result.queues] == [HIGH, HIGH]
