"""Offsets of groups and queues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from rmqcli.codec.bodies.base import decode_body
from rmqcli.codec.bodies.offsets import ConsumerOffsetSerializeWrapper
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
        assert (await client.ask(15, queue(consumerGroup="G", commitOffset=7))).code == 17
        broker.context.topics.ensure("T", 4)
        reply = await client.ask(15, queue(consumerGroup="G", commitOffset=7))
        assert (reply.code, dict(reply.ext)) == (0, {})
        assert await committed(client) == (0, "7")
        await client.ask(15, queue(consumerGroup="G", commitOffset=3))
        assert await committed(client) == (0, "3"), "a smaller offset is accepted"
        table = decode_body(ConsumerOffsetSerializeWrapper, (await client.ask(43)).body)
        assert table.offset_table == {"T@G": {0: 3}}
        assert table.data_version is not None, "a slave of 5.x wants one"
        assert table.data_version.state_version == 0


@pytest.mark.parametrize(("size", "code"), [(120, 0), (121, 1), (255, 1)])
async def test_a_group_that_can_have_no_retry_topic_commits_nothing(
    tmp_path: Path, size: int, code: int
) -> None:
    async with fake_broker(tmp_path) as broker:
        broker.context.topics.ensure("T", 4)
        reply = await broker.client().ask(15, queue(consumerGroup="g" * size, commitOffset=7))
        assert reply.code == code
        assert bool(broker.context.offsets.topics_of("g" * size)) is (code == 0)


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
        monkeypatch.setattr(broker.context.store.search, "min_offset", lambda topic, queue_id: 1)
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


@pytest.mark.parametrize("asks", [True, False])
async def test_a_connection_adds_few_offsets_of_what_does_not_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, asks: bool
) -> None:
    """One-way commits are dropped with one line in the log; others are refused."""
    monkeypatch.setattr("rmqcli.broker.tables.new_offsets.MOST_UNKNOWN_OF_CLIENT", 3)
    async with fake_broker(tmp_path) as broker:
        client, offsets = broker.client(), broker.context.offsets
        broker.context.topics.ensure("T", 4)
        for number in range(5):
            header = queue(consumerGroup=f"G{number}", commitOffset=7)
            if asks:
                reply = await client.ask(15, header)
                assert reply.code == (0 if number < 3 else 1)
            else:
                client.post(15, header, flag=2)
        assert len(offsets) == 3
        assert caplog.text.count("no more of its offsets are accepted") == 1
        assert (await client.ask(15, queue(consumerGroup="G0", commitOffset=8))).code == 0, "it is there"
        assert (await broker.client().ask(15, queue(consumerGroup="G9", commitOffset=8))).code == 0
        client.session.close()
        assert (await client.ask(15, queue(consumerGroup="G5", commitOffset=8))).code == 0


async def test_a_consumer_commits_whatever_it_can_pull(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqcli.broker.tables.new_offsets.MOST_UNKNOWN_OF_CLIENT", 0)
    monkeypatch.setattr("rmqcli.broker.tables.new_offsets.MOST_FOR_UNKNOWN", 0)
    monkeypatch.setattr("rmqcli.broker.tables.new_offsets.LONGEST_NAME", 0)
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.heartbeat("G", "T")
        broker.context.topics.ensure("T", 4)
        for topic, queue_id in (("T", 0), ("T", 3), ("%RETRY%G", 0)):
            assert (await client.ask(15, queue(topic, queue_id, consumerGroup="G", commitOffset=1))).code == 0
        for topic, queue_id, group in (("T", 4, "G"), ("T", -1, "G"), ("T", 0, "H")):
            header = queue(topic, queue_id, consumerGroup=group, commitOffset=1)
            assert (await client.ask(15, header)).code == 1


async def test_offsets_are_bounded_for_a_connection_and_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqcli.broker.tables.new_offsets.MOST_OF_CLIENT", 3)
    monkeypatch.setattr("rmqcli.broker.tables.new_offsets.MOST", 5)
    async with fake_broker(tmp_path) as broker:
        broker.context.topics.ensure("T", 8)
        for expected in ([0, 0, 0, 1], [0, 0, 1]):
            client = broker.client()
            await client.heartbeat("G", "T")
            first = len(broker.context.offsets)
            codes = [
                (await client.ask(15, queue("T", first + n, consumerGroup="G", commitOffset=1))).code
                for n in range(len(expected))
            ]
            assert codes == expected
        refused = await client.ask(314, {"srcGroup": "G", "destGroup": "H", "topic": "T"})
        assert (refused.code, broker.context.offsets.query("H", "T", 0)) == (1, -1)
        assert (await client.pull("T", 7, sys_flag=4 | 1, commitOffset=3)).code == 19
