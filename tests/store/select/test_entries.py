"""Queue entries chosen by message key are the same with NumPy and one by one, whatever is damaged."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.records.filter import RecordFilter
from rmqcli.codec.store.consume_queue import ENTRY, ENTRY_SIZE, FILLER
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.store import QueueEntry, queue_folders
from rmqcli.store.read.commit_log import LogReader
from rmqcli.store.read.vectorised import vectorising
from rmqcli.store.select import entries as entries_module
from rmqcli.store.select.entries import EntryChoice
from tests.seeds import seeds
from tests.support import JavaStore

Copy = Callable[[str], JavaStore]
Found = list[tuple[str | None, int | None, QueueEntry]] | str

EVERYTHING = OffsetRange()


def found(
    root: Path, key: str, wanted: OffsetRange = EVERYTHING, reader: Callable[[Path], LogReader] = LogReader
) -> Found:
    entries: list[tuple[str | None, int | None, QueueEntry]] = []
    with reader(root) as log:
        choice = EntryChoice(wanted, key=key, log=log)
        try:
            for queue in queue_folders(root):
                entries += [(queue.topic, queue.queue_id, entry) for _, entry in choice.of(queue)]
        except CorruptionError as error:
            return f"{len(entries)} entries, then {error}"
    return entries


def both(root: Path, key: str, wanted: OffsetRange = EVERYTHING, block: int = 1 << 14) -> tuple[Found, Found]:
    with vectorising(enabled=False):
        one_by_one = found(root, key, wanted)
    with vectorising(block_records=block):
        return found(root, key, wanted), one_by_one


@pytest.mark.parametrize("block", [7, 1 << 14])
def test_the_same_ones(store_clean: JavaStore, block: int) -> None:
    for key, wanted, count in (
        ("key-7", EVERYTHING, 1),
        ("grp-0", EVERYTHING, 150),
        ("grp-0", OffsetRange(begin=3, end=9), 2),
        ("grp-0", OffsetRange(last=2), 4),
        ("no such key", EVERYTHING, 0),
    ):
        many, one_by_one = both(store_clean.root, key, wanted, block)
        assert many == one_by_one
        assert len(many) == count


def test_few_records_are_read(store_clean: JavaStore) -> None:
    read: list[int] = []

    class FindsNothing(LogReader):
        def read(self, offset: int) -> None:
            read.append(offset)

    assert found(store_clean.root, "key-7", reader=FindsNothing) == []
    assert 1 <= len(read) < 120


def test_what_retention_took(copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    store.commit_logs[0].unlink()
    for key, count in (("key-7", 0), ("key-1400", 1)):
        many, one_by_one = both(store.root, key)
        assert many == one_by_one
        assert len(many) == count


def test_fillers(copy_java_store: Copy) -> None:
    """They resemble entries of the first record."""
    store = copy_java_store("store-clean")
    queue = store.root / "consumequeue/SeedNormal/0/00000000000000000000"
    raw = queue.read_bytes()
    assert len(both(store.root, "key-0")[0]) == 1
    queue.write_bytes(raw[ENTRY_SIZE : 2 * ENTRY_SIZE] + FILLER * 40 + raw[41 * ENTRY_SIZE :])
    (files,) = (one.files for one in queue_folders(queue.parent))
    with LogReader(store.root) as log:
        looked_at = entries_module.candidate_entries(files, 0, 375, log, RecordFilter("key-0"))
        assert not any(entry.is_filler for entry in looked_at)
    assert both(store.root, "key-0") == ([], [])


@pytest.mark.parametrize("seed", seeds(3))
def test_damage(copy_java_store: Copy, seed: int) -> None:
    chance = random.Random(seed)
    store = copy_java_store("store-clean")
    topic = store.root / "consumequeue/SeedNormal"
    for path in (chance.choice(store.commit_logs), *topic.glob("*/00000000000000000000")):
        data = bytearray(path.read_bytes())
        for _ in range(chance.randrange(3)):
            at = chance.randrange(len(data) - 300)
            data[at : at + 8] = chance.randbytes(8)
        path.write_bytes(data)
    swapped = topic / "1/00000000000000000000"
    entries = list(ENTRY.iter_unpack(swapped.read_bytes()))
    chance.shuffle(entries)
    swapped.write_bytes(b"".join(ENTRY.pack(*entry) for entry in entries))
    for key in ("key-7", "grp-0"):
        many, one_by_one = both(store.root, key)
        assert many == one_by_one
