"""Files of tables: a member whose name was damaged is never a missing one."""

from __future__ import annotations

from typing import Any

import pytest

from rmqcli.codec.bodies.base import decode_body
from rmqcli.codec.bodies.config import SubscriptionGroupWrapper, TopicConfigSerializeWrapper
from rmqcli.codec.bodies.filters import ConsumerFilterManager
from rmqcli.codec.bodies.offsets import ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper
from rmqcli.codec.bodies.route import KVConfigSerializeWrapper
from rmqcli.codec.bodies.tables import decode_table
from rmqcli.codec.edited import BYTE_ORDER_MARK
from rmqcli.codec.errors import BodyError
from tests.support import JavaStore

TABLES: dict[str, tuple[Any, str]] = {
    "topics.json": (
        TopicConfigSerializeWrapper,
        "topicConfigTable dataVersion counter timestamp order perm readQueueNums writeQueueNums "
        "topicFilterType topicName topicSysFlag",
    ),
    "subscriptionGroup.json": (
        SubscriptionGroupWrapper,
        "subscriptionGroupTable dataVersion counter brokerId consumeBroadcastEnable consumeEnable "
        "consumeFromMinEnable groupName notifyConsumerIdsChangedEnable retryMaxTimes retryQueueNums "
        "whichBrokerWhenConsumeSlowly",
    ),
    "consumerOffset.json": (ConsumerOffsetSerializeWrapper, "offsetTable"),
    "delayOffset.json": (DelayOffsetSerializeWrapper, "offsetTable"),
    "consumerFilter.json": (ConsumerFilterManager, "filterDataByTopic"),
}
CASES = [(name, member) for name, (_, members) in TABLES.items() for member in members.split()]


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_java_are_read_as_bodies(store_clean: JavaStore, store_five: JavaStore, name: str) -> None:
    for store in (store_clean, store_five):
        content = (store.root / "config" / name).read_bytes()
        cls, _ = TABLES[name]
        assert decode_table(cls, content) == decode_body(cls, content)


@pytest.mark.parametrize(("name", "member"), CASES)
def test_a_damaged_name_is_refused(store_five: JavaStore, name: str, member: str) -> None:
    content = (store_five.root / "config" / name).read_bytes()
    wrong = chr(ord(member[0]) ^ 1) + member[1:]
    damaged = content.replace(f'"{member}"'.encode(), f'"{wrong}"'.encode(), 1)
    assert damaged != content
    with pytest.raises(BodyError, match=member):
        decode_table(TABLES[name][0], damaged)


@pytest.mark.parametrize(
    "text", ['{"configTable":{"a":{"b":"c"}},"new":1}', '{"new":1,"configTable":null}', '{"configTable":{}}']
)
def test_members_of_other_versions_are_ignored(text: str) -> None:
    assert decode_table(KVConfigSerializeWrapper, text.encode()) == decode_body(
        KVConfigSerializeWrapper, text.encode()
    )


def test_null_is_no_table() -> None:
    with pytest.raises(BodyError, match="no KVConfigSerializeWrapper in a JSON null"):
        decode_table(KVConfigSerializeWrapper, b"null")


def test_a_version_of_an_old_broker_is_no_damage() -> None:
    text = b'{"dataVersion":{"counter":2,"timestatmp":1},"topicConfigTable":{"T":{"topicName":"T"}}}'
    found = decode_table(TopicConfigSerializeWrapper, text)
    assert found is not None
    assert (found.data_version.counter, found.data_version.timestamp) == (2, 0)


@pytest.mark.parametrize("mark", [b"", BYTE_ORDER_MARK])
def test_a_file_that_holds_nothing(mark: bytes) -> None:
    for cls, _ in TABLES.values():
        for text in (b"", b" \n", b"{}", b"{ }"):
            assert decode_table(cls, mark + text) is None
    for cls, name in (
        (TopicConfigSerializeWrapper, "topicConfigTable"),
        (SubscriptionGroupWrapper, "subscriptionGroupTable"),
    ):
        for value in ("{}", "null"):
            assert decode_table(cls, mark + f'{{"{name}":{value}}}'.encode()) is None
    assert decode_table(ConsumerOffsetSerializeWrapper, mark + b'{"offsetTable":{}}') is not None


@pytest.mark.parametrize("text", ['{"offsetTable":{}}', '{"dataVersion":{"counter":1,"timestamp":1}}'])
def test_another_table_is_none_of_topics(text: str) -> None:
    with pytest.raises(BodyError, match="no table topicConfigTable in it"):
        decode_table(TopicConfigSerializeWrapper, text.encode())
