"""The extension of consume queues: Java's bytes, reads through addresses, recovery and retention."""

from __future__ import annotations

import shutil
import struct
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rmqcli.broker.disk import REAL, Disk
from rmqcli.broker.store import GetStatus, MessageStore, StoreConfig, open_store
from rmqcli.broker.store.consume_queue_ext import QueueExtension
from rmqcli.broker.testing.disk import SimulatedDisk
from rmqcli.codec.core.hashing import tags_code
from rmqcli.codec.store.consume_queue import ENTRY, ExtensionEntry, is_address, offset_of
from tests.broker.store.support import (
    LOG_SIZE,
    START_MS,
    Clock,
    inline,
    killed,
    loaded,
    message,
    numbers,
    queue_bytes,
    small_config,
)
from tests.codec.store_readers import extension_entries

LOWEST = -(2**63)
BITS = b"\x0f\xf0"
ENTRY_BYTES = 20 + len(BITS)
EXT_SIZE = 4 * ENTRY_BYTES + 10


def extended(root: Path, **settings: Any) -> StoreConfig:
    """Four entries a file."""
    sizes = {"enable_consume_queue_ext": True, "mapped_file_size_consume_queue_ext": EXT_SIZE}
    return small_config(root, **(sizes | settings))


def files(root: Path, topic: str = "TopicA", queue_id: int = 0) -> dict[str, bytes]:
    folder = root / "consumequeue_ext" / topic / str(queue_id)
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())} if folder.is_dir() else {}


def codes(root: Path) -> list[int]:
    """The tags codes of the entries of TopicA/0."""
    return [code for _, _, code in ENTRY.struct.iter_unpack(queue_bytes(root)["TopicA/0"])]


def fill(store: MessageStore, count: int, first: int = 0) -> None:
    store.set_bit_map(lambda topic, properties: BITS)
    for number in range(first, first + count):
        store.writer.append(message(number))


def check(root: Path, count: int) -> None:
    """The address in every entry leads to the tags code of its message."""
    entries = [(name, entry) for name, data in files(root).items() for _, entry in extension_entries(data)]
    assert len(entries) == count
    with_offsets = {
        int(name) + at: entry for name, data in files(root).items() for at, entry in extension_entries(data)
    }
    assert [with_offsets[offset_of(code)].tags_code for code in codes(root)] == [
        tags_code(f"Tag{number % 3}") for number in range(count)
    ]


def test_the_bytes_are_those_of_java(tmp_path: Path) -> None:
    with loaded(extended(tmp_path), Clock()) as store:
        fill(store, 6)
        expected = [
            struct.pack(">hqqh", ENTRY_BYTES, tags_code(f"Tag{number % 3}"), START_MS, len(BITS)) + BITS
            for number in range(6)
        ]
        first, second = f"{0:020d}", f"{EXT_SIZE:020d}"
        assert files(tmp_path) == {
            first: b"".join(expected[:4]) + b"\xff\xff" + bytes(8),
            second: b"".join(expected[4:]).ljust(EXT_SIZE, b"\0"),
        }
        offsets = [0, ENTRY_BYTES, 2 * ENTRY_BYTES, 3 * ENTRY_BYTES, EXT_SIZE, EXT_SIZE + ENTRY_BYTES]
        assert codes(tmp_path) == [LOWEST + offset for offset in offsets]


def test_a_unit_leaves_four_bytes_behind_it(tmp_path: Path) -> None:
    extension = QueueExtension(REAL, tmp_path / "e", 2 * 20 + 4)
    assert [extension.put(n, n) for n in range(3)] == [LOWEST, LOWEST + 20, LOWEST + 44]
    narrow = QueueExtension(REAL, tmp_path / "n", 2 * 20 + 3)
    assert [narrow.put(n, n) for n in range(3)] == [LOWEST, LOWEST + 43, LOWEST + 86]
    assert narrow.get(LOWEST + 43) == ExtensionEntry(1, 1, b"")
    assert [narrow.get(LOWEST + offset) for offset in (20, 21, 42, 200)] == [None] * 4


