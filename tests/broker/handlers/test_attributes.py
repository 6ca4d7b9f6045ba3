"""Attributes of topics and groups of 5.x: kept, changed and served, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqcli.codec.bodies.base import decode_body, encode_body
from rmqcli.codec.bodies.config import SubscriptionGroupConfig, TopicConfig, TopicConfigSerializeWrapper
from tests.broker.support import Client, fake_broker


async def change(client: Client, text: str | None, topic: str = "T") -> tuple[int, str]:
    header = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": "2",
        "writeQueueNums": "2",
        "perm": "6",
    }
    if text is not None:
        header["attributes"] = text
    reply = await client.ask(17, header)
    return reply.code, (reply.remark or "").partition("]: ")[2]


async def attributes(client: Client) -> dict[str, str] | None:
    return decode_body(TopicConfig, (await client.ask(351, {"topic": "T"})).body).attributes


async def test_attributes_are_changed_kept_and_served(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        assert (await change(client, "+message.type=FIFO,+queue.type=SimpleCQ"))[0] == 0
        assert (await change(client, None))[0] == 0
        assert await attributes(client) == {"message.type": "FIFO", "queue.type": "SimpleCQ"}
        assert (await change(client, "+message.type=DELAY"))[0] == 0
        table = decode_body(TopicConfigSerializeWrapper, (await client.ask(21)).body).topic_config_table
        assert table["T"].attributes == {"message.type": "DELAY", "queue.type": "SimpleCQ"}
        body = b'{"topicConfigList":[{"topicName":"T","attributes":{"-message.type":""}}]}'
        assert (await client.ask(18, {}, body)).code == 0
    async with fake_broker(tmp_path) as broker:
        assert await attributes(broker.client()) == {"queue.type": "SimpleCQ"}


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("+queue.type=BatchCQ", "this broker does not serve queue.type=BatchCQ; it serves: SimpleCQ"),
        (
            "+cleanup.policy=COMPACTION",
            "this broker does not serve cleanup.policy=COMPACTION; it serves: DELETE",
        ),
        ("+reserve.time=5", "unsupported key: reserve.time"),
        ("+color=red", "unsupported key: color"),
        ("-message.type", "only add attribute is supported while creating topic. key: message.type"),
        (
            "message.type=FIFO",
            "attributes look like +key=value or -key, separated by commas: 'message.type=FIFO'",
        ),
        ("+message.type=FIFO,+message.type=DELAY", "key duplication: +message.type"),
        ("+message.type=FIFO,-message.type", "wrong format key: +message.type"),
    ],
)
async def test_a_topic_is_not_created_with_what_is_not_served(tmp_path: Path, text: str, remark: str) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        assert await change(client, text) == (1, remark)
        assert "T" not in broker.context.topics


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("-message.type", "attempt to delete a nonexistent key: message.type"),
        (
            "+cleanup.policy=DELETE",
            "attempt to update an unchangeable attribute. key: cleanup.policy",
        ),
    ],
)
async def test_a_topic_is_not_changed_either(tmp_path: Path, text: str, remark: str) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await change(client, None)
        assert await change(client, text) == (1, remark)


async def test_what_a_broker_of_5_saved_stays(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    topic = '{"topicConfigTable":{"T":{"topicName":"T","attributes":{"message.type":"MIXED"}}}}'
    group = '{"subscriptionGroupTable":{"G":{"groupName":"G","attributes":{"a":"b"}}},"forbiddenTable":{"G":{"T":2}}}'
    (config / "topics.json").write_text(topic)
    (config / "subscriptionGroup.json").write_text(group)
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await change(client, None)
        await client.ask(200, None, b'{"groupName":"H"}')
    assert '"message.type":"MIXED"' in (config / "topics.json").read_text()
    groups = "".join((config / "subscriptionGroup.json").read_text().split())
    assert '"forbiddenTable":{"G":{"T":2}}' in groups
    assert '"attributes":{"a":"b"}' in groups


async def test_attributes_of_a_group_are_changes_too(tmp_path: Path) -> None:
    async def put(client: Client, changes: dict[str, str] | None) -> tuple[int, str]:
        body = encode_body(SubscriptionGroupConfig("G", attributes=changes))
        reply = await client.ask(200, {}, body)
        return reply.code, (reply.remark or "").partition("]: ")[2]

    async with fake_broker(tmp_path) as broker:
        client, groups = broker.client(), broker.context.groups
        assert await put(client, {"+priority.factor": "50"}) == (0, "")
        assert await put(client, None) == (0, "")
        assert (groups.get("G") or SubscriptionGroupConfig("")).attributes == {"priority.factor": "50"}
        served = "this broker does not serve priority.factor=101; it serves: 0 to 100"
        assert await put(client, {"+priority.factor": "101"}) == (1, served)
        assert await put(client, {"+message.type": "FIFO"}) == (1, "unsupported key: message.type")
        assert await put(client, {"-priority.factor": ""}) == (0, "")
        assert (groups.get("G") or SubscriptionGroupConfig("")).attributes == {}
