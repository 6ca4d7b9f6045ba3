"""Delayed messages: their time, their content, and a restart before they are due."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from rmqcli.broker.store import StoreMessage
from rmqcli.broker.store.values import AppendResult, PutStatus
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.store.delay_levels import DEFAULT_DELAY_LEVELS, DelayLevels
from tests.broker.support import OWN, START_MS, fake_broker, pull_header, virtual_now


async def test_a_delayed_message_is_delivered_when_due(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        reply = await client.send(
            "T", b"later", queue_id=3, properties={"DELAY": "2", "WAIT": "true", "TAGS": "A"}
        )
        assert (reply.code, reply.ext["queueId"], reply.ext["queueOffset"]) == (0, "3", "0")
        pull = client.post(11, pull_header("T", 3, 0, sys_flag=6, suspend_ms=60_000, expression="A"))
        start = trio.current_time()
        assert (await client.wait(pull)).code == 0
        assert trio.current_time() - start == pytest.approx(5, abs=0.05)
        (message,) = await client.pulled("T", 3)
        assert message.body == b"later"
        assert message.properties == {
            "DELAY": "2",
            "WAIT": "true",
            "TAGS": "A",
            **OWN,
            "REAL_TOPIC": "T",
            "REAL_QID": "3",
        }
        (parked,) = await client.pulled("SCHEDULE_TOPIC_XXXX", 1)
        assert parked.properties == message.properties


async def test_a_clock_that_is_set_back_delays_nothing(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    """A message that would wait longer than its level is delivered now, as in Java."""
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("T", properties={"DELAY": "3"})
        await trio.sleep(1)
        broker.context.now_ms = lambda: virtual_now() - 3_600_000
        await trio.sleep(5.1)
        assert len(await client.pulled("T")) == 1
        assert len(await client.pulled("SCHEDULE_TOPIC_XXXX", 2)) == 1


@pytest.mark.parametrize("name", ["DELAY", "TIMER_DELAY_SEC"])
async def test_a_slave_delivers_nothing(tmp_path: Path, autojump_clock: trio.abc.Clock, name: str) -> None:
    async with fake_broker(tmp_path) as broker:
        client, master = broker.client(), broker.context.config
        await client.send("T", properties={name: "1"})
        broker.context.reconfigure(replace(master, broker_role="SLAVE", broker_id=1))
        await trio.sleep(60)
        assert await client.pulled("T") == []
        broker.context.reconfigure(master)
        await trio.sleep(5.1)
        assert len(await client.pulled("T")) == 1


@pytest.mark.parametrize("counted", [True, False])
async def test_deliveries_are_counted(tmp_path: Path, autojump_clock: trio.abc.Clock, counted: bool) -> None:
    async with fake_broker(tmp_path, enable_schedule_message_stats=counted) as broker:
        client = broker.client()
        for _ in range(3):
            await client.send("T", properties={"DELAY": "2"})
        await trio.sleep(5.1)
        assert len(await client.pulled("T")) == 3
        assert broker.context.rates.put_messages == 6, "into the schedule topic, and out of it"
        statistics = broker.context.statistics
        levels = {key: cell.nums for key, cell in statistics.gets.items() if key[2] == "SCHEDULE_CONSUMER"}
        assert levels == ({("SCHEDULE_TOPIC_XXXX", 1, "SCHEDULE_CONSUMER"): 3} if counted else {})
        assert sum(cell.nums for (topic, _), cell in statistics.puts.items() if topic == "T") == 3 * counted


@pytest.mark.parametrize(
    ("levels", "level", "stored", "seconds"),
    [
        (DEFAULT_DELAY_LEVELS, "1", "1", 1),
        (DEFAULT_DELAY_LEVELS, "18", "18", 7200),
        ("1s 5s 1m", "99", "3", 60),
    ],
    ids=["first", "last", "above"],
)
async def test_levels(
    tmp_path: Path, autojump_clock: trio.abc.Clock, levels: str, level: str, stored: str, seconds: int
) -> None:
    """A level above the highest is stored as the highest."""
    async with fake_broker(tmp_path, message_delay_level=levels) as broker:
        client = broker.client()
        await client.send("T", properties={"DELAY": level})
        await trio.sleep(seconds - 0.5)
        assert await client.pulled("T") == []
        await trio.sleep(1)
        (message,) = await client.pulled("T")
        assert message.properties["DELAY"] == stored


@pytest.mark.parametrize("level", ["0", "-3", "x", "9" * 20])
async def test_a_message_without_a_level_is_not_delayed(tmp_path: Path, level: str) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("T", properties={"DELAY": level})
        assert len(await client.pulled("T")) == 1


async def test_levels_are_configurable(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path, message_delay_level="2s 1m") as broker:
        client = broker.client()
        await client.send("T", b"last", properties={"DELAY": "9"})
        await client.send("T", b"first", properties={"DELAY": "1"})
        await trio.sleep(2.1)
        assert [m.body for m in await client.pulled("T")] == [b"first"]
        await trio.sleep(58)
        assert [m.body for m in await client.pulled("T")] == [b"first", b"last"]


async def test_messages_of_one_level_are_delivered_in_order(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        for n in range(200):
            await client.send("T", str(n).encode(), properties={"DELAY": "1"})
        await trio.sleep(1.1)
        bodies = [m.body for offset in range(0, 200, 32) for m in await client.pulled("T", 0, offset)]
        assert bodies == [str(n).encode() for n in range(200)]


async def test_a_restart_loses_and_repeats_nothing(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("T", b"soon", properties={"DELAY": "1"})
        await client.send("T", b"late", properties={"DELAY": "3"})
        await trio.sleep(2)
    saved = (tmp_path / "config" / "delayOffset.json").read_text()
    assert saved == '{\n\t"offsetTable":{1:1\n\t}\n}'
    await trio.sleep(100)
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await trio.sleep(0.1)
        assert [m.body for m in await client.pulled("T")] == [b"soon", b"late"]
        assert json.loads(
            (await client.ask(45)).body.replace(b"{1:", b'{"1":').replace(b",3:", b',"3":')
        ) == {"offsetTable": {"1": 1, "3": 1}}


async def test_offsets_outside_their_queue_are_corrected(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    config = tmp_path / "config"
    config.mkdir()
    (config / "delayOffset.json").write_text('{"offsetTable":{1:500}}')
    async with fake_broker(tmp_path) as broker:
        assert broker.context.delay_offsets.get(1) == 0
        client = broker.client()
        await client.send("T", properties={"DELAY": "1"})
        await trio.sleep(1.1)
        assert len(await client.pulled("T")) == 1


async def test_a_failed_delivery_is_retried(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("T", properties={"DELAY": "1"})
        broker.context.store.stats.set_disk(0.95, full=True)
        await trio.sleep(5)
        assert (await client.pull("T")).code == ResponseCode.PULL_NOT_FOUND
        broker.context.store.stats.set_disk(0.5, full=False)
        await trio.sleep(1.1)
        assert len(await client.pulled("T")) == 1


async def test_a_delay_is_refused_when_its_properties_do_not_fit(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        reply = await broker.client().send("T", properties={"DELAY": "1", "a": "x" * 32_720})
        assert reply.code == ResponseCode.MESSAGE_ILLEGAL


@pytest.mark.parametrize("text", ["", "1", "s", "1x", "-1s", "1s,2s"])
def test_bad_level_tables(text: str) -> None:
    with pytest.raises(ValueError, match="messageDelayLevel"):
        DelayLevels(text)


async def test_a_message_that_cannot_be_delivered_does_not_block_others(
    tmp_path: Path, autojump_clock: trio.abc.Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        store = broker.context.store
        nowhere: tuple[dict[str, str], ...] = ({}, {"REAL_TOPIC": "T"}, {"REAL_TOPIC": "T", "REAL_QID": "x"})
        never = ({"REAL_TOPIC": "t" * 128, "REAL_QID": "0"}, {"REAL_TOPIC": "../T", "REAL_QID": "0"})
        for properties in (*nowhere, *never, {"REAL_TOPIC": "T", "REAL_QID": "9" * 10}):
            stray = {"DELAY": "1", **properties}
            store.writer.append(
                StoreMessage(
                    topic="SCHEDULE_TOPIC_XXXX",
                    queue_id=0,
                    body=b"stray",
                    properties=stray,
                    properties_text=encode_properties(stray),
                    born_timestamp=START_MS,
                    born_host=broker.context.store_host,
                )
            )
        await client.send("T", b"good", properties={"DELAY": "1"})
        await trio.sleep(1.1)
        assert [m.body for m in await client.pulled("T")] == [b"good"]
        assert caplog.text.count("names no topic") == 6


async def test_a_message_is_delivered_that_is_larger_than_others_may_be_now(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    """All of its level would wait behind it."""
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("T", bytes(2000), properties={"DELAY": "1"})
        broker.context.reconfigure(replace(broker.context.config, max_message_size=1000))
        await client.send("T", b"next", properties={"DELAY": "1"})
        await trio.sleep(1.1)
        assert [len(message.body) for message in await client.pulled("T")] == [2000, 4]


async def test_a_message_that_the_store_refuses_is_logged_once_and_waits(
    tmp_path: Path,
    autojump_clock: trio.abc.Clock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with fake_broker(tmp_path) as broker:
        client, store = broker.client(), broker.context.store
        await client.send("T", properties={"DELAY": "1"})
        with monkeypatch.context() as patched:
            refused = AppendResult(PutStatus.SERVICE_NOT_AVAILABLE)
            patched.setattr(store.writer, "append", lambda _message: refused)
            await trio.sleep(10)
        assert caplog.text.count("level 1 waits for the message at ") == 1
        assert "SERVICE_NOT_AVAILABLE" in caplog.text
        await trio.sleep(1.1)
        assert len(await client.pulled("T")) == 1


async def test_messages_of_a_level_that_no_longer_exists_are_logged(
    tmp_path: Path, autojump_clock: trio.abc.Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async with fake_broker(tmp_path, message_delay_level="1s 1s 1s") as broker:
        for level in ("2", "3", "3"):
            await broker.client().send("T", properties={"DELAY": level})
    async with fake_broker(tmp_path, message_delay_level="1s 1s"):
        assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
            "messageDelayLevel has no level 3: 2 messages of it are not delivered"
        ]
