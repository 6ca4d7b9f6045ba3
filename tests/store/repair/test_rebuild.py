"""Rebuilt consume queues and index equal, byte for byte, those that Java wrote."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.records.dispatch import DispatchedEntry
from rmqcli.codec.records.encoding import encode_record
from rmqcli.codec.store.consume_queue import ENTRY, FILLER
from rmqcli.store import CommitLogFiles, ConsumeQueueFiles
from rmqcli.store.read.files import DamagedFile
from rmqcli.store.repair import queue_writer, rebuild
from rmqcli.store.repair.queue_writer import MAX_GAP, QueuesWriter
from rmqcli.store.repair.rebuild import Difference, Rebuilt, Shape, build, compare, rebuild_in_place, shape_of
from tests.seeds import seeds
from tests.store.one_by_one import one_by_one
from tests.support import INDEX_ITEMS, INDEX_SLOTS, JavaStore

Copy = Callable[[str], JavaStore]


def test_byte_for_byte_what_java_wrote(java_store: JavaStore, tmp_path: Path) -> None:
    shape = shape_of(java_store.root)
    assert (shape.queue_file_size, shape.index_slots, shape.index_items) == (6000, INDEX_SLOTS, INDEX_ITEMS)
    told: list[int] = []
    built = build(CommitLogFiles(java_store.root), tmp_path, shape, told.append)
    assert compare(java_store.root, tmp_path) == []
    assert built.records == built.entries == len(java_store.of_kind("msg"))
    assert built.index_items == sum(line["indexCount"] - 1 for line in java_store.of_kind("index-file"))
    assert (built.missing, sum(told)) == (0, sum(line["size"] for line in java_store.of_kind("msg")))


_SIZES = {"mappedFileSizeConsumeQueue": "6000", "maxHashSlotNum": "500", "maxIndexNum": "2000"}


def test_sizes_that_no_file_tells(copy_java_store: Copy, tmp_path: Path) -> None:
    """With the broker's own, queues and index equal those that are gone."""
    store = copy_java_store("store-clean")
    gone = tmp_path / "gone"
    gone.mkdir()
    for folder in ("consumequeue", "index"):
        (store.root / folder).rename(gone / folder)
    assert shape_of(store.root).unknown == tuple(_SIZES)
    shape = shape_of(store.root, {**_SIZES, "brokerName": "a"})
    assert shape.unknown == ()
    build(CommitLogFiles(store.root), tmp_path / "new", shape)
    # The names of index files are the times when they were created.
    changes = {one.path.split("/")[0] for one in compare(gone, tmp_path / "new")}
    assert changes <= {"index"}
    old, new = (sorted((folder / "index").iterdir()) for folder in (gone, tmp_path / "new"))
    assert [path.read_bytes() for path in old] == [path.read_bytes() for path in new]


