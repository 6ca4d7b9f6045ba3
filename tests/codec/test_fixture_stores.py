"""The store folders of a Java broker, compared with the output of Java's own decoder."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from rmqcli.codec.bodies.base import decode_body
from rmqcli.codec.bodies.config import SubscriptionGroupWrapper, TopicConfigSerializeWrapper
from rmqcli.codec.bodies.filters import ConsumerFilterManager
from rmqcli.codec.bodies.offsets import ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper
from rmqcli.codec.core.hashing import index_key_hash, tags_code
from rmqcli.codec.message import MessageExt
from rmqcli.codec.names import SystemTopic
from rmqcli.codec.records.encoding import encode_record
from rmqcli.codec.records.reading import decode_record, peek_record, scan_record
from rmqcli.codec.store.checkpoint import decode_checkpoint
from rmqcli.codec.store.consume_queue import ENTRY
from rmqcli.codec.store.index_file import decode_header, index_file_size
from rmqcli.codec.store.record_layout import MAGIC_FILLER, RECORD
from tests.codec.store_readers import items_of, used_entries
from tests.support import COMMIT_LOG_FILE_SIZE, INDEX_ITEMS, INDEX_SLOTS, JavaStore


def as_java_dumps(message: MessageExt) -> dict[str, Any]:
    return {
        "kind": "msg",
        "bodyCRC": message.body_crc,
        "bodyLen": len(message.body),
        "bodySha256": hashlib.sha256(message.body).hexdigest(),
        "bornHost": message.born_host,
        "bornTimestamp": message.born_timestamp,
        "flag": message.flag,
        "offsetMsgId": message.offset_msg_id,
        "phy": message.commit_log_offset,
        "preparedTransactionOffset": message.prepared_transaction_offset,
        "properties": message.properties,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "reconsumeTimes": message.reconsume_times,
        "size": message.store_size,
        "storeHost": message.store_host,
        "storeTimestamp": message.store_timestamp,
        "sysFlag": message.sys_flag,
        "topic": message.topic,
    }


def messages_of(store: JavaStore) -> list[MessageExt]:
    log = store.commit_log
    return [decode_record(log, line["phy"], check_crc=True) for line in store.of_kind("msg")]


def test_every_record_is_what_java_says(java_store: JavaStore) -> None:
    lines = java_store.of_kind("msg")
    assert len(lines) in (3090, 6104)
    for line, message in zip(lines, messages_of(java_store), strict=True):
        assert as_java_dumps(message) == line


def test_a_walk_finds_the_same_records_and_the_same_ends(java_store: JavaStore) -> None:
    for path, line in zip(java_store.commit_logs, java_store.of_kind("commitlog-file"), strict=True):
        data = path.read_bytes()
        assert (path.name, len(data)) == (line["file"], COMMIT_LOG_FILE_SIZE)
        position = count = 0
        while peek_record(data, position).magic not in (MAGIC_FILLER, 0):
            scan = scan_record(data, position, check_crc=True)
            assert scan.physical_offset == int(path.name) + position
            position += scan.total_size
            count += 1
        size, magic = peek_record(data, position)
        end = f"blank@{position} size {size}" if magic == MAGIC_FILLER else f"zero@{position}"
        assert (count, end) == (line["messages"], line["end"])
        assert size == (len(data) - position if magic else 0)
        assert not any(data[position + (8 if magic else 0) :])


def test_every_record_builds_the_same_bytes_again(java_store: JavaStore) -> None:
    log = java_store.commit_log
    for line in java_store.of_kind("msg"):
        data = log[line["phy"] : line["phy"] + line["size"]]
        parsed = RECORD.parse(data)
        fields = {
            name: value
            for name, value in parsed.items()
            if not name.startswith("_")
            and not name.endswith("_length")
            and name not in ("total_size", "magic", "body_crc")
        }
        assert encode_record(**fields) == data


def test_every_consume_queue_entry(java_store: JavaStore) -> None:
    folder = java_store.root / "consumequeue"
    lines = {line["path"]: line for line in java_store.of_kind("consumequeue-file")}
    paths = {str(path.relative_to(folder)): path for path in folder.glob("*/*/*")}
    assert paths.keys() == lines.keys()
    for name, line in lines.items():
        used = used_entries(paths[name].read_bytes())
        assert [list(entry) for entry in used] == line["data"]
        assert len(used) == line["entries"]


def test_consume_queues_point_at_their_records(java_store: JavaStore) -> None:
    log = java_store.commit_log
    for path in (java_store.root / "consumequeue").glob("*/*/*"):
        first = int(path.name) // ENTRY.size
        for number, (offset, size, code) in enumerate(used_entries(path.read_bytes()), first):
            message = decode_record(log, offset)
            assert (message.store_size, message.queue_offset) == (size, number)
            assert (message.topic, str(message.queue_id)) == path.parts[-3:-1]
            if message.topic != SystemTopic.SCHEDULE:
                assert code == tags_code(message.tags)
            else:
                assert code > message.store_timestamp


def test_index_headers(java_store: JavaStore) -> None:
    lines = java_store.of_kind("index-file")
    paths = sorted((java_store.root / "index").iterdir())
    for path, line in zip(paths, lines, strict=True):
        data = path.read_bytes()
        header = decode_header(data)
        assert len(data) == index_file_size(INDEX_SLOTS, INDEX_ITEMS)
        assert {"kind": "index-file", "file": path.name, "length": len(data)} | {
            "beginTimestamp": header.begin_timestamp,
            "endTimestamp": header.end_timestamp,
            "beginPhyOffset": header.begin_phy_offset,
            "endPhyOffset": header.end_phy_offset,
            "hashSlotCount": header.hash_slot_count,
            "indexCount": header.index_count,
        } == line


def test_every_key_is_found_in_the_index(java_store: JavaStore) -> None:
    files = [path.read_bytes() for path in sorted((java_store.root / "index").iterdir())]
    indexed = max(decode_header(data).end_phy_offset for data in files)
    found: dict[int, set[int]] = {}
    looked_up = 0
    for message in messages_of(java_store):
        if message.commit_log_offset > indexed:
            continue
        for key in {message.properties.get("UNIQ_KEY", ""), *message.keys} - {""}:
            value = index_key_hash(message.topic, key)
            if value not in found:
                items = (item for data in files for item in items_of(data, INDEX_SLOTS, value))
                found[value] = {item.phy_offset for item in items}
            assert message.commit_log_offset in found[value]
            looked_up += 1
    assert looked_up > 6000


def test_checkpoints(store_clean: JavaStore, store_killed: JavaStore) -> None:
    clean = decode_checkpoint((store_clean.root / "checkpoint").read_bytes())
    last = messages_of(store_clean)[-1]
    assert clean.physic_msg_timestamp == last.store_timestamp
    full = [
        line["endTimestamp"]
        for line in store_clean.of_kind("index-file")
        if line["indexCount"] == INDEX_ITEMS
    ]
    assert clean.index_msg_timestamp == full[-1]
    killed = decode_checkpoint((store_killed.root / "checkpoint").read_bytes())
    assert killed.physic_msg_timestamp < messages_of(store_killed)[-1].store_timestamp


def test_every_acknowledged_message_is_stored(store_killed: JavaStore) -> None:
    stored = {
        (message.topic, message.queue_id, message.queue_offset, message.msg_id, message.offset_msg_id)
        for message in messages_of(store_killed)
    }
    acks = list(store_killed.acks())
    assert len(acks) == 6056
    missing = [
        ack
        for ack in acks
        if (ack.topic, ack.queue_id, ack.queue_offset, ack.uniq_key, ack.offset_msg_id) not in stored
    ]
    # Delayed messages are acknowledged with the requested topic and stored in the schedule topic.
    scheduled = {(item[3], item[4]) for item in stored if item[0] == SystemTopic.SCHEDULE}
    assert [ack for ack in missing if (ack.uniq_key, ack.offset_msg_id) not in scheduled] == []


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("topics", TopicConfigSerializeWrapper),
        ("subscriptionGroup", SubscriptionGroupWrapper),
        ("consumerOffset", ConsumerOffsetSerializeWrapper),
        ("delayOffset", DelayOffsetSerializeWrapper),
        ("consumerFilter", ConsumerFilterManager),
    ],
)
def test_every_config_file_decodes(java_store: JavaStore, name: str, body: Any) -> None:
    paths = sorted((java_store.root / "config").glob(f"{name}.json*"))
    assert paths
    for path in paths:
        assert isinstance(decode_body(body, path.read_bytes()), body)
