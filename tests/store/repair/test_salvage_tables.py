"""Tables of a salvaged store: a broker can read each, and the user is told what was mended or lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqcli.store.read.folder import StoreFolder
from rmqcli.store.read.tables import TABLES, group_offsets, groups, topics
from rmqcli.store.repair.salvage import salvage
from rmqcli.store.verify.store import verify_store
from tests.support import JavaStore

Copy = Callable[[str], JavaStore]


def salvaged(store: JavaStore, tmp_path: Path) -> tuple[Path, list[str]]:
    out = tmp_path / "out"
    notes = salvage(store.root, out).notes
    assert verify_store(StoreFolder(out)).sound
    return out, notes


@pytest.mark.parametrize("name", [name for name in TABLES if name.endswith("s.json") or "er" in name])
def test_a_damaged_table_is_taken_from_its_backup(copy_java_store: Copy, tmp_path: Path, name: str) -> None:
    store = copy_java_store("store-clean")
    path = store.root / "config" / name
    backup = path.with_name(f"{name}.bak")
    other = b'{"deletedTopics":{}}' if name == "deletedTopics.json" else b"{}"
    backup.write_bytes(path.read_bytes() if path.exists() else other)
    expected = backup.read_bytes()
    path.write_bytes(b'{"dataVersion":{"counter"')
    out, notes = salvaged(store, tmp_path)
    assert notes == [f"config/{name} is damaged: its .bak is used"]
    assert (out / "config" / name).read_bytes() == expected


def test_a_damaged_backup_is_written_again(copy_java_store: Copy, tmp_path: Path) -> None:
    store = copy_java_store("store-clean")
    (store.root / "config/topics.json.bak").write_bytes(b"{no")
    out, notes = salvaged(store, tmp_path)
    assert notes == ["config/topics.json.bak is damaged: written again from topics.json"]
    config = out / "config"
    assert (config / "topics.json.bak").read_bytes() == (config / "topics.json").read_bytes()


@pytest.mark.parametrize("content", [None, b"{no", b""])
def test_topics_and_groups_without_a_backup_are_rebuilt(
    copy_java_store: Copy, tmp_path: Path, content: bytes | None
) -> None:
    store = copy_java_store("store-clean")
    known, known_groups = topics(store.root), {one.group for one in group_offsets(store.root)}
    for name in ("topics.json", "subscriptionGroup.json"):
        for path in (store.root / "config" / name, store.root / "config" / f"{name}.bak"):
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_bytes(content)
    out, notes = salvaged(store, tmp_path)
    stored = {(line["topic"], line["queueId"]) for line in store.of_kind("msg")}
    rebuilt = topics(out)
    assert rebuilt.keys() == {topic for topic, _ in stored}
    for topic, queue_id in stored:
        assert queue_id < rebuilt[topic].read_queue_nums == rebuilt[topic].write_queue_nums
    assert rebuilt["SeedNormal"].read_queue_nums == known["SeedNormal"].read_queue_nums
    assert known_groups <= groups(out).keys()
    state = {None: "missing", b"": "empty"}.get(content, "damaged")
    assert [note.split(":")[0] for note in notes] == [
        f"config/topics.json is {state} and has no sound .bak",
        f"config/subscriptionGroup.json is {state} and has no sound .bak",
    ]


def test_offsets_that_cannot_be_read_are_named(copy_java_store: Copy, tmp_path: Path) -> None:
    store = copy_java_store("store-clean")
    for name in ("consumerOffset.json", "consumerOffset.json.bak", "delayOffset.json"):
        (store.root / "config" / name).write_bytes(b"{no")
    (store.root / "config/delayOffset.json.bak").unlink()
    out, notes = salvaged(store, tmp_path)
    assert notes == [
        "config/consumerOffset.json is damaged and has no sound .bak: left out; "
        "groups consume from where new ones begin",
        "config/delayOffset.json is damaged and has no sound .bak: left out; "
        "delayed messages that were delivered are delivered again",
    ]
    assert not list((out / "config").glob("consumerOffset*"))


def test_a_store_without_tables_gets_its_topics(copy_java_store: Copy, tmp_path: Path) -> None:
    store = copy_java_store("store-clean")
    shutil.rmtree(store.root / "config")
    out, notes = salvaged(store, tmp_path)
    assert len(notes) == 2
    assert "SeedNormal" in topics(out)


@pytest.mark.parametrize("key", [b"topicConfigTabme", b"offsetTable"])
def test_a_table_without_its_content_is_damaged(copy_java_store: Copy, tmp_path: Path, key: bytes) -> None:
    """A reader of JSON takes it for an empty one, as after a flipped bit, or for another table's file."""
    store = copy_java_store("store-clean")
    path = store.root / "config/topics.json"
    path.write_bytes(path.read_bytes().replace(b"topicConfigTable", key))
    assert [one.problem for one in verify_store(StoreFolder(store.root)).findings] == [
        "no table topicConfigTable in it"
    ]
    out, notes = salvaged(store, tmp_path)
    assert notes == ["config/topics.json is damaged: its .bak is used"]
    assert topics(out) == topics(path.with_name("topics.json.bak"))
