"""The measures on a cluster in memory of two brokers, one of which is lost; on the virtual clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rmqcli.broker.testing.in_memory import LOST, Lost, MemoryCluster, embedded_in_memory
from rmqcli.client import (
    Admin,
    ConsumeResult,
    GroupNotFound,
    NotFound,
    Producer,
    PushConsumer,
    PushSettings,
)
from rmqcli.client.admin.values import BrokerSummary
from rmqcli.codec.bodies.heartbeat import ConsumeFromWhere, MessageModel
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.doctor.survey import LostBroker
from rmqcli.monitor import measures
from rmqcli.monitor.verdict import Figure, Measured, State

LIMIT = 3.0


async def hang(messages: list[MessageExt], context: Any) -> ConsumeResult:
    await trio.sleep(3600)
    return ConsumeResult.SUCCESS


class Pair:
    """Two brokers with 3 messages of topic `orders` each; group `g` has consumed one of each."""

    def __init__(self, cluster: MemoryCluster, other: str, admin: Admin) -> None:
        self.cluster, self.other, self.admin = cluster, other, admin

    def lose_one(self) -> None:
        self.cluster.cut(self.other, 3600)

    async def timed(self, work: Any) -> Measured:
        """The result of a measure, which may take one time limit."""
        began = trio.current_time()
        found: Measured = await work
        assert trio.current_time() - began <= LIMIT + 1
        return found


@pytest.fixture
async def pair(autojump_clock: MockClock) -> AsyncIterator[Pair]:
    async with (
        embedded_in_memory() as cluster,
        cluster.broker(broker_name="broker-b") as other,
        Admin(**cluster.client() | {"timeout": LIMIT}) as admin,
    ):
        for topic in ("orders", "%DLQ%g"):
            await admin.topics.create(topic, read_queues=1, write_queues=1)
        async with Producer("p", **cluster.client()) as producer:
            for name in ("broker-a", "broker-b"):
                for topic, count in (("orders", 3), ("%DLQ%g", 2)):
                    for _ in range(count):
                        await producer.send(
                            Message(topic=topic, body=b"x"), queue=MessageQueue(topic, name, 0)
                        )
                await admin.offsets.commit(MessageQueue("orders", name, 0), 1, "g")
        yield Pair(cluster, other.broker_address, admin)


async def test_lag(autojump_clock: MockClock, pair: Pair) -> None:
    assert await measures.lag(pair.admin, ["g"]) == Measured([Figure(4, "g")])
    assert await measures.lag(pair.admin, ["g"], "orders") == Measured([Figure(4, "g")])
    assert Figure(4, "g") in (await measures.lag(pair.admin, ())).figures
    with pytest.raises(NotFound):
        await measures.lag(pair.admin, ["g"], "bills")
    with pytest.raises(GroupNotFound):
        await measures.lag(pair.admin, ["nobody"])
    mixed = await measures.lag(pair.admin, ["g", "nobody"])
    assert (list(mixed.figures), list(mixed.lost)) == ([Figure(4, "g")], ["nobody"])
    pair.lose_one()
    left = await pair.timed(measures.lag(pair.admin, ["g"]))
    assert (list(left.figures), list(left.lost)) == ([Figure(2, "g")], ["broker-b"])


async def test_an_offset_beyond_the_end_is_no_lag_of_zero(autojump_clock: MockClock, pair: Pair) -> None:
    await pair.admin.offsets.commit(MessageQueue("orders", "broker-a", 0), 99, "ahead")
    found = await measures.lag(pair.admin, ["g", "ahead"])
    assert found.lost == {"ahead": "lag unknown: offset beyond the end"}
    assert list(found.figures) == [Figure(4, "g")]


async def test_a_group_that_broadcasts_is_not_called_ok(autojump_clock: MockClock, pair: Pair) -> None:
    """Its clients keep their offsets: those of brokers are from another time."""
    settings = PushSettings(message_model=MessageModel.BROADCASTING)
    async with PushConsumer("g", {"orders": "*"}, hang, settings=settings, **pair.cluster.client()):
        await trio.sleep(20)
        for measure, what in ((measures.lag, "lag"), (measures.stuck, "progress")):
            found = await measure(pair.admin, ["g"])
            assert (list(found.figures), list(found.lost)) == ([], ["g"])
            assert found.lost["g"].startswith(f"{what} unknown: clients of a broadcasting group")
            of_all = await measure(pair.admin, ())
            assert "g" not in [figure.target for figure in of_all.figures] + list(of_all.lost)
            assert of_all.notes == (f"g: {found.lost['g']}",)


async def test_the_lag_of_topics_without_offsets(autojump_clock: MockClock) -> None:
    """A consumer that commits nothing, as one that hangs at its first messages, has all of them to consume."""

    async def forget(address: str, request: RemotingCommand) -> Lost | None:
        return LOST if request.code == RequestCode.UPDATE_CONSUMER_OFFSET else None

    settings = PushSettings(consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, grace=0.0)
    async with embedded_in_memory(on_request=forget) as cluster, Admin(**cluster.client()) as admin:
        async with Producer("p", **cluster.client()) as producer:
            for _ in range(6):
                await producer.send(Message(topic="orders", body=b"x"))
        async with PushConsumer("new", {"orders": "*"}, hang, settings=settings, **cluster.client()):
            await trio.sleep(60)
            assert await measures.lag(admin, ["new"]) == Measured([Figure(6, "new")])
            assert Figure(6, "new") in (await measures.lag(admin, ())).figures


async def test_brokers(autojump_clock: MockClock, pair: Pair) -> None:
    assert await measures.brokers(pair.admin) == Measured([Figure(0)], {}, counted=True)
    missing = await measures.brokers(pair.admin, 3)
    assert (missing.figures, missing.lost) == ([Figure(1)], {"": "2 of 3 brokers are registered"})
    gone = [LostBroker("broker-c", "c", "1:1", pair.admin.instance.now_ms() - 5000)]
    forgotten = await measures.brokers(pair.admin, 0, gone)
    said = "is no longer registered; 5 s ago it was, at 1:1"
    assert (forgotten.figures, forgotten.lost) == ([Figure(1)], {"broker-c": said})
    assert (await measures.brokers(pair.admin, 2, gone)).lost == {}
    assert (await measures.brokers(pair.admin, 3, gone)).figures == [Figure(1)]
    assert measures.with_gone(Measured([Figure(1)], {"x": "y"}), gone, 0).lost.keys() == {"x", "broker-c"}
    pair.lose_one()
    lost = await pair.timed(measures.brokers(pair.admin, 2))
    assert (lost.figures, list(lost.lost)) == ([Figure(1)], [f"broker-b {pair.other}"])


async def test_a_name_without_a_master_counts_as_lost() -> None:
    async def summaries() -> list[BrokerSummary]:
        return [BrokerSummary("c", "broker-a", 1, "1:1", {}), BrokerSummary("c", "broker-b", 0, "1:2", {})]

    admin: Any = SimpleNamespace(
        brokers=SimpleNamespace(summaries=summaries), instance=SimpleNamespace(now_ms=int)
    )
    found = await measures.brokers(admin)
    assert (found.figures, found.lost) == ([Figure(1)], {"broker-a": "has no master, only slaves are left"})
    gone = [LostBroker("broker-a", "c", "1:0", 0)]
    assert (await measures.brokers(admin, 0, gone)).figures == [Figure(1)]


async def test_the_disks_of_a_master_and_its_slave_are_two() -> None:
    async def summaries() -> list[BrokerSummary]:
        full, empty = {"commitLogDiskRatio": "0.95"}, {"commitLogDiskRatio": "0.05"}
        return [BrokerSummary("c", "a", 0, "1:1", full), BrokerSummary("c", "a", 1, "1:2", empty)]

    admin: Any = SimpleNamespace(brokers=SimpleNamespace(summaries=summaries))
    assert (await measures.disk(admin)).figures == [Figure(95, "a"), Figure(5, "a:1")]


async def test_disk(autojump_clock: MockClock, pair: Pair) -> None:
    assert [one.target for one in (await measures.disk(pair.admin)).figures] == ["broker-a", "broker-b"]
    assert [one.target for one in (await measures.disk(pair.admin, ["broker-b"])).figures] == ["broker-b"]
    with pytest.raises(NotFound):
        await measures.disk(pair.admin, ["broker-x"])
    pair.lose_one()
    left = await pair.timed(measures.disk(pair.admin))
    assert ([one.target for one in left.figures], list(left.lost)) == (["broker-a"], ["broker-b"])


async def test_dead_letters(autojump_clock: MockClock, pair: Pair) -> None:
    assert await measures.dlq(pair.admin) == Measured([Figure(4, "g")])
    with pytest.raises(GroupNotFound):
        await measures.dlq(pair.admin, ["nobody"])
    pair.lose_one()
    left = await pair.timed(measures.dlq(pair.admin, ["g"]))
    assert (list(left.figures), list(left.lost)) == ([Figure(2, "g")], ["broker-b"])


async def test_send(autojump_clock: MockClock, pair: Pair) -> None:
    found = await measures.send(pair.admin)
    assert ([one.target for one in found.figures], found.lost) == (["broker-a", "broker-b"], {})
    assert len((await measures.send(pair.admin, ["broker-a"], "orders")).figures) == 1
    with pytest.raises(NotFound):
        await measures.send(pair.admin, (), "nowhere")
    await pair.admin.topics.create("one", brokers=["broker-a"])
    assert (await measures.send(pair.admin, (), "one")).lost == {
        "broker-b": "has no queue that can be sent to"
    }
    pair.lose_one()
    left = await pair.timed(measures.send(pair.admin))
    assert ([one.target for one in left.figures], list(left.lost)) == (["broker-a"], ["broker-b"])
    assert measures.SEND.lost_state is measures.BROKERS.lost_state is State.CRITICAL
