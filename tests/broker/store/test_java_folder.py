"""Folders that a Java broker wrote: every message is served, and rebuilt files equal those of Java."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmqcli.broker.config import BrokerConfig
from rmqcli.broker.store import MessageStore, StoreConfig
from rmqcli.codec.ids import parse_offset_msg_id
from rmqcli.codec.records.reading import decode_record
from tests.broker.store.support import Clock, Rebuild, loaded, queue_bytes
from tests.support import COMMIT_LOG_FILE_SIZE, CONSUME_QUEUE_FILE_SIZE, INDEX_ITEMS, INDEX_SLOTS, JavaStore

Copy = Callable[[str], JavaStore]
NOW = 1_795_230_000_000


def java_config(root: Path, **settings: Any) -> StoreConfig:
    sizes: dict[str, Any] = {
        "mapped_file_size_commit_log": COMMIT_LOG_FILE_SIZE,
        "mapped_file_size_consume_queue": CONSUME_QUEUE_FILE_SIZE,
        "max_hash_slot_num": INDEX_SLOTS,
        "max_index_num": INDEX_ITEMS,
    }
    return StoreConfig(root=root, **(sizes | settings))


def open_java(root: Path, **settings: Any) -> Any:
    return loaded(java_config(root, **settings), Clock(NOW))


def served(store: MessageStore, line: dict[str, Any]) -> bool:
    """True if the message of a dump line is read from its queue at its offset, byte for byte."""
    result = store.reader.get(line["topic"], line["queueId"], line["queueOffset"], 1)
    if result.count != 1:
        return False
    record = decode_record(b"".join(result.views), check_crc=True)
    same = (record.commit_log_offset, record.queue_offset, record.store_size) == (
        line["phy"],
        line["queueOffset"],
        line["size"],
    )
    return same and hashlib.sha256(record.body).hexdigest() == line["bodySha256"]


@pytest.mark.parametrize("name", ["store-clean", "store-killed"])
def test_every_record_of_java_is_served(copy_java_store: Copy, name: str) -> None:
    java = copy_java_store(name)
    with open_java(java.root) as store:
        lines = java.of_kind("msg")
        assert len(lines) > 3_000
        assert [line["phy"] for line in lines if not served(store, line)] == []


@pytest.mark.parametrize("name", ["store-clean", "store-killed", "store-five"])
def test_all_sizes_are_taken_from_the_files(copy_java_store: Copy, name: str) -> None:
    """Nobody has to find out four settings by one refusal after the other."""
    java = copy_java_store(name)
    config = StoreConfig.of(BrokerConfig(store_path_root_dir=str(java.root), ignore_unsupported=True))
    before = {path: path.stat().st_size for path in java.root.rglob("*") if path.is_file()}
    with loaded(config, Clock(NOW)) as store:
        assert store.commit_log_file_size == COMMIT_LOG_FILE_SIZE
        lines = [line for line in java.of_kind("msg") if "UNIQ_KEY" in line["properties"]]
        for line in lines[::97]:
            time = line["storeTimestamp"]
            hits = store.query(line["topic"], line["properties"]["UNIQ_KEY"], 64, time - 2000, time + 2000)
            assert line["phy"] in [decode_record(view).commit_log_offset for view in hits.views]
    for folder in ("consumequeue", "index"):
        sizes = {path.stat().st_size for path in (java.root / folder).rglob("*") if path.is_file()}
        assert sizes == {size for path, size in before.items() if path.is_relative_to(java.root / folder)}


@pytest.mark.parametrize("name", ["store-clean", "store-killed"])
def test_index_queries_find_every_key(copy_java_store: Copy, name: str) -> None:
    java = copy_java_store(name)
    with open_java(java.root) as store:
        for line in java.of_kind("msg")[::7]:
            key = line["properties"].get("UNIQ_KEY")
            if key is None:
                continue
            result = store.query(
                line["topic"], key, 64, line["storeTimestamp"] - 2000, line["storeTimestamp"] + 2000
            )
            assert line["phy"] in [decode_record(view).commit_log_offset for view in result.views]


def test_every_acknowledged_message_survives_the_kill(copy_java_store: Copy) -> None:
    java = copy_java_store("store-killed")
    acks = list(java.acks())
    assert len(acks) == 6056
    with open_java(java.root) as store:
        for ack in acks:
            record = store.search.record_at(parse_offset_msg_id(ack.offset_msg_id)[2])
            assert record is not None
            found = decode_record(record, check_crc=True)
            assert (found.properties["UNIQ_KEY"], found.queue_offset) == (ack.uniq_key, ack.queue_offset)
            assert ack.topic in (found.topic, found.properties.get("REAL_TOPIC"))
            assert b"".join(
                store.reader.get(found.topic, found.queue_id, found.queue_offset, 1).views
            ) == bytes(record)


def test_queue_ends_after_the_kill_are_those_of_java(copy_java_store: Copy) -> None:
    """Java's status is of a time when its broker had delivered delayed messages, some of them twice."""
    java = copy_java_store("store-killed")
    lines = (java.folder / "after-recovery.txt").read_text().splitlines()
    status = [line.split() for line in lines if not line.startswith("#")]
    queues = [(topic, queue_id) for topic in ("LoadA", "LoadB", "LoadC") for queue_id in range(4)]
    with open_java(java.root) as store:
        ends = [store.search.max_offset(*queue) for queue in queues]
        assert {store.search.min_offset(*queue) for queue in queues} == {0}
    untouched = [fields[5].startswith("01:34:14") for fields in status]
    assert sum(untouched) == 2
    for end, fields, same in zip(ends, status, untouched, strict=True):
        assert end == int(fields[3]) if same else 480 < end <= int(fields[3])


@pytest.mark.parametrize("name", ["store-clean", "store-killed"])
def test_queues_equal_a_rebuild(copy_java_store: Copy, name: str) -> None:
    java = copy_java_store(name)
    rebuilt = Rebuild(java.root).queues()
    with open_java(java.root):
        ours = queue_bytes(java.root)
    schedule = {key for key in rebuilt if key.startswith("SCHEDULE_TOPIC_XXXX")}
    assert {key: ours[key] for key in rebuilt if key not in schedule} == {
        key: rebuilt[key] for key in rebuilt if key not in schedule
    }
    assert {key: len(ours[key]) for key in schedule} == {key: len(rebuilt[key]) for key in schedule}


def test_dispatch_gives_the_units_that_java_wrote(copy_java_store: Copy) -> None:
    """Deliver times of delayed messages included."""
    java = copy_java_store("store-clean")
    before = queue_bytes(java.root)
    shutil.rmtree(java.root / "consumequeue")
    with open_java(java.root):
        assert queue_bytes(java.root) == before


def test_index_files_are_those_of_java(copy_java_store: Copy) -> None:
    java = copy_java_store("store-clean")
    before = [path.read_bytes() for path in sorted((java.root / "index").iterdir())]
    for path in (java.root / "index").iterdir():
        path.unlink()
    (java.root / "abort").touch()
    with open_java(java.root):
        after = [path.read_bytes() for path in sorted((java.root / "index").iterdir())]
    assert after == before


def test_sizes_are_adopted_from_the_files(copy_java_store: Copy) -> None:
    java = copy_java_store("store-clean")
    with open_java(java.root, mapped_file_size_commit_log=None) as store:
        assert store.commit_log_max_offset == 1572864 + 186756
