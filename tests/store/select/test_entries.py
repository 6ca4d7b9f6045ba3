"""Queue entries chosen by message key are those whose decoded messages have it, whatever is damaged."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqcli.codec.core.record_tests import RecordTest
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.message import MessageExt
from rmqcli.codec.records import reading
from rmqcli.codec.store.consume_queue import ENTRY, ENTRY_SIZE, FILLER
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.store import QueueEntry, queue_folders
from rmqcli.store.read import commit_log
from rmqcli.store.read.commit_log import Found, LogReader
from rmqcli.store.select.entries import EntryChoice
from tests.seeds import seeds
from tests.support import JavaStore

Copy = Callable[[str], JavaStore]
Chosen = list[tuple[str | None, int | None, QueueEntry]] | str

EVERYTHING = OffsetRange()


def found(
    root: Path, key: str, wanted: OffsetRange = EVERYTHING, reader: Callable[[Path], LogReader] = LogReader
) -> Chosen:
    entries: list[tuple[str | None, int | None, QueueEntry]] = []
    with reader(root) as log:
        choice = EntryChoice(wanted, key=key, log=log)
        try:
            for queue in queue_folders(root):
                entries += [(queue.topic, queue.queue_id, entry) for _, entry in choice.of(queue)]
        except CorruptionError as error:
            return f"{len(entries)} entries, then {error}"
    return entries


class Untested(LogReader):
    """Reads every record that an entry names."""

    def read(self, offset: int, test: RecordTest | None = None) -> Found | None:
        return super().read(offset)


def both(root: Path, key: str, wanted: OffsetRange = EVERYTHING) -> tuple[Chosen, Chosen]:
    return found(root, key, wanted), found(root, key, wanted, Untested)


def test_the_same_ones(store_clean: JavaStore) -> None:
    for key, wanted, count in (
        ("key-7", EVERYTHING, 1),
        ("grp-0", EVERYTHING, 150),
        ("grp-0", OffsetRange(begin=3, end=9), 2),
        ("grp-0", OffsetRange(last=2), 4),
        ("no such key", EVERYTHING, 0),
    ):
        many, one_by_one = both(store_clean.root, key, wanted)
        assert many == one_by_one
        assert len(many) == count


def test_few_messages_are_decoded(store_clean: JavaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    decode, calls = reading.decode_record, list[int]()

    def counted(data: memoryview, position: int) -> MessageExt:
        calls.append(position)
        return decode(data, position)

    monkeypatch.setattr(commit_log, "decode_record", counted)
    assert len(found(store_clean.root, "key-7")) == 1
    assert 1 <= len(calls) < 120


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
