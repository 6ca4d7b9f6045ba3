"""Whatever is damaged, every record outside of it is in the new store, which is sound."""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rmqcli.codec.message import MessageExt
from rmqcli.codec.records.reading import decode_record
from rmqcli.codec.store.consume_queue import ENTRY
from rmqcli.store import CommitLogFiles, queue_folders, verify_commit_log, verify_consume_queues
from rmqcli.store.read.files import NamedFile
from rmqcli.store.read.folder import StoreFolder
from rmqcli.store.repair import salvage_scan
from rmqcli.store.repair.rebuild import compare
from rmqcli.store.repair.salvage import LOST, salvage
from rmqcli.store.repair.salvage_scan import scan_log
from rmqcli.store.verify.store import verify_store
from tests.seeds import seeds
from tests.support import COMMIT_LOG_FILE_SIZE, JavaStore

Copy = Callable[[str], JavaStore]
_BLOCK = 50


def messages_of(store: Path) -> Iterator[MessageExt]:
    for place, data in CommitLogFiles(store).records():
        yield decode_record(data, place.position)


def damage(data: bytearray, chance: random.Random) -> tuple[int, int]:
    """Overwrites a random stretch with noise, zeros, ones or a copy of other bytes; returns its bounds."""
    begin = chance.randrange(len(data))
    end = min(begin + int(2 ** chance.uniform(0, 15)), len(data))
    size = end - begin
    elsewhere = chance.randrange(len(data) - size)
    kinds = (chance.randbytes(size), bytes(size), b"\xff" * size, bytes(data[elsewhere : elsewhere + size]))
    data[begin:end] = chance.choice(kinds)
    return begin, end


