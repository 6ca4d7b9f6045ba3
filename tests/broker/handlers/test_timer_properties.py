"""Timer properties of a message: what waits, until when, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.message import Message
from rmqcli.codec.message_batch import encode_batch
from tests.broker.support import OWN, START_MS, fake_broker, long_header, send_header
from tests.broker.transactions.support import COMMIT, end, log, send_half

TIMER_TOPIC = "rmq_sys_wheel_timer"
TOO_LONG = (
    "timer message illegal, the delay time should not be bigger than the max delay 259200000ms; or if set del "
    "msg, the delay time should be bigger than the current time"
)


@pytest.mark.parametrize(
    ("timer", "out"),
    [
        ({"TIMER_DELAY_SEC": "7"}, 6000),
        ({"TIMER_DELAY_MS": "5001"}, 5000),
        ({"TIMER_DELAY_MS": "1"}, 0),
        ({"TIMER_DELAY_MS": "+999"}, 0),
        ({"TIMER_DELAY_MS": "1000"}, 0),
        ({"TIMER_DELIVER_MS": str(START_MS + 1001)}, 1000),
        ({"TIMER_DELAY_SEC": "1", "TIMER_DELAY_MS": "7000", "TIMER_DELIVER_MS": "x"}, 0),
        ({"TIMER_DELAY_MS": "5000", "TIMER_DELIVER_MS": str(START_MS * 2)}, 4000),
        ({"TIMER_DELAY_SEC": "259200"}, 259_199_000),
    ],
)
@pytest.mark.parametrize("code", [10, 310])
async def test_a_message_waits_until_its_second_is_over(
    tmp_path: Path, autojump_clock: trio.abc.Clock, timer: dict[str, str], out: int, code: int
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        header = send_header("T", {"KEYS": "k", **timer}, queue_id=2)
        reply = await client.ask(code, long_header(header) if code == 10 else header, b"late")
        assert (reply.code, reply.ext["queueId"], reply.ext["queueOffset"]) == (0, "2", "0")
        assert await client.pulled("T", 2) == []
        (waiting,) = await client.pulled(TIMER_TOPIC)
        assert waiting.properties == {
            "KEYS": "k",
            **timer,
            **OWN,
            "TIMER_OUT_MS": str(START_MS + out),
            "REAL_TOPIC": "T",
            "REAL_QID": "2",
        }


@pytest.mark.parametrize("timer", [{"TIMER_DELIVER_MS": "x"}, {"TIMER_DELAY_SEC": "259201"}])
async def test_a_delay_level_takes_precedence(tmp_path: Path, timer: dict[str, str]) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        assert (await client.send("T", properties={"DELAY": "2", **timer})).code == 0
        (waiting,) = await client.pulled("SCHEDULE_TOPIC_XXXX", 1)
        assert waiting.properties == {"DELAY": "2", **OWN, "REAL_TOPIC": "T", "REAL_QID": "0"}


@pytest.mark.parametrize(
    "timer",
    [
        {"TIMER_DELAY_SEC": "0"},
        {"TIMER_DELAY_MS": "-1000"},
        {"TIMER_DELIVER_MS": str(START_MS)},
        {"TIMER_DELIVER_MS": "-1"},
        {"TIMER_DELAY_SEC": "7", "TIMER_OUT_MS": str(START_MS)},
    ],
)
async def test_a_time_that_has_passed_is_no_delay(
    tmp_path: Path, autojump_clock: trio.abc.Clock, timer: dict[str, str]
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        assert (await client.send("T", properties=timer)).code == 0
        (message,) = await client.pulled("T")
        assert message.properties == {**timer, **OWN}


@pytest.mark.parametrize(
    "timer",
    [
        {"TIMER_DELAY_SEC": "5 s"},
        {"TIMER_DELAY_SEC": "1.5"},
        {"TIMER_DELIVER_MS": "9" * 19},
        {"TIMER_DELIVER_MS": "9" * 20},
        {"TIMER_DELAY_SEC": "259201"},
        {"TIMER_DELAY_MS": "259200001"},
        {"TIMER_DELIVER_MS": str(START_MS + 259_200_001)},
        {"TIMER_DELAY_SEC": "-5", "TIMER_DEL_UNIQKEY": "T+0A"},
        {"TIMER_DELAY_SEC": "5", "TIMER_DEL_UNIQKEY": "Other+0A"},
    ],
)
async def test_other_timers_are_refused(
    tmp_path: Path, autojump_clock: trio.abc.Clock, timer: dict[str, str]
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        for queue_id in (0, -1):
            reply = await client.send("T", properties=timer, queue_id=queue_id)
            assert (reply.code, reply.remark) == (ResponseCode.MESSAGE_ILLEGAL, TOO_LONG)
        assert (await send_half(client, properties=timer)).code == ResponseCode.MESSAGE_ILLEGAL
        assert log(broker.context.store) == []


@pytest.mark.parametrize(
    ("settings", "remark"),
    [
        ({"timer_wheel_enable": False}, "accurate timer message is not enabled, timerWheelEnable is false"),
        (
            {"timer_congest_num_each_slot": 0},
            "timer message is under flow control, max num limit is 0",
        ),
    ],
)
async def test_no_message_is_dropped_that_finds_no_place(
    tmp_path: Path, settings: dict[str, int], remark: str, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path, **settings) as broker:
        client = broker.client()
        accepted = 0
        for _ in range(3):
            reply = await client.send("T", properties={"TIMER_DELIVER_MS": str(START_MS + 60_000)})
            accepted += reply.code == 0
            await trio.sleep(0.01)
        assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, remark)
        assert accepted == ("timer_congest_num_each_slot" in settings)
        await trio.sleep(61)
        assert len(await client.pulled("T")) == accepted


async def test_a_half_message_is_delayed_from_its_commit_on(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        half = await send_half(client, properties={"TIMER_DELAY_SEC": "120"})
        assert half.code == 0
        assert "recallHandle" not in half.ext
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