@pytest.mark.parametrize("bit_map", [bytes(EXT_SIZE), bytes(40_000)], ids=["file too small", "no int16"])
def test_what_does_not_fit_is_left_out(tmp_path: Path, bit_map: bytes) -> None:
    extension = QueueExtension(REAL, tmp_path / "e", EXT_SIZE)
    assert extension.put(77, START_MS, bit_map) == 77
    assert is_address(extension.put(77, START_MS))


def test_a_folder_that_cannot_be_made_costs_only_the_extension(tmp_path: Path) -> None:
    (tmp_path / "consumequeue_ext").touch()
    with loaded(extended(tmp_path)) as store:
        fill(store, 3)
        assert numbers(store, "TopicA", 0) == [0, 1, 2]
        assert codes(tmp_path) == [tags_code(f"Tag{number}") for number in range(3)]


def test_tags_are_found_behind_addresses(tmp_path: Path) -> None:
    wanted = {tags_code("Tag1")}
    with loaded(extended(tmp_path)) as store:
        fill(store, 9)
        found = store.reader.get("TopicA", 0, 0, 32, accepts_code=wanted.__contains__)
        assert (found.status, found.count, found.next_begin_offset) == (GetStatus.FOUND, 3, 9)
        entries = store.search.consume_queue_entries("TopicA", 0, 0, 9)
        assert [code for *_, code in entries] == [tags_code(f"Tag{number % 3}") for number in range(9)]


def test_a_reader_judges_extensions(tmp_path: Path) -> None:
    seen: list[ExtensionEntry | None] = []

    def second(entry: ExtensionEntry | None) -> bool:
        seen.append(entry)
        return len(seen) == 2

    clock = Clock()
    with loaded(extended(tmp_path), clock) as store:
        fill(store, 3)
        found = store.reader.get("TopicA", 0, 0, 32, accepts_extension=second)
        assert (found.count, found.next_begin_offset) == (1, 3)
        assert seen == [ExtensionEntry(tags_code(f"Tag{number}"), START_MS, BITS) for number in range(3)]
    with loaded(small_config(tmp_path / "plain")) as store:
        fill(store, 1)
        assert store.reader.get("TopicA", 0, 0, 32, accepts_extension=lambda entry: entry is None).count == 1


def test_messages_without_bit_map(tmp_path: Path) -> None:
    with loaded(extended(tmp_path), Clock()) as store:
        store.writer.append(message(0))
        (entry,) = [entry for data in files(tmp_path).values() for _, entry in extension_entries(data)]
    assert entry == ExtensionEntry(tags_code("Tag0"), START_MS, b"")


@pytest.mark.parametrize("clean", [True, False])
def test_it_goes_on_where_it_stopped(tmp_path: Path, clean: bool) -> None:
    with loaded(extended(tmp_path / "used")) as store:
        fill(store, 10)
        root = killed(tmp_path / "used", tmp_path / "killed", power_lost=True)
    if clean:
        (root / "abort").unlink()
    with loaded(extended(root)) as store:
        check(root, 10)
        fill(store, 6, 10)
        check(root, 16)
        assert numbers(store, "TopicA", 0) == list(range(16))


def test_records_that_are_lost_take_their_units_with_them(tmp_path: Path) -> None:
    with loaded(extended(tmp_path / "used")) as store:
        fill(store, 10)
        at, _, _ = store.search.consume_queue_entries("TopicA", 0, 6, 1)[0]
        root = killed(tmp_path / "used", tmp_path / "killed", power_lost=True)
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(at)
        file.write(bytes(LOG_SIZE - at))
    with loaded(extended(root)) as store:
        assert numbers(store, "TopicA", 0) == list(range(6))
        check(root, 6)
        fill(store, 3, 6)
        check(root, 9)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("lost", ["all", "last file"])
def test_units_that_are_lost_are_made_again(tmp_path: Path, lost: str, clean: bool) -> None:
    with loaded(extended(tmp_path / "used")) as store:
        fill(store, 10)
        root = killed(tmp_path / "used", tmp_path / "killed", power_lost=True)
    folder = root / "consumequeue_ext"
    if lost == "all":
        shutil.rmtree(folder)
    else:
        max(folder.rglob("0*")).write_bytes(bytes(EXT_SIZE))
    if clean:
        (root / "abort").unlink()
    with loaded(extended(root)) as store:
        check(root, 10)
        assert store.recovery.rebuilt_queues == 1
        assert numbers(store, "TopicA", 0) == list(range(10))


