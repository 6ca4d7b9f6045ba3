"""Messages that a consumer could not process: retry topic, delay, dead letters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from rmqcli.broker.tables.groups import name_problem
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.config import SubscriptionGroupConfig
from rmqcli.codec.bodies.heartbeat import ConsumerData, HeartbeatData
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.message import MessageExt
from rmqcli.codec.properties import encode_properties
from tests.broker.support import Client, fake_broker, subscription


async def back(
    client: Client, message: MessageExt, group: str = "G", **fields: object
) -> tuple[int, str | None]:
    header = {"offset": str(message.commit_log_offset), "group": group, "delayLevel": "0"}
    reply = await client.ask(36, header | {name: str(value) for name, value in fields.items()})
    return reply.code, reply.remark


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_a_message_comes_back_through_the_retry_topic(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.heartbeat("G", "T")
        await client.send("T", b"job", properties={"KEYS": "k", "TAGS": "A", "WAIT": "true"})
        (original,) = await client.pulled("T")
        assert await back(client, original) == (0, None)
        assert (await client.pull("%RETRY%G")).code == 19
        await trio.sleep(10.1)
        (retried,) = await client.pulled("%RETRY%G")
        assert (retried.body, retried.reconsume_times, retried.tags, retried.keys) == (b"job", 1, "A", ["k"])
        assert (retried.born_timestamp, retried.born_host) == (original.born_timestamp, original.born_host)
        assert retried.properties["RETRY_TOPIC"] == "T"
        assert retried.properties["ORIGIN_MESSAGE_ID"] == original.offset_msg_id
        assert retried.properties["WAIT"] == "false"
        assert retried.properties["DELAY"] == "3"
        assert retried.properties["REAL_TOPIC"] == "%RETRY%G"

        assert await back(client, retried) == (0, None)
        await trio.sleep(29)
        assert len(await client.pulled("%RETRY%G")) == 1, "the second attempt waits for level 4, 30 s"
        await trio.sleep(1.1)
        second = (await client.pulled("%RETRY%G"))[1]
        assert second.reconsume_times == 2
        assert second.properties["RETRY_TOPIC"] == "T"
        assert second.properties["ORIGIN_MESSAGE_ID"] == original.offset_msg_id


async def test_the_consumer_may_choose_the_delay(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("T")
        (original,) = await client.pulled("T")
        assert await back(client, original, delayLevel=1) == (0, None)
        await trio.sleep(1.1)
        assert len(await client.pulled("%RETRY%G")) == 1


@pytest.mark.parametrize("fields", [{"maxReconsumeTimes": 0}, {"delayLevel": -1}])
async def test_dead_letters(tmp_path: Path, fields: dict[str, Any]) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("T", b"job", properties={"KEYS": "k"})
        (original,) = await client.pulled("T")
        assert await back(client, original, **fields) == (0, None)
        (dead,) = await client.pulled("%DLQ%G")
        assert (dead.body, dead.keys, dead.properties["RETRY_TOPIC"]) == (b"job", ["k"], "T")
        config = broker.context.topics.get("%DLQ%G")
        assert config is not None
        assert (config.write_queue_nums, config.perm) == (1, 6)


async def test_the_limit_of_the_group_counts_for_old_clients(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client(version=100)
        await client.ask(200, None, b'{"groupName":"G","retryMaxTimes":0}')
        await client.send("T")
        (original,) = await client.pulled("T")
        await back(client, original, maxReconsumeTimes=16)
        assert len(await client.pulled("%DLQ%G")) == 1


async def test_refusals(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, auto_create_subscription_group=False) as broker:
        client = broker.client()
        await client.ask(200, None, b'{"groupName":"G"}')
        await client.ask(200, None, b'{"groupName":"NoRetry","retryQueueNums":0}')
        await client.send("T")
        (original,) = await client.pulled("T")
        code, remark = await back(client, original, group="Unknown")
        assert (code, (remark or "")[:41]) == (26, "subscription group not exist, Unknown \nSe")
        assert await back(client, original, offset=999_999) == (1, "look message by offset failed, 999999")
        before = broker.context.store.commit_log_max_offset
        assert await back(client, original, group="NoRetry") == (0, None)
        assert broker.context.store.commit_log_max_offset == before
        await client.ask(25, None, b"brokerPermission=4")
        assert (await back(client, original))[0] == 16


async def test_send_backs_are_counted_for_the_topic_that_the_message_came_from(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("T")
        await back(client, (await client.pulled("T"))[0], delayLevel=1)
        await trio.sleep(2)
        await back(client, (await client.pulled("%RETRY%G"))[0])
        counted = broker.context.statistics.send_backs
        assert {key: cell.nums for key, cell in counted.items()} == {("T", 0, "G"): 2}


async def test_permissions_are_those_of_the_retry_topic(tmp_path: Path) -> None:
    """Looked at before the message is; those of the dead-letter topic are not looked at, as in Java."""
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("T")
        (original,) = await client.pulled("T")
        assert (await back(client, original, delayLevel=-1))[0] == 0
        readable = {"defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "4"}
        await client.ask(17, readable | {"topic": "%DLQ%G"})
        assert await back(client, original, delayLevel=-1) == (0, None)
        await client.ask(17, readable | {"topic": "%RETRY%G"})
        refused = (16, "the topic[%RETRY%G] sending message is forbidden")
        assert await back(client, original, delayLevel=-1) == refused
        assert await back(client, original, offset=999_999) == refused


@pytest.mark.parametrize("offset", [-1, 1, 2**63 - 1])
async def test_an_offset_where_no_message_begins(tmp_path: Path, offset: int) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("T")
        (original,) = await client.pulled("T")
        assert await back(client, original, offset=offset) == (1, f"look message by offset failed, {offset}")


async def test_a_message_whose_properties_grow_too_long(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        assert (await client.send("T", properties={"k": "v" * 32_700})).code == 0
        (original,) = await client.pulled("T")
        assert await back(client, original) == (0, None)
        (letter,) = await client.pulled("%DLQ%G")
        assert (letter.properties["RETRY_TOPIC"], letter.reconsume_times) == ("T", 1)
        assert letter.properties["k"] == original.properties["k"]
        assert broker.context.store.topics() == ["T", "%DLQ%G"]


async def test_a_message_that_is_larger_than_others_may_be_now(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    """Its consumer would get it every 5 s, and the delay level would stand still behind it."""
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        assert (await client.send("T", bytes(2000))).code == 0
        (original,) = await client.pulled("T")
        assert (await client.ask(25, None, b"maxMessageSize=1000")).code == 0
        assert (await client.send("T", bytes(2000))).code == ResponseCode.MESSAGE_ILLEGAL
        assert await back(client, original, delayLevel=1) == (0, None)
        await trio.sleep(1.1)
        (retried,) = await client.pulled("%RETRY%G")
        assert await back(client, retried, delayLevel=-1) == (0, None)
        assert [len(letter.body) for letter in await client.pulled("%DLQ%G")] == [2000]


ADDED = ["WAIT", "DELAY", "TRACE_ON", "MSG_REGION", "CLUSTER", "ORIGIN_MESSAGE_ID", "RETRY_TOPIC"]


@pytest.mark.parametrize(
    ("spare", "count"), [(94, 0), (93, 1), (82, 2), (74, 3), (60, 4), (36, 4), (35, 5), (13, 5), (0, 6)]
)
async def test_a_dead_letter_leaves_out_what_has_no_room(tmp_path: Path, spare: int, count: int) -> None:
    """Java refuses it for ever, so that the consumer gets the message every 5 s.

    The message had a delay, with which it would be parked again.
    """
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("T", properties={"DELAY": "1", "k": "v"})
        (short,) = await client.pulled("SCHEDULE_TOPIC_XXXX")
        size = 32_767 - len(encode_properties(short.properties)) + 1 - spare
        await client.send("T", properties={"DELAY": "1", "k": "v" * size})
        (full,) = await client.pulled("SCHEDULE_TOPIC_XXXX", offset=1)
        assert await back(client, full, delayLevel=-1) == (0, None)
        (letter,) = await client.pulled("%DLQ%G")
        assert [name for name in ADDED if name not in letter.properties] == ADDED[:count]
        assert letter.properties["k"] == "v" * size


@pytest.mark.parametrize("group", ["../../../outside", "a/b", "\0", "", "\ud800", "x" * 121, "é" * 61])
async def test_a_group_that_can_have_no_retry_topic(tmp_path: Path, group: str) -> None:
    """A retry topic is a folder of the store, and a part of its records: nothing is created outside, nothing
    is held up, and who asks is told the reason.
    """
    async with fake_broker(tmp_path / "store") as broker:
        client = broker.client()
        await client.send("T")
        (original,) = await client.pulled("T")
        answers = [await back(client, original, group=group, delayLevel=level) for level in (0, 2, -1)]
        pull = await client.pull("T", group=group)
        answers.append((pull.code, pull.remark))
        if group.isascii():
            created = await client.ask(200, None, msgspec.json.encode({"groupName": group}))
            heartbeat = await client.heartbeat(group, "T")
            answers += [(created.code, created.remark), (heartbeat.code, heartbeat.remark)]
        assert set(answers) == {(ResponseCode.SYSTEM_ERROR, name_problem(group))}
        assert group not in broker.context.groups
        assert broker.context.consumers.get(group) is None
        assert broker.context.store.topics() == ["T"]
        assert (await client.send("T")).code == 0
    assert names(tmp_path) == ["store"]


async def test_a_name_that_only_clients_would_refuse(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("T")
        (original,) = await client.pulled("T")
        for group in ("my.group", "Gruppe für alles", "x" * 120):
            assert await back(client, original, group=group, delayLevel=-1) == (0, None)
            assert len(await client.pulled(f"%DLQ%{group}")) == 1


async def test_a_table_of_groups_that_names_another_folder(tmp_path: Path) -> None:
    """Java's broker takes every name."""
    async with fake_broker(tmp_path / "store") as broker:
        client = broker.client()
        await client.send("T")
        (original,) = await client.pulled("T")
        name = "../../../outside"
        broker.context.groups.put(SubscriptionGroupConfig(group_name=name))
        assert await back(client, original, group=name) == (
            1,
            f"the group[{name}] has a name that no folder can have",
        )
    assert names(tmp_path) == ["store"]


async def test_a_heartbeat_registers_the_groups_that_can_exist(tmp_path: Path) -> None:
    long = "g" * 121
    consumers = [
        ConsumerData(group_name=group, subscription_data_set=[subscription("T")])
        for group in ("A", long, "B")
    ]
    data = HeartbeatData(client_id="c", consumer_data_set=consumers)
    async with fake_broker(tmp_path) as broker:
        reply = await broker.client().ask(34, None, encode_body(data))
        assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, name_problem(long))
        known = [group for group in ("A", long, "B") if broker.context.consumers.get(group) is not None]
        assert known == ["A", "B"]


async def test_a_long_name_in_a_saved_table_of_groups(tmp_path: Path) -> None:
    """Its messages could not be sent back; it can be read and deleted."""
    name = "g" * 121
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("T")
        broker.context.groups.put(SubscriptionGroupConfig(group_name=name))
        pull = await client.pull("T", group=name)
        assert (pull.code, pull.remark) == (ResponseCode.SYSTEM_ERROR, name_problem(name))
        assert (await client.ask(207, {"groupName": name})).code == 0
        assert name not in broker.context.groups
