"""Timers of 5.x clients: a delay level of the same length, or a refusal that names the property."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.message import Message
from rmqcli.codec.message_batch import encode_batch
from tests.broker.support import OWN, START_MS, fake_broker, long_header, send_header
from tests.broker.transactions.support import COMMIT, end, log, send_half

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
LEVELS = {"message_delay_level": "1s 5s 2m"}
REMEDY = ": timer messages are not served, use TIMER_DELAY_SEC with a delay of messageDelayLevel (1s 5s 2m)"


@pytest.mark.parametrize(
    ("timer", "level"),
    [
        ({"TIMER_DELAY_SEC": "5"}, 2),
        ({"TIMER_DELAY_SEC": "120"}, 3),
        ({"TIMER_DELAY_MS": "1000"}, 1),
        ({"TIMER_DELAY_SEC": "1", "TIMER_DELAY_MS": "7", "TIMER_DELIVER_MS": "x"}, 1),
        ({"TIMER_DELAY_MS": "5000", "TIMER_DELIVER_MS": str(START_MS * 2)}, 2),
        ({"TIMER_DELIVER_MS": "x", "DELAY": "2"}, 2),
    ],
)
@pytest.mark.parametrize("code", [10, 310])
async def test_a_delay_of_a_level_becomes_that_level(
    tmp_path: Path, timer: dict[str, str], level: int, code: int
) -> None:
    async with fake_broker(tmp_path, **LEVELS) as broker:
        client = broker.client()
        header = send_header("T", {"KEYS": "k", **timer})
        assert (await client.ask(code, long_header(header) if code == 10 else header, b"late")).code == 0
        assert await client.pulled("T") == []
        (waiting,) = await client.pulled(SCHEDULE, level - 1)
        assert waiting.properties == {
            "KEYS": "k",
            "DELAY": str(level),
            **OWN,
            "REAL_TOPIC": "T",
            "REAL_QID": "0",
        }


@pytest.mark.parametrize(
    "timer",
    [
        {"TIMER_DELAY_SEC": "0"},
        {"TIMER_DELAY_MS": "-1000"},
        {"TIMER_DELIVER_MS": str(START_MS - 1)},
        {"TIMER_DELAY_SEC": "7", "TIMER_OUT_MS": str(START_MS)},
    ],
)
async def test_a_time_that_has_passed_is_no_delay(tmp_path: Path, timer: dict[str, str]) -> None:
    async with fake_broker(tmp_path, **LEVELS) as broker:
        client = broker.client()
        assert (await client.send("T", properties=timer)).code == 0
        (message,) = await client.pulled("T")
        assert message.properties == {**timer, **OWN}


@pytest.mark.parametrize(
    ("timer", "remark"),
    [
        (
            {"TIMER_DELAY_SEC": "7"},
            "the property TIMER_DELAY_SEC=7 asks for a delay that is no delay level" + REMEDY,
        ),
        (
            {"TIMER_DELAY_MS": "5001"},
            "the property TIMER_DELAY_MS=5001 asks for a delay that is no delay level" + REMEDY,
        ),
        (
            {"TIMER_DELIVER_MS": str(START_MS * 2)},
            f"the property TIMER_DELIVER_MS={START_MS * 2} asks for a time to deliver at" + REMEDY,
        ),
        ({"TIMER_DELAY_SEC": "5 s"}, "the property TIMER_DELAY_SEC is not a number: 5 s"),
        (
            {"TIMER_DELAY_SEC": "5", "TIMER_DEL_UNIQKEY": "T+0A"},
            "the property TIMER_DEL_UNIQKEY recalls a timer message, and none is served",
        ),
    ],
)
async def test_other_timers_are_refused(tmp_path: Path, timer: dict[str, str], remark: str) -> None:
    async with fake_broker(tmp_path, **LEVELS) as broker:
        client = broker.client()
        for topic, queue_id in (("T", 0), ("T", -1), ("%RETRY%G", 0)):
            reply = await client.send(topic, properties=timer, queue_id=queue_id, reconsume_times=0)
            assert (reply.code, reply.remark) == (ResponseCode.MESSAGE_ILLEGAL, remark)
        assert (await send_half(client, properties=timer)).code == ResponseCode.MESSAGE_ILLEGAL
        assert log(broker.context.store) == []


async def test_a_half_message_is_delayed_from_its_commit_on(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path, **LEVELS) as broker:
        client = broker.client()
        half = await send_half(client, properties={"TIMER_DELAY_SEC": "120"})
        assert half.code == 0
        await trio.sleep(3)
        await end(client, half, COMMIT)
        await trio.sleep(119)
        assert await client.pulled("T", 2) == []
        await trio.sleep(2)
        (message,) = await client.pulled("T", 2)
        assert message.body == b"half"


@pytest.mark.parametrize("common", [{}, {"TIMER_DELIVER_MS": "1"}])
async def test_no_message_of_a_batch_has_a_timer(tmp_path: Path, common: dict[str, str]) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        own = {} if common else {"TIMER_DELIVER_MS": "1"}
        body = encode_batch([Message.of("T", "one"), Message.of("T", "two", properties=own)])
        reply = await client.send("T", body, code=320, batch=True, properties=common)
        text = "a message of a batch has the property TIMER_DELIVER_MS: send it alone"
        assert (reply.code, reply.remark) == (ResponseCode.MESSAGE_ILLEGAL, text)
        assert await client.pulled("T") == []


async def test_a_message_that_comes_back_has_its_timer_no_more(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.heartbeat("G", "T")
        await client.send("T", properties={"TIMER_DELIVER_MS": "1", "KEYS": "k"})
        (original,) = await client.pulled("T")
        back = {"offset": str(original.commit_log_offset), "group": "G", "delayLevel": "1"}
        assert (await client.ask(36, back)).code == 0
        await trio.sleep(1.1)
        (retried,) = await client.pulled("%RETRY%G")
        assert (retried.keys, retried.properties.get("TIMER_DELIVER_MS")) == (["k"], None)
