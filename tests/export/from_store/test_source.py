"""The broker of a store folder, and rows of several folders that can be told apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rmqcli.export import SourceError, StoreSource, broker_name_of, store_sources
from tests.support import JavaStore


def registered(store: Path, *topics: tuple[str, int, int]) -> Path:
    """Writes topics.json with topics (name, permission, queues)."""
    table = {
        name: {"topicName": name, "perm": perm, "readQueueNums": queues, "writeQueueNums": queues}
        for name, perm, queues in topics
    }
    (store / "config").mkdir(parents=True)
    (store / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    return store


def test_java_stores_say_their_broker(java_store: JavaStore) -> None:
    assert broker_name_of(java_store.root) == "broker-a"


OF_CLUSTER = (("C", 7, 16), ("C_REPLY_TOPIC", 6, 1), ("TBW102", 7, 8))


@pytest.mark.parametrize(
    ("topics", "name"),
    [
        ((*OF_CLUSTER, ("b-1", 7, 1)), "b-1"),
        ((*OF_CLUSTER, ("b-1", 1, 1), ("rmq_sys_SYNC_BROKER_MEMBER_b-1", 1, 1)), "b-1"),
        ((*OF_CLUSTER, ("orders", 6, 1)), None),
        ((*OF_CLUSTER, ("b-1", 7, 1), ("b-2", 7, 1)), None),
        ((("C", 7, 1), ("C_REPLY_TOPIC", 6, 1), ("b-1", 7, 1)), "b-1"),
        ((), None),
    ],
)
def test_the_topic_of_a_broker(tmp_path: Path, topics: tuple[tuple[str, int, int], ...], name: str) -> None:
    assert broker_name_of(registered(tmp_path, *topics)) == name


@pytest.mark.parametrize(
    ("place", "text", "name"),
    [
        ("store/broker.conf", "brokerName=b-2", "b-2"),
        ("broker.conf", "brokerName = b-3\n", "b-3"),
        ("conf/broker.conf", "storePathRootDir=/data/store\nbrokerName=b-4", "b-4"),
        ("broker.conf", "storePathRootDir=/data/other\nbrokerName=b-5", "b-1"),
        ("broker.conf", "brokerClusterName=C", "b-1"),
    ],
)
def test_a_configuration_wins(tmp_path: Path, place: str, text: str, name: str) -> None:
    store = registered(tmp_path / "store", ("b-1", 7, 1))
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text(text)
    assert broker_name_of(store) == name


def test_a_damaged_table_tells_nothing(tmp_path: Path) -> None:
    (registered(tmp_path) / "config" / "topics.json").write_text("{")
    assert broker_name_of(tmp_path) is None


def test_several_folders_are_of_several_brokers(tmp_path: Path) -> None:
    first, second = (registered(tmp_path / name, ("b-1", 7, 1)) for name in ("first", "second"))
    unknown = registered(tmp_path / "unknown")
    assert store_sources([first]) == [StoreSource(first, "b-1")]
    assert store_sources([unknown]) == [StoreSource(unknown, None)]
    assert [source.broker_name for source in store_sources([first, second], ["x", "y"])] == ["x", "y"]
    for paths, names, reason in (
        ([first, second], [], f"{first} and {second} are both of b-1"),
        ([first, second], ["x", "x"], f"{first} and {second} are both of x"),
        ([first, unknown], [], f"{unknown}: the broker of this store is unknown"),
        ([first, second], ["x"], "1 broker names for 2 store folders"),
    ):
        with pytest.raises(SourceError, match=reason):
            store_sources(paths, names)
