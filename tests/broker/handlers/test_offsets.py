"""Offsets of groups and queues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from codec.bodies.base import decode_body
from codec.bodies.offsets import ConsumerOffsetSerializeWrapper
from tests.broker.support import START_MS, Client, fake_broker


def queue(topic: str = "T", queue_id: int = 0, **fields: object) -> dict[str, str]:
    return {"topic": topic, "queueId": str(queue_id)} | {name: str(value) for name, value in fields.items()}


async def committed(client: Client, group: str = "G", **fields: Any) -> tuple[int, str | None]:
    reply = await client.ask(14, queue(consumerGroup=group, **fields))
    return reply.code, reply.ext.get("offset")


async def test_committed_offsets(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        assert await committed(client) == (0, "0"), (
            "a new group starts at 0 while the first message is in memory"
        )
        assert await committed(client, setZeroIfNotFound="false") == (22, None)
        reply = await client.ask(15, queue(consumerGroup="G", commitOffset=7))
        assert (reply.code, dict(reply.ext)) == (0, {})
        assert await committed(client) == (0, "7")
        await client.ask(15, queue(consumerGroup="G", commitOffset=3))
        assert await committed(client) == (0, "3"), "a smaller offset is accepted"
        table = decode_body(ConsumerOffsetSerializeWrapper, (await client.ask(43)).body)
        assert table.offset_table == {"T@G": {0: 3}}


async def test_a_new_group_of_an_old_queue_is_not_found(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, access_message_in_memory_max_ratio=0) as broker:
        client = broker.client()
        await client.send("T")
        reply = await client.ask(14, queue(consumerGroup="G"))
        assert reply.code == 22
        assert reply.remark == "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"


async def test_a_new_group_of_a_queue_whose_first_messages_are_gone_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("T")
        assert await committed(client, "New") == (0, "0")
        monkeypatch.setattr(broker.context.store, "min_offset", lambda topic, queue_id: 1)
        assert (await client.ask(14, queue(consumerGroup="New"))).code == 22


async def test_offsets_of_queues(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        for _ in range(4):
            await client.send("T")
            await trio.sleep(1)
        assert (await client.ask(30, queue())).ext == {"offset": "4"}
        assert (await client.ask(31, queue())).ext == {"offset": "0"}
        assert (await client.ask(30, queue("Unknown"))).ext == {"offset": "0"}
        assert (await client.ask(32, queue())).ext == {"timestamp": str(START_MS)}
        assert (await client.ask(32, queue("T", 1))).ext == {"timestamp": "-1"}
        assert (await client.ask(29, queue(timestamp=START_MS + 2000))).ext == {"offset": "2"}
        assert (await client.ask(29, queue(timestamp=START_MS + 99_000))).ext == {"offset": "3"}
        assert (await client.ask(29, queue("Unknown", timestamp=0))).ext == {"offset": "0"}
