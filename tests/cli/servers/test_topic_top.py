"""`rmq topic top`: rates on a virtual clock, and the command on two brokers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import trio

from rmqcli import broker
from rmqcli.client import Admin, ConsumeResult, Producer, PullConsumer, PushConsumer, PushSettings
from rmqcli.codec.bodies.heartbeat import MessageModel
from rmqcli.codec.bodies.stats import BrokerStatsData, BrokerStatsItem
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.commands.common import watching
from rmqcli.plans.topics import rate_of, topic_rates, total_of
from tests.cli.conftest import Run


async def test_rates_and_totals(autojump_clock: Any) -> None:
    async with broker.embedded_in_memory() as cluster:
        async with Producer(**cluster.client()) as producer:
            for _ in range(5):
                for topic in ("busy", "busy", "calm"):
                    await producer.send(Message.of(topic, b"x"))
                await trio.sleep(10)
        async with PullConsumer("readers", **cluster.client()) as consumer:
            for queue in await consumer.message_queues("busy"):
                await consumer.pull(queue, 0)
                await consumer.commit(queue, 1)
        await trio.sleep(15)
        async with Admin(**cluster.client()) as admin:
            failures: Any = {}
            first, second = await topic_rates(admin, ["calm", "busy", "deleted"], failures)
    assert (first.topic, first.group, first.in_total, first.lag) == ("busy", "readers", 10, 6)
    assert 0.1 < first.in_tps < 0.3 and first.out_total == 10 and first.is_active
    assert second[:7] == ("calm", None, None, second.in_tps, None, 5, None)
    assert not failures


async def test_the_lag_of_a_broadcasting_group_is_unknown(autojump_clock: Any, tmp_path: Path) -> None:
    async def take(_messages: Any, _context: Any) -> ConsumeResult:
        return ConsumeResult.SUCCESS

    async with broker.embedded_in_memory() as cluster, Admin(**cluster.client()) as admin:
        async with Producer(**cluster.client()) as producer:
            await producer.send(Message.of("T", b"x"))
        settings = PushSettings(message_model=MessageModel.BROADCASTING, offsets_folder=tmp_path)
        async with PushConsumer("casters", {"T": "*"}, take, settings=settings, **cluster.client()):
            await trio.sleep(30)
            await admin.offsets.commit(MessageQueue("T", "broker-a", 0), 0, "casters")
            (online,) = await topic_rates(admin, ["T"], {})
    assert (online.group, online.lag) == ("casters", None)


def test_sums_of_brokers_of_any_age() -> None:
    old = BrokerStatsData(
        stats_minute=BrokerStatsItem(sum=1, tps=0.25),
        stats_hour=BrokerStatsItem(sum=10),
        stats_day=BrokerStatsItem(sum=100),
    )
    young = BrokerStatsData(stats_minute=BrokerStatsItem(sum=7, tps=0.5), stats_hour=BrokerStatsItem())
    assert (rate_of([old, young]), total_of([old, young])) == (0.75, 107)
    assert (rate_of([]), total_of([BrokerStatsData()])) == (0, 0)


def test_topics_with_and_without_groups(both: Run) -> None:
    for name in ("top_a", "top_b"):
        both("topic", "create", name, "--queues", "1")
    both("send", "top_a", "x", "-b", "broker-b")
    both("consume", "top_a", "-g", "top_readers", "--from", "start", "-c", "1")
    rows = {tuple(row[:2]): row for row in both("topic", "top", "top_b", "top_a").lines}
    assert set(rows) == {("top_a", "top_readers"), ("top_b", "")}
    assert rows["top_a", "top_readers"][2] == "0"
    assert rows["top_b", ""][2:] == ["", "0.0", "", "0", ""]
    everything = both("topic", "top", "--json").json
    assert {"top_a", "top_b"} <= {one["topic"] for one in everything}
    assert not any(one["topic"].startswith("%RETRY%") for one in everything)
    assert list(everything[0]) == ["topic", "group", "lag", "inTps", "outTps", "inTotal24h", "outTotal24h"]
    assert len(both("topic", "top", "-c", "1").lines) == 1
    assert both("topic", "top", "--active", "top_b").lines == []
    assert both("topic", "top", "no_such_topic").code == 4
    for name in ("top_a", "top_b"):
        both("topic", "delete", name, "--yes")


def test_a_broker_that_does_not_answer_is_named(half: Run, monkeypatch: Any) -> None:
    result = half("topic", "top", "DefaultCluster")
    assert (result.code, [row[0] for row in result.lines]) == (3, ["DefaultCluster"]), result.err
    assert result.err.startswith("rmq: broker-b: cannot connect to 127.0.0.2:")

    def stop(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(watching, "time", SimpleNamespace(sleep=stop))
    assert half("topic", "top", "--watch").code == 130
