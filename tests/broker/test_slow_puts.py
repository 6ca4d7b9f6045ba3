"""Whoever stores several messages stores each once, although the disk is needed before every one of them.

What one request stores is in `test_every_answer.py`.
"""

from __future__ import annotations

from pathlib import Path

import trio

from rmqcli.codec.codes import ResponseCode
from tests.broker.support import SlowPuts, fake_broker, pull_header
from tests.broker.transactions.support import (
    COMMIT,
    GIVEN_UP,
    HALF,
    OP,
    bodies,
    end_header,
    of_topic,
    producer,
    questions,
    send_half,
)

MINUTE = 60


async def test_an_end_that_writes_two_op_messages(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        sent = await send_half(client)
        await trio.sleep(MINUTE + 1)
        assert len(questions(client)) == 1
        SlowPuts(broker.context.store)
        header = end_header(0, int(sent.ext["msgId"][16:], 16), COMMIT)
        reply = await client.wait(await client.post_when_ready(37, header))
        assert reply.code == ResponseCode.SUCCESS
        assert bodies(broker) == [b"half"]
        assert bodies(broker, OP) == [b"0", b"1"]


async def test_checks(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path, transaction_check_max=1) as broker:
        client = await producer(broker)
        for body in (b"one", b"two", b"three"):
            await send_half(client, body)
        SlowPuts(broker.context.store)
        await trio.sleep(MINUTE + 1)
        assert len(questions(client)) == 3
        assert len(of_topic(broker, HALF)) == 6
        await trio.sleep(MINUTE)
        assert bodies(broker, GIVEN_UP) == [b"one", b"two", b"three"]


async def test_deliveries_of_a_level(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        for body in (b"one", b"two", b"three"):
            await client.send("T", body, properties={"DELAY": "1"})
        SlowPuts(broker.context.store)
        await trio.sleep(2)
        assert [message.body for message in await client.pulled("T")] == [b"one", b"two", b"three"]


async def test_a_pull_outside_its_queue(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("T")
        await client.heartbeat("G", "T")
        puts = SlowPuts(broker.context.store)
        reply = await client.wait(await client.post_when_ready(11, pull_header("T", 0, 99)))
        assert reply.code == ResponseCode.PULL_OFFSET_MOVED
        assert [topic for topic, _, _ in puts.stored] == ["OFFSET_MOVED_EVENT"]
