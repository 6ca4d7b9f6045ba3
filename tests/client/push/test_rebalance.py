"""Members join, leave and vanish: at every quiet point each queue has exactly one owner."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
import trio

from rmqcli.client import (
    ConsumeContext,
    ConsumeResult,
    InvalidRequest,
    NoNameServer,
    OrderlyResult,
    PushConsumer,
)
from rmqcli.client.group.allocation import averagely_by_circle
from rmqcli.codec.bodies.heartbeat import MessageModel
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.message import MessageExt
from tests.client.push.consuming import DONE, GROUP, TOPIC, Taken, consumer
from tests.client.watched_cluster import WatchedCluster, open_cluster
from tests.seeds import times


class Member:
    """A consumer in a task of its own, until it leaves or is cancelled."""

    def __init__(self, made: PushConsumer) -> None:
        self.consumer = made
        self.ready = trio.Event()
        self.leave = trio.Event()
        self.left = trio.Event()
        self.scope = trio.CancelScope()

    async def run(self) -> None:
        with self.scope:
            async with self.consumer:
                self.ready.set()
                await self.leave.wait()
        self.left.set()


async def join(nursery: trio.Nursery, made: PushConsumer) -> Member:
    member = Member(made)
    nursery.start_soon(member.run)
    await member.ready.wait()
    return member


def owned(members: list[Member], topic: str = TOPIC) -> list[list[int]]:
    return [[q.queue_id for q in m.consumer.queues if q.topic == topic] for m in members]


async def test_the_first_member_has_all_queues_at_once(cluster: WatchedCluster, autojump_clock: Any) -> None:
    async with consumer(cluster, Taken()) as alone:
        await trio.sleep(0.5)
        assert [(q.topic, q.queue_id) for q in alone.queues] == [
            (f"%RETRY%{GROUP}", 0),
            *[(TOPIC, number) for number in range(4)],
        ]
        asked = [command.code for _, command in cluster.asked]
        first = {code: asked.index(code) for code in set(asked)}
        assert (
            first[RequestCode.GET_ROUTEINFO_BY_TOPIC]
            < first[RequestCode.HEART_BEAT]
            < first[RequestCode.GET_CONSUMER_LIST_BY_GROUP]
            < first[RequestCode.QUERY_CONSUMER_OFFSET]
            < first[RequestCode.PULL_MESSAGE]
        )


async def test_a_second_member_takes_its_share_within_seconds(
    cluster: WatchedCluster, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    members = [await join(nursery, consumer(cluster, Taken(), f"c{number}")) for number in (1, 2)]
    await trio.sleep(3)
    assert owned(members) == [[0, 1], [2, 3]]
    members[0].leave.set()
    await trio.sleep(3)
    assert owned(members[1:]) == [[0, 1, 2, 3]]
    members[1].scope.cancel()
    await members[1].left.wait()
    assert not cluster.members(GROUP)


async def test_another_strategy(cluster: WatchedCluster, nursery: trio.Nursery, autojump_clock: Any) -> None:
    members = [
        await join(nursery, consumer(cluster, Taken(), f"c{number}", allocate=averagely_by_circle))
        for number in (1, 2)
    ]
    await trio.sleep(3)
    assert owned(members) == [[0, 2], [1, 3]]
    nursery.cancel_scope.cancel()


async def test_a_lost_notification_costs_20_seconds(autojump_clock: Any) -> None:
    async with (
        open_cluster({TOPIC: 4}, notify_consumer_ids_changed_enable=False) as cluster,
        trio.open_nursery() as nursery,
    ):
        members = [await join(nursery, consumer(cluster, Taken(), "c1"))]
        await trio.sleep(10)
        members.append(await join(nursery, consumer(cluster, Taken(), "c2")))
        await trio.sleep(5)
        assert owned(members) == [[0, 1, 2, 3], [2, 3]]
        await trio.sleep(15)
        assert owned(members) == [[0, 1], [2, 3]]
        nursery.cancel_scope.cancel()


async def test_broadcasting_members_all_have_all_queues(
    cluster: WatchedCluster, nursery: trio.Nursery, autojump_clock: Any, tmp_path: Any
) -> None:
    settings = {"message_model": MessageModel.BROADCASTING, "offsets_folder": tmp_path}
    takers = [Taken(), Taken()]
    members = [
        await join(nursery, consumer(cluster, taken, f"c{number}", **settings))
        for number, taken in enumerate(takers)
    ]
    cluster.put(cluster.queue(TOPIC, 3), b"x")
    await trio.sleep(3)
    assert owned(members) == [[0, 1, 2, 3]] * 2
    assert [taken.bodies for taken in takers] == [[b"x"], [b"x"]]
    assert not cluster.count(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
    nursery.cancel_scope.cancel()


async def test_a_released_queue_waits_for_its_listener_and_is_stored(
    cluster: WatchedCluster, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    for number in range(4):
        cluster.put(cluster.queue(TOPIC, number), b"%d" % number)
    counts = Counter[bytes]()

    async def half_a_second(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        await trio.sleep(0.5)
        counts[messages[0].body] += 1
        return DONE

    first = await join(nursery, consumer(cluster, half_a_second, "c1"))
    second = await join(nursery, consumer(cluster, half_a_second, "c2"))
    await trio.sleep(5)
    assert sum(counts.values()) >= 4
    assert set(counts) == {b"0", b"1", b"2", b"3"}
    first.leave.set()
    second.leave.set()
    await first.left.wait()
    await second.left.wait()
    assert cluster.committed(GROUP, TOPIC) == {0: 1, 1: 1, 2: 1, 3: 1}
    nursery.cancel_scope.cancel()


async def test_brokers_that_restart_find_the_group_again(
    cluster: WatchedCluster, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    takers = [Taken(), Taken()]
    members = [
        await join(nursery, consumer(cluster, taken, f"c{number}")) for number, taken in enumerate(takers)
    ]
    await trio.sleep(30)
    cluster.cut()
    await trio.sleep(60)
    for number in range(40):
        cluster.put(cluster.queue(TOPIC, number % 4), b"%d" % number)
    await trio.sleep(60)
    assert sorted(map(int, takers[0].bodies + takers[1].bodies)) == list(range(40))
    assert owned(members) == [[0, 1], [2, 3]]
    nursery.cancel_scope.cancel()


async def test_a_group_lives_once_in_an_instance(cluster: WatchedCluster, autojump_clock: Any) -> None:
    async with consumer(cluster, Taken()) as first:
        with pytest.raises(InvalidRequest, match="already"):
            async with consumer(cluster, Taken(), instance=first.instance):
                pytest.fail("a second consumer of the group")
        await trio.sleep(1)
        assert len(first.queues) == 5


async def test_no_name_server_is_said_at_the_start(cluster: WatchedCluster, autojump_clock: Any) -> None:
    async def refuse(host: str, port: int) -> Any:
        raise ConnectionRefusedError(111, "Connection refused")

    cluster.open_stream = refuse
    with pytest.raises(NoNameServer):
        async with consumer(cluster, Taken()):
            pytest.fail("entered")


@pytest.mark.parametrize("orderly", [False, True])
async def test_hours_of_joins_and_leaves(nursery: trio.Nursery, autojump_clock: Any, orderly: bool) -> None:
    """Every 10 to 20 minutes a member joins, leaves or is cancelled, then two minutes are quiet."""
    rng, counts, sent, hours = random.Random(7), Counter[bytes](), 0, 1.5 * times(1)

    async def listener(messages: list[MessageExt], context: Any) -> Any:
        counts[messages[0].body] += 1
        return OrderlyResult.SUCCESS if orderly else DONE

    def fresh(number: int) -> PushConsumer:
        return consumer(
            cluster,
            listener,
            f"c{number:03}",
            orderly=orderly,
            long_poll=rng.uniform(60, 110),
            pull_timeout=115.0,
            persist_interval=rng.uniform(5, 60),
        )

    async with open_cluster({TOPIC: 4}, long=True) as cluster:
        members = [await join(nursery, fresh(0))]
        number = 0
        while trio.current_time() < hours * 3600:
            if len(members) < rng.choice((2, 2, 3, 4)):
                number += 1
                members.append(await join(nursery, fresh(number)))
            else:
                gone = members.pop(rng.randrange(len(members)))
                if rng.random() < 0.5:
                    gone.leave.set()
                else:
                    gone.scope.cancel()
                await gone.left.wait()
            for _ in range(8):
                cluster.put(cluster.queue(TOPIC, rng.randrange(4)), b"%d" % sent)
                sent += 1
            await trio.sleep(120)
            queues = sorted(q for m in members for q in m.consumer.queues)
            assert [q.queue_id for q in queues if q.topic == TOPIC] == [0, 1, 2, 3]
            assert sorted(counts) == sorted(b"%d" % n for n in range(sent))
            await trio.sleep(rng.uniform(480, 1080))
        assert number >= hours
        for member in members:
            member.scope.cancel()
            await member.left.wait()


async def test_an_empty_member_list_releases_no_queue(cluster: WatchedCluster, autojump_clock: Any) -> None:
    """Java's strategies refuse an empty list, and the queues stay."""
    async with consumer(cluster, Taken()) as member:
        await trio.sleep(1)
        before = member.queues
        cluster.trouble[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda command: command.reply(
            0, None, None, b'{"consumerIdList":[]}'
        )
        await trio.sleep(60)
        assert member.queues == before
    assert len(before) == 5


async def test_a_strategy_that_fails_leaves_the_queues_where_they_are(
    cluster: WatchedCluster, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    fails = False

    def allocate(client: str, queues: Any, clients: Any) -> Any:
        if fails:
            raise KeyError("no such room")
        return list(queues)

    async with consumer(cluster, Taken(), allocate=allocate) as running:
        await trio.sleep(1)
        before, fails = running.queues, True
        await trio.sleep(60)
        assert running.queues == before
    assert "cannot be allocated" in caplog.text


async def test_topics_may_be_added_changed_and_given_up(cluster: WatchedCluster, autojump_clock: Any) -> None:
    cluster.create_topic("Other", 2)
    for tag in ("A", "B"):
        cluster.put(cluster.queue("Other"), tag.encode(), {"TAGS": tag})
    taken = Taken()
    async with consumer(cluster, taken) as running:
        await trio.sleep(1)
        await running.subscribe("Other", "A")
        await trio.sleep(2)
        assert taken.bodies == [b"A"]
        await running.subscribe("Other", "B")
        cluster.put(cluster.queue("Other"), b"B2", {"TAGS": "B"})
        await trio.sleep(16)  # a broker holds the pull with the old expression for 15 s
        assert taken.bodies == [b"A", b"B2"]
        await running.unsubscribe("Other")
        await trio.sleep(2)
        assert {q.topic for q in running.queues} == {TOPIC, f"%RETRY%{GROUP}"}
        assert cluster.committed(GROUP, "Other")[0] == 3


async def test_a_topic_that_comes_later(cluster: WatchedCluster, autojump_clock: Any) -> None:
    """The consumer looks for it every second, and no longer once it exists."""
    taken = Taken()
    async with consumer(cluster, taken, topics={"Later": "*"}):
        await trio.sleep(50.5)
        cluster.create_topic("Later", 1)
        cluster.put(cluster.queue("Later"), b"x")
        await trio.sleep(1)
        assert taken.bodies == [b"x"]
        looks = cluster.count(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        await trio.sleep(5)
        assert cluster.count(RequestCode.GET_ROUTEINFO_BY_TOPIC) == looks
