"""A whole store folder: sound as Java left it, with damage in each of its parts named."""

from __future__ import annotations

import json
import shutil
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rmqcli.codec.records.reading import decode_record
from rmqcli.codec.store.checkpoint import Checkpoint, encode_checkpoint
from rmqcli.codec.store.index_file import item_position, slot_position
from rmqcli.store import CommitLogFiles
from rmqcli.store.read.files import mapped
from rmqcli.store.read.folder import StoreFolder
from rmqcli.store.read.index import geometry_of, index_files, key_chain
from rmqcli.store.read.pending import delay_levels, half_messages
from rmqcli.store.read.tables import group_offsets, read_checkpoint, topics
from rmqcli.store.stats.index_load import load_of
from rmqcli.store.stats.overview import overview
from rmqcli.store.verify.checkpoint import dispatched_again_from
from rmqcli.store.verify.store import verify_store
from tests.store.one_by_one import one_by_one
from tests.support import INDEX_ITEMS, INDEX_SLOTS, JavaStore

Copy = Callable[[str], JavaStore]


def test_a_clean_stop_is_sound(store_clean: JavaStore) -> None:
    report = verify_store(StoreFolder(store_clean.root))
    assert (report.sound, report.findings, report.remarks) == (True, [], [])
    assert report.parts["index"].items == 7293
    assert report.parts["commitlog"].items == report.parts["consumequeue"].items == 3090