def test_switched_off_everything_passes_and_switched_on_it_goes_on(tmp_path: Path) -> None:
    def nothing(code: int) -> bool:
        return False

    with loaded(extended(tmp_path)) as store:
        fill(store, 5)
    with loaded(small_config(tmp_path)) as store:
        fill(store, 2, 5)
        assert store.reader.get("TopicA", 0, 0, 32, accepts_code=nothing).count == 5
        entries = store.search.consume_queue_entries("TopicA", 0, 0, 7)
        assert [code for *_, code in entries] == [tags_code(f"Tag{number % 3}") for number in range(7)]
    with loaded(extended(tmp_path)) as store:
        fill(store, 2, 7)
        assert store.reader.get("TopicA", 0, 0, 32, accepts_code=nothing).count == 0
        assert [is_address(code) for code in codes(tmp_path)] == [True] * 5 + [False] * 2 + [True] * 2
        assert [offset_of(code) for code in codes(tmp_path)[-2:]] == [
            EXT_SIZE + ENTRY_BYTES,
            EXT_SIZE + 2 * ENTRY_BYTES,
        ]


async def test_files_go_with_the_records_that_they_are_about(tmp_path: Path) -> None:
    with loaded(extended(tmp_path, file_reserved_time=0), Clock(2_000_000_000_000)) as store:
        fill(store, 150)
        before = len(files(tmp_path))
        assert await store.retention.delete_expired_files() > 0
        first = store.search.stored_entries("TopicA", 0, 0, 1)[0]
        assert first[3] is not None
        left = [int(name) for name in files(tmp_path)]
        assert len(left) < before
        assert left[0] + EXT_SIZE >= offset_of(first[2]) >= left[0]
        low = store.search.min_offset("TopicA", 0)
        assert numbers(store, "TopicA", 0) == list(range(low, 150))


async def test_a_topic_that_is_deleted_leaves_nothing(tmp_path: Path) -> None:
    with loaded(extended(tmp_path)) as store:
        fill(store, 10)
        await store.retention.delete_topic("TopicA")
        assert not (tmp_path / "consumequeue_ext" / "TopicA").exists()
        fill(store, 1)
        assert codes(tmp_path) == [LOWEST]


async def test_a_flush_takes_the_extension_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []

    def note(_disk: Disk, paths: list[Path], folders: list[Path]) -> None:
        synced.extend(path.parts[-4] for path in paths)

    monkeypatch.setattr("rmqcli.broker.store.flush.sync_files", note)
    with loaded(extended(tmp_path)) as store:
        fill(store, 6)
        await store._flusher.flush_all_queues()
        assert synced == ["consumequeue_ext"] * 2 + ["consumequeue"]
        await store._flusher.flush_all_queues()
        assert len(synced) == 3
        await _flush_one_more(store, 6)
        assert synced[3:] == ["consumequeue_ext", "consumequeue"], "the last file of each"
    with loaded(extended(tmp_path)) as store:
        await _flush_one_more(store, 7)
        assert synced[5:] == ["consumequeue_ext"] * 2 + ["consumequeue"], "all files, after a kill"


async def _flush_one_more(store: MessageStore, number: int) -> None:
    fill(store, 1, number)
    await store._flusher.flush_all_queues()


@pytest.mark.parametrize("by_code", [True, False], ids=["tags", "properties"])
async def test_cold_pages_of_an_extension_are_read_in_a_worker(by_code: bool) -> None:
    disk, root = SimulatedDisk(), Path("/store")
    config = extended(root)
    async with open_store(config, now_ms=Clock(), store_host=bytes(8), in_thread=inline, disk=disk) as store:
        fill(store, 6)
        disk.forget_pages()
        accepts: Any = (
            {"accepts_code": lambda code: not is_address(code)} if by_code else {"accepts_extension": bool}
        )
        result = await store.when_ready(partial(store.reader.get, "TopicA", 0, 0, 32, **accepts))
        assert result.count == 6
        folder = root / "consumequeue_ext" / "TopicA" / "0"
        assert [disk.cold_pages(path) for path in disk.list(folder)] == [frozenset(), frozenset()]