@pytest.mark.parametrize("block", seeds(3))
def test_every_record_outside_of_a_damage_is_found(java_store: JavaStore, tmp_path: Path, block: int) -> None:
    """`_BLOCK` damages of a folder, one at a time."""
    records = defaultdict(list)
    for line in java_store.of_kind("msg"):
        records[line["phy"] // COMMIT_LOG_FILE_SIZE].append((line["phy"], line["phy"] + line["size"]))
    for seed in range(block * _BLOCK, (block + 1) * _BLOCK):
        chance = random.Random(seed)
        number = chance.randrange(len(java_store.commit_logs) - 1)
        source = java_store.commit_logs[number]
        base = number * COMMIT_LOG_FILE_SIZE
        data = bytearray(source.read_bytes())
        begin, end = damage(data, chance)
        path = tmp_path / source.name
        path.write_bytes(data)
        log = CommitLogFiles(path)
        log.files = [NamedFile(path, base, len(data))]
        kept = [run for file in scan_log(log).files for run in file.kept]
        assert len(data) == COMMIT_LOG_FILE_SIZE and records[number]
        for first, last in records[number]:
            if last - base <= begin or first - base >= end:
                assert any(low <= first and last <= high for low, high in kept), (seed, first)


@pytest.mark.parametrize("seed", seeds(8))
def test_blocks_find_what_records_do(store_clean: JavaStore, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(store_clean.commit_logs[1].read_bytes())
    for _ in range(chance.randrange(4)):
        damage(data, chance)
    path = tmp_path / store_clean.commit_logs[1].name
    path.write_bytes(data)
    told: list[int] = []
    found = scan_log(CommitLogFiles(path), told.append)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(salvage_scan, "_STRETCH_BYTES", 1)
        assert scan_log(CommitLogFiles(path)) == found
    assert sum(told) == len(data)


@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("name", ["store-clean", "store-killed"])
def test_the_new_store_is_sound(copy_java_store: Copy, tmp_path: Path, name: str, seed: int) -> None:
    chance = random.Random(seed)
    store = copy_java_store(name)
    before = {message.commit_log_offset: message for message in messages_of(store.root)}
    damaged: list[tuple[int, int]] = []
    for _ in range(chance.randint(1, 8)):
        number = chance.randrange(len(store.commit_logs) - 1)
        data = bytearray(store.commit_logs[number].read_bytes())
        base = number * COMMIT_LOG_FILE_SIZE
        begin, end = damage(data, chance)
        store.commit_logs[number].write_bytes(data)
        damaged.append((base + begin, base + end))
    if seed % 4 == 1:
        shutil.rmtree(store.root / "consumequeue")
    out = tmp_path / "salvaged"
    result = salvage(store.root, out)
    log = verify_commit_log(CommitLogFiles(out))
    assert log.findings == []
    assert verify_consume_queues(queue_folders(out)).findings == []
    after = {message.commit_log_offset: message for message in messages_of(out)}
    for offset, message in before.items():
        if not any(begin < offset + message.store_size and offset < end for begin, end in damaged):
            assert after[offset] == message
    assert log.items >= result.records
    if seed % 4 != 1:
        _check_queues(store, out)


def _check_queues(store: JavaStore, out: Path) -> None:
    """Checks that no queue is shorter, and that every message that is not a stand-in is the old one."""
    for queue in queue_folders(store.root):
        assert queue.topic is not None
        copy = out / "consumequeue" / queue.topic / str(queue.queue_id)
        if queue.topic in ("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC") or not copy.exists():
            continue
        (found,) = queue_folders(copy)
        assert found.files.bounds()[1] == queue.files.bounds()[1]
        if found.files.bounds() == queue.files.bounds():
            numbers = [entry.queue_offset for entry in found.files.entries()]
            assert numbers == list(range(*queue.files.bounds()))


def test_a_sound_store_is_copied(java_store: JavaStore, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = salvage(java_store.root, out)
    assert (result.lost, result.gone, result.placed) == ([], [], 0)
    assert result.records == len(java_store.of_kind("msg"))
    assert compare(java_store.root, out) == []
    for path in (out / "commitlog").iterdir():
        assert path.read_bytes() == (java_store.root / "commitlog" / path.name).read_bytes()


def test_lost_offsets_are_named_and_stood_for(copy_java_store: Copy, tmp_path: Path) -> None:
    store = copy_java_store("store-clean")
    lines = store.of_kind("msg")[100:103]
    data = bytearray(store.commit_logs[0].read_bytes())
    for line in lines:
        data[line["phy"] + 90] ^= 1
    store.commit_logs[0].write_bytes(data)
    result = salvage(store.root, tmp_path / "out")
    assert [(stretch.begin, stretch.end) for stretch in result.lost] == [
        (lines[0]["phy"], lines[2]["phy"] + lines[2]["size"])
    ]
    gone = {(line["topic"], line["queueId"], line["queueOffset"]) for line in lines}
    assert {(topic, queue, n) for topic, queue, a, b in result.gone for n in range(a, b + 1)} == gone
    marked = [message for message in messages_of(tmp_path / "out") if LOST in message.properties]
    assert {(message.topic, message.queue_id, message.queue_offset) for message in marked} == gone
    assert all(message.body == b"" for message in marked)


def test_a_missing_file_and_a_cut_one(copy_java_store: Copy, tmp_path: Path) -> None:
    store = copy_java_store("store-clean")
    lines = store.of_kind("msg")
    store.commit_logs[1].unlink()
    with store.commit_logs[-1].open("r+b") as file:
        file.truncate(1000)
    result = salvage(store.root, tmp_path / "out")
    assert result.lost[0][:3] == (524288, 1048576, "the file is missing")
    kept = {message.commit_log_offset for message in messages_of(tmp_path / "out")}
    last = 1572864 + 1000
    expected = {
        line["phy"]
        for line in lines
        if line["phy"] + line["size"] <= last and not 524288 <= line["phy"] < 1048576
    }
    assert expected <= kept
    assert verify_commit_log(CommitLogFiles(tmp_path / "out")).sound
    assert result.lost[-1][:3] == (
        1572864,
        lines[-1]["phy"] + lines[-1]["size"],
        "the end of the log is missing, as consume queues show",
    )


def test_entries_that_lead_anywhere_are_no_lost_bytes(copy_java_store: Copy, tmp_path: Path) -> None:
    store = copy_java_store("store-clean")
    with (store.root / "consumequeue/SeedNormal/0/00000000000000000000").open("r+b") as file:
        file.seek(20 * 299)
        file.write((1 << 60).to_bytes(8, "big"))
    assert salvage(store.root, tmp_path / "out").lost == []


def test_a_changed_queue_offset_is_found_by_the_queues(copy_java_store: Copy, tmp_path: Path) -> None:
    """No CRC covers it."""
    store = copy_java_store("store-clean")
    line = store.of_kind("msg")[500]
    data = bytearray(store.commit_logs[line["phy"] // 524288].read_bytes())
    data[line["phy"] % 524288 + 27] ^= 0x40
    store.commit_logs[line["phy"] // 524288].write_bytes(data)
    result = salvage(store.root, tmp_path / "out")
    assert [stretch.begin for stretch in result.lost] == [line["phy"]]
    assert result.gone == [(line["topic"], line["queueId"], line["queueOffset"], line["queueOffset"])]
    assert verify_consume_queues(queue_folders(tmp_path / "out")).sound


def test_a_record_that_another_queue_lacks_is_lost_there(copy_java_store: Copy, tmp_path: Path) -> None:
    """Its queue id names a queue without another record, of which those before it may be lost, too."""
    store = copy_java_store("store-clean")
    line = store.of_kind("msg")[500]
    assert line["queueOffset"] > 0
    with store.commit_logs[line["phy"] // COMMIT_LOG_FILE_SIZE].open("r+b") as file:
        file.seek(line["phy"] % COMMIT_LOG_FILE_SIZE + 12)
        file.write((47_872).to_bytes(4, "big"))
    with store.commit_logs[0].open("r+b") as file:
        file.write(bytes(store.of_kind("msg")[0]["size"]))
    result = salvage(store.root, tmp_path / "out")
    assert [stretch.begin for stretch in result.lost] == [0, line["phy"]]
    assert (line["topic"], line["queueId"], line["queueOffset"], line["queueOffset"]) in result.gone
    assert result.placed == 2
    assert verify_store(StoreFolder(tmp_path / "out")).sound
    _check_queues(store, tmp_path / "out")


def swap(one: Path, other: Path) -> None:
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def test_exchanged_log_files_are_put_in_their_places(copy_java_store: Copy, tmp_path: Path) -> None:
    store = copy_java_store("store-clean")
    before = {path.name: path.read_bytes() for path in store.commit_logs}
    swap(*store.commit_logs[:2])
    result = salvage(store.root, tmp_path / "out")
    first, second = sorted(before)[:2]
    assert (result.lost, result.gone) == ([], [])
    assert result.notes == [
        f"commitlog/{second} holds the records of {first}",
        f"commitlog/{first} holds the records of {second}",
    ]
    assert {path.name: path.read_bytes() for path in (tmp_path / "out/commitlog").iterdir()} == before


@pytest.mark.parametrize("seed", range(4))
def test_swapped_queue_files_cost_no_record(copy_java_store: Copy, tmp_path: Path, seed: int) -> None:
    """The log is sound: whatever its queues say, nothing of it is lost."""
    store = copy_java_store("store-clean")
    before = {message.commit_log_offset: message for message in messages_of(store.root)}
    files = [path for path in sorted((store.root / "consumequeue").rglob("*")) if path.is_file()]
    swap(*random.Random(seed).sample(files, 2))
    result = salvage(store.root, tmp_path / "out")
    assert (result.lost, result.gone, result.records) == ([], [], len(before))
    assert {message.commit_log_offset: message for message in messages_of(tmp_path / "out")} == before
    assert verify_store(StoreFolder(tmp_path / "out")).sound


def test_swapped_queue_files_name_no_lost_offset(copy_java_store: Copy, tmp_path: Path) -> None:
    """Their entries lead into the lost stretch, but not from these queues."""
    store = copy_java_store("store-clean")
    folder = store.root / "consumequeue"
    swap(folder / "SeedNormal/0" / f"{0:020d}", folder / "SeedTags/0" / f"{0:020d}")
    lost = [line for line in store.of_kind("msg") if line["phy"] < 40_000]
    with store.commit_logs[0].open("r+b") as file:
        file.write(bytes(lost[-1]["phy"] + lost[-1]["size"]))
    gone = salvage(store.root, tmp_path / "out").gone
    found = {(topic, queue, n) for topic, queue, a, b in gone for n in range(a, b + 1)}
    assert found <= {(line["topic"], line["queueId"], line["queueOffset"]) for line in lost}


def test_entries_that_contradict_the_order_of_the_log_name_no_lost_offset(
    copy_java_store: Copy, tmp_path: Path
) -> None:
    """The file of a queue leads into the lost stretch only, and has more entries than the queue has records."""
    store = copy_java_store("store-clean")
    key = "SeedCompressed", 0
    of_queue = [line["phy"] for line in store.of_kind("msg") if (line["topic"], line["queueId"]) == key]
    begin = 2 * COMMIT_LOG_FILE_SIZE
    assert begin < of_queue[0] and len(of_queue) == 30
    with store.commit_logs[2].open("r+b") as file:
        file.write(bytes(of_queue[10] - begin))
    entries = b"".join(ENTRY.pack(begin + 100 * number, 100, 0) for number in range(60))
    path = store.root / "consumequeue/SeedCompressed/0" / f"{0:020d}"
    path.write_bytes(entries.ljust(6000, b"\0"))
    gone = salvage(store.root, tmp_path / "out").gone
    assert [run for run in gone if run[:2] == key] == [(*key, 0, 9)]
    assert verify_store(StoreFolder(tmp_path / "out")).sound


@pytest.mark.parametrize("offset", [70_000, 1, -5, 1 << 60])
def test_a_queue_offset_that_breaks_the_sequence(copy_java_store: Copy, tmp_path: Path, offset: int) -> None:
    """Without queues the log alone shows it; only this record is lost."""
    store = copy_java_store("store-clean")
    shutil.rmtree(store.root / "consumequeue")
    line = store.of_kind("msg")[500]
    path, place = store.commit_logs[line["phy"] // 524288], line["phy"] % 524288
    with path.open("r+b") as file:
        file.seek(place + 20)
        file.write(offset.to_bytes(8, "big", signed=True))
    result = salvage(store.root, tmp_path / "out")
    assert [(one.begin, one.reason) for one in result.lost] == [
        (line["phy"], f"a queue offset of {offset} cannot be")
    ]
    assert result.records == len(store.of_kind("msg")) - 1
    assert verify_store(StoreFolder(tmp_path / "out")).sound


@pytest.mark.parametrize("cut", [(0,), (1, 2), (0, 3)])
def test_files_that_are_cut_off(copy_java_store: Copy, tmp_path: Path, cut: tuple[int, ...]) -> None:
    """The names tell the size that all files had."""
    store = copy_java_store("store-clean")
    for path in store.commit_logs[2:]:
        path.unlink()
    for number in {number % 2 for number in cut}:
        with store.commit_logs[number].open("r+b") as file:
            file.truncate(5000 + number)
    salvage(store.root, tmp_path / "out")
    assert {path.stat().st_size for path in (tmp_path / "out/commitlog").iterdir()} == {524288}


def test_properties_that_do_not_parse_are_left_out(copy_java_store: Copy, tmp_path: Path) -> None:
    store = copy_java_store("store-clean")
    line = store.of_kind("msg")[5]
    data = bytearray(store.commit_logs[0].read_bytes())
    data[line["phy"] + line["size"] - 3] = 0xFF
    store.commit_logs[0].write_bytes(data)
    result = salvage(store.root, tmp_path / "out")
    assert (result.lost, result.gone, result.mended) == ([], [], [line["phy"]])
    (found,) = [one for one in messages_of(tmp_path / "out") if one.commit_log_offset == line["phy"]]
    missing = line["properties"].keys() - found.properties.keys()
    assert len(missing) == 1
    assert found.properties == {k: v for k, v in line["properties"].items() if k not in missing}
    assert verify_commit_log(CommitLogFiles(tmp_path / "out")).sound


def test_only_into_an_empty_folder(store_clean: JavaStore, tmp_path: Path) -> None:
    (tmp_path / "something").touch()
    with pytest.raises(FileExistsError):
        salvage(store_clean.root, tmp_path)


@pytest.mark.parametrize(
    ("at", "byte"), [(-1, ord("/")), (9 - 88, 0xFF)], ids=["a topic that is no folder", "a negative queue"]
)
def test_a_topic_or_queue_that_cannot_be(copy_java_store: Copy, tmp_path: Path, at: int, byte: int) -> None:
    """No CRC covers these, and without its queue nothing contradicts them: only this record is lost."""
    store = copy_java_store("store-clean")
    shutil.rmtree(store.root / "consumequeue")
    line = store.of_kind("msg")[20]
    place = line["phy"] + 12 if at != -1 else store.commit_log.index(b"SeedNormal", line["phy"]) + 2
    with store.commit_logs[0].open("r+b") as file:
        file.seek(place)
        file.write(bytes([byte]))
    found = salvage(store.root, tmp_path / "out")
    assert [(stretch.begin, stretch.end) for stretch in found.lost] == [
        (line["phy"], line["phy"] + line["size"])
    ]
    assert "there is no topic " in found.lost[0].reason
    assert found.records == len(store.of_kind("msg")) - 1
    assert verify_store(StoreFolder(tmp_path / "out")).sound