def test_a_killed_broker_left_what_its_next_start_repairs(store_killed: JavaStore) -> None:
    report = verify_store(StoreFolder(store_killed.root))
    assert report.sound
    assert "abort is present" in report.remarks[0]
    assert "20261121013414032: younger than the checkpoint" in report.remarks[1]


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def test_an_item_that_no_record_has(copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    path = sorted((store.root / "index").iterdir())[1]
    position = item_position(INDEX_SLOTS, 40)
    flip(path, position + 3)
    report = verify_store(StoreFolder(store.root))
    assert [(one.path, one.position) for one in report.findings] == [(path, position)]
    assert "has no key of hash" in report.findings[0].problem


@pytest.mark.parametrize("vectorised", [True, False])
@pytest.mark.parametrize(
    ("position", "said"),
    [
        (0, "begins at time 777777, its items 1795"),
        (8, "ends at time 777777, its items 1795"),
        (16, "begins at commit-log offset 777777, its items 491291"),
        (24, "ends at commit-log offset 777777, its items 985269"),
    ],
)
def test_a_header_that_is_not_that_of_its_items(
    copy_java_store: Copy, position: int, said: str, vectorised: bool
) -> None:
    store = copy_java_store("store-clean")
    path = sorted((store.root / "index").iterdir())[1]
    overwrite(path, position, (777777).to_bytes(8, "big"))
    with one_by_one(not vectorised):
        findings = [one for one in verify_store(StoreFolder(store.root)).findings if one.position == position]
    assert [one.path for one in findings] == [path] and said in findings[0].problem


@pytest.mark.parametrize("vectorised", [True, False])
def test_an_item_of_another_time(copy_java_store: Copy, vectorised: bool) -> None:
    """The first one counts from the end of the file before."""
    store = copy_java_store("store-clean")
    path = sorted((store.root / "index").iterdir())[1]
    overwrite(path, item_position(INDEX_SLOTS, 1) + 12, (5).to_bytes(4, "big"))
    with one_by_one(not vectorised):
        assert verify_store(StoreFolder(store.root)).sound
        overwrite(path, item_position(INDEX_SLOTS, 40) + 12, (5).to_bytes(4, "big"))
        (finding,) = verify_store(StoreFolder(store.root)).findings
    assert (finding.path, finding.position) == (path, item_position(INDEX_SLOTS, 40))
    assert finding.problem == "item 40: its time is 5 s after the file's, the record's 0 s"


def test_a_slot_that_leads_elsewhere_and_an_item_that_does(copy_java_store: Copy) -> None:
    """Both numbers are those of other items, and so within range."""
    store = copy_java_store("store-clean")
    path = sorted((store.root / "index").iterdir())[0]
    slots, later = slot_position(0), item_position(INDEX_SLOTS, 0)
    data = bytearray(path.read_bytes())
    numbers = struct.unpack_from(f">{INDEX_SLOTS}i", data, slots)
    slot = next(place for place, number in enumerate(numbers) if 500 < number < 1500)
    item = next(
        number
        for number in range(1000, 1999)
        if struct.unpack_from(">i", data, later + number * 20 + 16)[0] > 1
    )
    found = struct.unpack_from(">i", data, later + item * 20 + 16)[0]
    struct.pack_into(">i", data, slots + slot * 4, numbers[slot] - 1)
    struct.pack_into(">i", data, later + item * 20 + 16, found - 1)
    path.write_bytes(data)
    report = verify_store(StoreFolder(store.root)).parts["index"]
    assert [(one.path, one.position, one.problem) for one in report.findings] == [
        (
            path,
            later + item * 20,
            f"item {item}: the item before it in its chain is {found - 1}, not {found}",
        ),
        (path, slots + slot * 4, f"slot {slot}: its newest item is {numbers[slot] - 1}, not {numbers[slot]}"),
    ]


def test_damage_in_an_index_that_is_made_anew_is_a_remark(copy_java_store: Copy) -> None:
    store = copy_java_store("store-killed")
    path = store.root / "index/20261121013414032"
    flip(path, item_position(INDEX_SLOTS, 40) + 3)
    report = verify_store(StoreFolder(store.root))
    assert report.sound
    assert (
        f"{path.name}: younger than the checkpoint: rebuilt by the next start (items or slots that are wrong: 1)"
        in report.remarks
    )


def test_a_queue_that_lacks_entries(copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    path = store.root / "consumequeue/SeedNormal/1/00000000000000006000"
    path.write_bytes(path.read_bytes()[:200] + bytes(5800))
    (finding,) = verify_store(StoreFolder(store.root)).findings
    assert (finding.path, finding.position) == (path.parent, 6200)
    assert finding.problem == "SeedNormal queue 1 is missing the entries of 65 records after its own"
    (store.root / "abort").touch()
    crashed = verify_store(StoreFolder(store.root))
    assert crashed.sound
    assert any("the next start adds them" in remark for remark in crashed.remarks)


@pytest.mark.parametrize("name", ["config/topics.json", "config/consumerOffset.json.bak", "checkpoint"])
def test_tables_that_cannot_be_read(copy_java_store: Copy, name: str) -> None:
    store = copy_java_store("store-clean")
    (store.root / name).write_bytes(b"{no")
    assert {finding.path for finding in verify_store(StoreFolder(store.root)).findings} == {store.root / name}


def test_a_group_beyond_the_end_is_a_remark(copy_java_store: Copy) -> None:
    store = copy_java_store("store-killed")
    path = store.root / "config/consumerOffset.json"
    path.write_text(json.dumps({"offsetTable": {"LoadA@g": {"0": 999}}}))
    assert any("group g stands at 999" in remark for remark in verify_store(StoreFolder(store.root)).remarks)


def test_the_overview(store_killed: JavaStore) -> None:
    found = overview(StoreFolder(store_killed.root))
    lines = store_killed.of_kind("msg")
    assert sum(one.messages for one in found.queues) == len(lines)
    assert found.log_end == lines[-1]["phy"] + lines[-1]["size"]
    assert (found.abort, found.locked, found.half) == (True, False, 0)
    assert [(one.group, one.lag) for one in found.groups] == [("load_group", 334)]
    for one in found.queues:
        times = [line["storeTimestamp"] for line in lines if (line["topic"], line["queueId"]) == one[:2]]
        assert (one.first_stored, one.last_stored) == (times[0], times[-1])


def test_queues_whose_first_records_retention_took(copy_java_store: Copy) -> None:
    store = copy_java_store("store-killed")
    store.commit_logs[0].unlink()
    kept = [line for line in store.of_kind("msg") if line["phy"] >= 524288]
    found = overview(StoreFolder(store.root))
    assert sum(one.messages for one in found.queues) == len(kept)
    assert verify_store(StoreFolder(store.root)).sound


def test_pending_delays(store_killed: JavaStore) -> None:
    levels = delay_levels(store_killed.root)
    assert [(one.level, one.delay, one.pending) for one in levels] == [
        (1, 1000, 12),
        (2, 5000, 32),
        (3, 10000, 40),
    ]
    assert all(one.first_due <= one.last_due for one in levels)


def test_half_messages_that_no_op_ends(copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    assert list(half_messages(store.root)) == []
    half = [line for line in store.of_kind("msg") if line["topic"] == "RMQ_SYS_TRANS_HALF_TOPIC"]
    (store.root / "config/consumerOffset.json").write_text("{}")
    (store.root / "config/consumerOffset.json.bak").unlink()
    log = store.commit_log
    done = {
        int(decode_record(log, line["phy"]).body)
        for line in store.of_kind("msg")
        if line["topic"] == "RMQ_SYS_TRANS_OP_HALF_TOPIC"
    }
    found = list(half_messages(store.root))
    assert [one.queue_offset for one in found] == [n for n in range(len(half)) if n not in done]
    assert 0 < len(found) < len(half)
    assert overview(StoreFolder(store.root)).half == len(found)
    assert {one.topic for one in found} <= {line["properties"]["REAL_TOPIC"] for line in half}


def test_tables(store_killed: JavaStore, copy_java_store: Copy) -> None:
    assert group_offsets(store_killed.root)[0] == ("load_group", "LoadA", 0, 420)
    assert "SCHEDULE_TOPIC_XXXX" in topics(store_killed.root)
    store = copy_java_store("store-clean")
    expected = group_offsets(store.root)
    (store.root / "config/consumerOffset.json").write_bytes(b"")
    assert group_offsets(store.root) == expected
    (store.root / "checkpoint").unlink()
    assert read_checkpoint(store.root) is None


def test_slots_are_found_out_and_keys_in_their_chain(java_store: JavaStore) -> None:
    record = next(line for line in java_store.of_kind("msg") if "KEYS" in line["properties"])
    key = record["properties"]["KEYS"].split()[0]
    offsets = set()
    for file in index_files(java_store.root):
        with mapped(file) as data:
            index = geometry_of(file, data)
            assert (index.slots, index.capacity) == (INDEX_SLOTS, INDEX_ITEMS)
            load = load_of(data, index)
            assert load.used_slots == index.header.hash_slot_count
            key_hash, slot, links = key_chain(data, index, record["topic"], key)
            assert all(link.item.key_hash % INDEX_SLOTS == slot for link in links)
            offsets |= {link.item.phy_offset for link in links if link.matches}
            assert {link.item.key_hash for link in links if link.matches} <= {key_hash}
    assert record["phy"] in offsets


def zero(path: Path, begin: int, end: int) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:begin] + bytes(end - begin) + data[end:])


def test_a_hole_that_the_next_start_fills_is_recoverable(copy_java_store: Copy) -> None:
    """Power was cut before the pages of a queue were written: records behind the flushed times are dispatched
    again.
    """
    store = copy_java_store("store-killed")
    files = sorted((store.root / "consumequeue/LoadA/0").iterdir())
    zero(files[-1], 400, 800)
    report = verify_store(StoreFolder(store.root))
    assert report.sound
    assert f"{files[-1]}: byte 400: a hole: the next start adds the entries" in report.remarks
    (store.root / "abort").unlink()
    (finding, *_) = verify_store(StoreFolder(store.root)).findings
    assert (finding.path, finding.position) == (files[-1], 400)


def test_a_hole_of_records_that_are_not_dispatched_again_is_damage(copy_java_store: Copy) -> None:
    store = copy_java_store("store-killed")
    path = min((store.root / "consumequeue/LoadA/0").iterdir())
    zero(path, 400, 800)
    assert (path, 400) in [(one.path, one.position) for one in verify_store(StoreFolder(store.root)).findings]
    (store.root / "checkpoint").write_bytes(encode_checkpoint(Checkpoint(1, 1, 1)))
    assert verify_store(StoreFolder(store.root)).sound, "all records are dispatched again"


def test_which_records_are_dispatched_again(store_killed: JavaStore) -> None:
    """It is the file whose first record is 3 s older than the flushed times, the one before it for a ms
    less.
    """
    log = CommitLogFiles(store_killed.root)
    first = next(line for line in store_killed.of_kind("msg") if line["phy"] == log.files[2].base)
    time = first["storeTimestamp"] + 3000
    for flushed, file in ((time, 2), (time - 1, 1), (0, 0)):
        both = Checkpoint(flushed, flushed + 9000), Checkpoint(flushed + 9000, flushed)
        assert {dispatched_again_from(log, one) for one in both} == {log.files[file].base}


def test_a_store_without_any_message(tmp_path: Path) -> None:
    """A broker that never had a message leaves such a folder."""
    (tmp_path / "lock").touch()
    report = verify_store(StoreFolder(tmp_path))
    assert report.sound
    assert report.remarks == ["there is no commit log: no message was ever stored"]
    found = overview(StoreFolder(tmp_path))
    assert (found.queues, found.half, found.log_end) == ([], 0, 0)
    assert list(half_messages(tmp_path)) == []


def test_a_commit_log_that_is_gone(copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    shutil.rmtree(store.root / "commitlog")
    report = verify_store(StoreFolder(store.root))
    assert [str(finding) for finding in report.findings] == [
        f"{store.root}/commitlog: byte 0: there is no commit log, but consume queues have 3,090 entries"
    ]


def test_a_file_that_is_shorter_than_the_others(copy_java_store: Copy) -> None:
    """It has all of its records, but Java's broker refuses it."""
    store = copy_java_store("store-clean")
    path = store.commit_logs[-1]
    with path.open("r+b") as file:
        file.truncate(300_000)
    report = verify_store(StoreFolder(store.root))
    assert report.sound
    (remark,) = report.remarks
    assert remark.startswith(
        f"{path}: 300000 bytes long, not 524288 as others: Java's broker does not start on it"
    )


def test_the_index_is_listed_and_each_table_is_read_once(
    store_clean: JavaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: Counter[tuple[str, Path]] = Counter()
    listing, reading = Path.iterdir, Path.read_bytes

    def counted_listing(path: Path) -> Iterator[Path]:
        done["list", path] += 1
        return listing(path)

    def counted_reading(path: Path) -> bytes:
        done["read", path] += 1
        return reading(path)

    monkeypatch.setattr(Path, "iterdir", counted_listing)
    monkeypatch.setattr(Path, "read_bytes", counted_reading)
    verify_store(StoreFolder(store_clean.root))
    assert done["list", store_clean.root / "index"] == done["read", store_clean.root / "checkpoint"] == 1
    assert [place for place, times in done.items() if times > 1] == []
