"""GET_BROKER_RUNTIME_INFO and single statistic items: the broker about itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from rmqcli.broker.handlers.admin_broker import bytes_text
from rmqcli.codec.bodies.base import decode_body
from rmqcli.codec.bodies.route import KVTable
from rmqcli.codec.bodies.stats import BrokerStatsData
from rmqcli.codec.message import Message
from rmqcli.codec.message_batch import encode_batch
from tests.broker.support import START_MS, done, fake_broker


async def test_runtime_info_of_a_new_broker(tmp_path: Path) -> None:
    async with fake_broker(tmp_path / "new") as broker:
        table = decode_body(KVTable, (await broker.client().ask(28)).body).table
        assert table["msgPutTotalTodayNow"] == "0"
        assert table["earliestMessageTimeStamp"] == "-1"
        assert 0 < float(table["commitLogDiskRatio"]) < 1


@pytest.mark.parametrize(("role", "active"), [("ASYNC_MASTER", "true"), ("SLAVE", "false")])
async def test_what_tools_of_5x_read(tmp_path: Path, role: str, active: str) -> None:
    """`clusterList` of 5.3.3 shows a broker without these as not active, and its pools as N."""
    async with fake_broker(tmp_path, broker_role=role, broker_id=int(role == "SLAVE")) as broker:
        table = decode_body(KVTable, (await broker.client().ask(28)).body).table
        assert table["brokerActive"] == active
        for pool in ("litePullThreadPool", "ackThreadPool"):
            assert (table[f"{pool}QueueSize"], table[f"{pool}QueueHeadWaitTimeMills"]) == ("0", "0")


async def test_runtime_info(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        for _ in range(20):
            await client.send("T", properties={"DELAY": "1"})
            await trio.sleep(1)
        await trio.sleep(1.5)
        await client.pull("T")
        table = decode_body(KVTable, (await client.ask(28)).body).table
        assert table["msgPutTotalTodayNow"] == "40", "each is put twice, as in Java"
        assert table["msgGetTotalTodayNow"] == "20"
        assert float(table["putTps"].split(" ")[0]) == pytest.approx(1.9, abs=0.21)
        assert table["runtime"] == "[ 0 days, 0 hours, 0 minutes, 21 seconds ]"
        assert table["scheduleMessageOffset_1"] == "20,20"
        assert table["commitLogMaxOffset"] == str(broker.context.store.commit_log_max_offset)
        assert table["earliestMessageTimeStamp"] == str(START_MS)
        assert table["brokerVersionDesc"] == "V4_9_8"
        assert table["getTransferredTps"] == table["getTransferedTps"]
        assert table["putMessageDistributeTime"].startswith("[<=0ms]:0 [0~10ms]:0 ")
        assert (table["putLatency99"], table["putLatency999"]) == ("0.00", "0.00"), "no minute is over yet"
        assert table["getTotalTps"].endswith(" 0.0 0.0")
        assert table["commitLogDirCapacity"].startswith("Total : ")


async def test_runtime_info_knows_how_long_puts_and_pulls_took(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    ticks = iter([0.0, 0.0002, 1.0, 1.0071, 2.0, 2.0352, 3.0, 3.0041, 4.0, 4.0125])
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        broker.context.timer = lambda: next(ticks)
        await client.send("T")
        await client.send("T")
        assert [(await client.pull("T")).code, (await client.pull("T")).code] == [0, 0]
        broker.context.statistics.sample()
        latency = done(broker.context.statistics.item("GROUP_GET_LATENCY", "0@T@G"))
        assert latency is not None and latency.stats_minute is not None
        assert (latency.stats_minute.sum, latency.stats_minute.avgpt) == (39, 19.5)
        batch = encode_batch([Message.of("T", b"x") for _ in range(3)])
        assert (await client.send("T", batch, code=320, batch=True)).code == 0
        await trio.sleep(62)
        table = decode_body(KVTable, (await client.ask(28)).body).table
        assert table["putMessageDistributeTime"].startswith("[<=0ms]:1 [0~10ms]:1 [10~50ms]:1 ")
        assert (table["putMessageEntireTimeMax"], table["getMessageEntireTimeMax"]) == ("12", "35")
        assert (table["putLatency99"], table["putLatency999"]) == ("7.00", "7.00")
        for _ in range(62):
            await trio.sleep(1)
        table = decode_body(KVTable, (await client.ask(28)).body).table
        assert table["putMessageDistributeTime"].startswith("[<=0ms]:0 [0~10ms]:0 ")
        assert table["putMessageEntireTimeMax"] == "12"


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (3 << 29, "1.5 GiB"), (1 << 40, "1.0 TiB")],
)
def test_sizes_are_said_as_java_says_them(size: int, text: str) -> None:
    assert bytes_text(size) == text


async def test_one_statistic_item(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        for _ in range(6):
            await client.send("T")
            await trio.sleep(10)
        await trio.sleep(1)
        reply = await client.ask(315, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"})
        minute = decode_body(BrokerStatsData, reply.body).stats_minute
        assert minute is not None
        assert (minute.sum, minute.tps, minute.avgpt) == (6, 0.1, 1.0)
        queue = await client.ask(315, {"statsName": "QUEUE_PUT_NUMS", "statsKey": "T@0"})
        assert queue.code == 0
        assert (
            await client.ask(315, {"statsName": "BROKER_PUT_NUMS", "statsKey": "DefaultCluster"})
        ).code == 0
        await trio.sleep(120)
        again = await client.ask(315, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"})
        later = decode_body(BrokerStatsData, again.body).stats_minute
        assert later is not None
        assert later.sum == 0
        for name, key in (("TOPIC_PUT_NUMS", "None"), ("NOTHING", "T"), ("QUEUE_PUT_NUMS", "T@x")):
            unknown = await client.ask(315, {"statsName": name, "statsKey": key})
            assert (unknown.code, unknown.remark) == (1, f"The stats <{name}> <{key}> not exist")