def test_an_index_that_is_gone_hides_no_size_of_queues(copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    shutil.rmtree(store.root / "index")
    assert shape_of(store.root).unknown == ("maxHashSlotNum", "maxIndexNum")
    with pytest.raises(ValueError, match="maxIndexNum: '0' is not a size"):
        shape_of(store.root, {**_SIZES, "maxIndexNum": "0"})


def test_differences_are_named(copy_java_store: Copy, tmp_path: Path) -> None:
    store = copy_java_store("store-clean")
    build(CommitLogFiles(store.root), tmp_path / "new", shape_of(store.root))
    queue = store.root / "consumequeue/SeedNormal/1/00000000000000000000"
    data = bytearray(queue.read_bytes())
    data[123] ^= 1
    queue.write_bytes(data)
    shutil.rmtree(store.root / "consumequeue/SeedNormal/2")
    (store.root / "consumequeue/Old/0").mkdir(parents=True)
    (store.root / "consumequeue/Old/0/00000000000000000000").touch()
    assert compare(store.root, tmp_path / "new") == [
        Difference("consumequeue/Old/0/00000000000000000000", "gone"),
        Difference("consumequeue/SeedNormal/1/00000000000000000000", "changed", 123),
        Difference("consumequeue/SeedNormal/2/00000000000000000000", "new"),
        Difference("consumequeue/SeedNormal/2/00000000000000006000", "new"),
    ]


def test_the_old_ones_are_kept(copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    work = store.root / "work"
    build(CommitLogFiles(store.root), work, shape_of(store.root))
    kept = rebuild_in_place(store.root, work, "1")
    assert [path.name for path in kept] == ["consumequeue.old-1", "index.old-1"]
    assert all(path.is_dir() for path in kept)
    assert (store.root / "consumequeue/SeedNormal/1/00000000000000000000").exists()


def entry_of(queue_offset: int) -> DispatchedEntry:
    return DispatchedEntry("T", 0, queue_offset, 1000 + queue_offset, 100, 7)


def written(tmp_path: Path, *offsets: int) -> bytes:
    writer = QueuesWriter(tmp_path, 200)
    for offset in offsets:
        writer.put(entry_of(offset))
    writer.finish()
    return b"".join(path.read_bytes() for path in sorted((tmp_path / "T/0").iterdir()))


def test_a_queue_that_starts_late_is_filled(tmp_path: Path) -> None:
    data = written(tmp_path, 13, 14)
    assert data == FILLER * 3 + ENTRY.pack(1013, 100, 7) + ENTRY.pack(1014, 100, 7) + bytes(100)
    assert ConsumeQueueFiles(tmp_path / "T/0").bounds() == (13, 15)


def test_a_queue_that_begins_again_forgets_what_was(tmp_path: Path) -> None:
    assert written(tmp_path, 0, 1, 2, 0)[:40] == ENTRY.pack(1000, 100, 7) + bytes(20)


def test_a_gap_holds_fillers_and_a_large_one_is_an_error(tmp_path: Path) -> None:
    assert written(tmp_path, 0, 2)[20:40] == FILLER
    writer = QueuesWriter(tmp_path / "other", 200)
    writer.put(entry_of(0))
    with pytest.raises(CorruptionError, match="follows 0"):
        writer.put(entry_of(MAX_GAP + 2))


@pytest.mark.parametrize("topic", ["", "..", "a/b"])
def test_a_topic_that_is_no_folder(tmp_path: Path, topic: str) -> None:
    with pytest.raises(CorruptionError):
        QueuesWriter(tmp_path).put(entry_of(0)._replace(topic=topic))


_PROPERTIES = (
    b"",
    b"KEYS\x01b a  b c\x02UNIQ_KEY\x01u\x02TAGS\x01t\x02",
    b"TAGS\x01\x02TAGS\x01x\x02KEYS\x01 \x02",
    b"KEYS\x01k\xc3\xa4\xf0\x9f\x98\x80 z\x02TAGS\x01\xff\x02",
    b"UNIQ_KEY\x01v\x02KEYS\x01one\x02KEYS\x01two three",
    b"\x01x\x02bad\x02TAGS\x01a\x01b\x02",
    b"DELAY\x012\x02KEYS\x01d\x02",
    b"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02INNER_MULTI_QUEUE_OFFSET\x013,4\x02",
)


def random_log(folder: Path, chance: random.Random, properties: tuple[bytes, ...]) -> CommitLogFiles:
    """Makes records of a few queues, with transactions and gaps among them."""
    folder.mkdir()
    offsets: dict[tuple[bytes, int], int] = {}
    data, topics = b"", chance.choice([[b"A", b"SCHEDULE_TOPIC_XXXX"], [b"A", "Ä".encode()]])
    for number in range(chance.randrange(1, 400)):
        key = chance.choice(topics), chance.randrange(2)
        offsets[key] = offsets.get(key, chance.choice([0, 7])) + chance.choice([1] * 30 + [3])
        data += encode_record(
            topic=key[0],
            queue_id=key[1],
            flag=0,
            queue_offset=max(offsets[key], 0),
            physical_offset=len(data),
            sys_flag=chance.choice([0, 0, 0, 4, 8, 12]),
            born_timestamp=1,
            born_host=bytes(8),
            store_timestamp=1_000_000 + number * 700,
            store_host=bytes(8),
            reconsume_times=0,
            prepared_transaction_offset=0,
            body=b"body",
            properties=chance.choice(properties),
        )
    (folder / "00000000000000000000").write_bytes(data + bytes(1000))
    return CommitLogFiles(folder)


def outcome(attempt: Callable[[], Rebuilt]) -> Rebuilt | str:
    """What was built, or the text of the refusal: the offsets of light queues go back in random logs."""
    try:
        return attempt()
    except DamagedFile as refusal:
        return str(refusal)


@pytest.mark.parametrize(("before", "after"), [([0, 1, 2], 1), ([0, 1, 2, 0], 3), ([5, 6], 3)])
def test_a_queue_offset_that_goes_back_is_refused(tmp_path: Path, before: list[int], after: int) -> None:
    """Only a topic that was created again begins again, and that at 0: all entries before would be dropped."""
    writer = QueuesWriter(tmp_path)
    for offset in before:
        writer.put(entry_of(offset))
    with pytest.raises(CorruptionError, match=f"offset {after} follows {before[-1]}"):
        writer.put(entry_of(after))


@pytest.mark.parametrize("seed", seeds(5))
def test_blocks_give_what_records_do(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    log = random_log(tmp_path / "log", chance, _PROPERTIES[: chance.randrange(1, len(_PROPERTIES) + 1)])
    shape = Shape(200, 50, 100)
    told: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rebuild, "_BLOCK_RECORDS", 50)
        fast = outcome(lambda: build(log, tmp_path / "fast", shape, told.append))
    with one_by_one():
        assert outcome(lambda: build(log, tmp_path / "slow", shape)) == fast
    if isinstance(fast, str):
        return
    assert compare(tmp_path / "slow", tmp_path / "fast") == []
    assert sum(told) == log.files[0].size - 1000


def test_few_records_are_left_to_the_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_clean: JavaStore
) -> None:
    """Otherwise nothing would be compared."""
    left: list[object] = []

    def noted(record: object, *_: object) -> tuple[()]:
        left.append(record)
        return ()

    monkeypatch.setattr(rebuild, "queue_entries", noted)
    records = build(CommitLogFiles(store_clean.root), tmp_path, shape_of(store_clean.root)).records
    assert len(left) < records // 4


def test_queues_that_are_written_before_they_are_many_bytes(
    store_clean: JavaStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_writer, "_ALL_BUFFERED", 1 << 12)
    largest = 0
    add = QueuesWriter._add

    def noted(writer: QueuesWriter, size: int) -> None:
        nonlocal largest
        add(writer, size)
        largest = max(largest, sum(len(queue._buffer) for queue in writer.queues.values()))

    monkeypatch.setattr(QueuesWriter, "_add", noted)
    build(CommitLogFiles(store_clean.root), tmp_path, shape_of(store_clean.root))
    assert compare(store_clean.root, tmp_path) == []
    assert 0 < largest < 1 << 13


@pytest.mark.parametrize(
    ("old", "new", "position"),
    [
        ({0: b"a", 20_000: b"b"}, {0: b"a", 20_000: b"b"}, None),
        ({0: b"a", 20_000: b"bcd"}, {0: b"a", 20_000: b"bce"}, 20_002),
        ({0: b"a"}, {0: b"a", 30_001: b"z", 50_000: b"y"}, 30_001),
        ({0: b"a", 100_000: b"x"}, {0: b"a"}, 100_000),
        ({199_999: b"a"}, {199_999: b"b"}, 199_999),
    ],
)
def test_files_with_holes_are_compared(
    tmp_path: Path, old: dict[int, bytes], new: dict[int, bytes], position: int | None
) -> None:
    for name, written in (("old", old), ("new", new)):
        path = tmp_path / name / "index" / "one"
        path.parent.mkdir(parents=True)
        with path.open("wb") as file:
            file.truncate(200_000)
            for place, data in written.items():
                file.seek(place)
                file.write(data)
    expected = [] if position is None else [Difference("index/one", "changed", position)]
    assert compare(tmp_path / "old", tmp_path / "new") == expected
    with (tmp_path / "new/index/one").open("r+b") as file:
        file.truncate(150_000)
    at = min(150_000, 1 << 30 if position is None else position)
    assert compare(tmp_path / "old", tmp_path / "new") == [Difference("index/one", "changed", at)]
