"""Findings with what is known to agree and without: the same, whatever is damaged, in a store of many records of one shape."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rmqcli.codec.codes import MessageSysFlag
from rmqcli.codec.records.encoding import encode_filler
from rmqcli.codec.store.file_names import file_name
from rmqcli.codec.store.index_file import IndexHeader
from rmqcli.store import CommitLogFiles
from rmqcli.store.read.folder import StoreFolder
from rmqcli.store.repair.rebuild import Shape, build
from rmqcli.store.verify.store import verify_store
from rmqcli.store.workers import Workers
from tests.codec.samples import make_record
from tests.seeds import seeds
from tests.store.damage import damage, said
from tests.store.one_by_one import one_by_one

RECORDS = 4000
FILE_SIZE = 512 * 1024
TOPICS = (b"TopicA", b"TopicB", b"%RETRY%group", b"SCHEDULE_TOPIC_XXXX", "\u4e2d".encode())
_BLOCK = 8


def record(number: int, offset: int, begun: dict[tuple[bytes, int], int]) -> bytes:
    """Few records are unusual, so the others are read by columns."""
    topic = TOPICS[number % 40 % len(TOPICS)] if number % 40 < 10 else TOPICS[number % 2]
    flag = MessageSysFlag.TRANSACTION_PREPARED if number % 97 == 0 else 0
    flag = MessageSysFlag.TRANSACTION_ROLLBACK if number % 101 == 0 else flag
    properties = b"KEYS\x01key%05d\x02UNIQ_KEY\x01C0000202%08d\x02TAGS\x01tag%d" % (
        number,
        number,
        number % 10,
    )
    if number % 61 == 0:
        properties = b"KEYS\x01one two %d" % number
    key = topic, number % 3
    queue_offset = begun.get(key, 0)
    begun[key] = queue_offset + (flag == 0)
    return make_record(
        topic=topic,
        queue_id=key[1],
        queue_offset=queue_offset,
        physical_offset=offset,
        sys_flag=int(flag),
        store_timestamp=1795224776043 + number * 100,
        properties=properties,
    )


def write_log(folder: Path) -> None:
    folder.mkdir()
    begun: dict[tuple[bytes, int], int] = {}
    data, base = bytearray(), 0
    for number in range(RECORDS):
        one = record(number, base + len(data), begun)
        if len(data) + len(one) + 8 > FILE_SIZE:
            data += encode_filler(FILE_SIZE - len(data))
            (folder / file_name(base)).write_bytes(data.ljust(FILE_SIZE, b"\0"))
            data, base = bytearray(), base + FILE_SIZE
            one = record(number, base, {**begun, **_back(begun, number)})
        data += one
    (folder / file_name(base)).write_bytes(data.ljust(FILE_SIZE, b"\0"))


def _back(begun: dict[tuple[bytes, int], int], number: int) -> dict[tuple[bytes, int], int]:
    """Returns the queue offset that the record, which begins a file, was given first."""
    again: dict[tuple[bytes, int], int] = {}
    record(number, 0, again)
    return {key: begun[key] - count for key, count in again.items()}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agreement")
    write_log(folder / "commitlog")
    shape = Shape(queue_file_size=300 * 20, index_slots=500, index_items=3000)
    build(CommitLogFiles(folder), folder, shape)
    return folder


def both_ways(store: Path) -> tuple[dict[str, object], dict[str, object]]:
    at_once = said(verify_store(StoreFolder(store)))
    with one_by_one():
        return at_once, said(verify_store(StoreFolder(store)))


@pytest.mark.parametrize("block", seeds(1))
def test_damage(store: Path, block: int) -> None:
    kinds = ("commitlog", "consumequeue", "index")
    files = {kind: sorted(path for path in (store / kind).rglob("*") if path.is_file()) for kind in kinds}
    for seed in range(block * _BLOCK, (block + 1) * _BLOCK):
        chance = random.Random(seed)
        chosen = [chance.choice(files[kind]) for kind in chance.choices(kinds, k=chance.choice((1, 1, 3)))]
        before = {path: path.read_bytes() for path in chosen}
        for path in chosen:
            damage(path, chance)
        at_once, apart = both_ways(store)
        for path, data in before.items():
            path.write_bytes(data)
        assert at_once == apart, (seed, chosen)


def test_sound(store: Path) -> None:
    at_once, apart = both_ways(store)
    assert at_once == apart
    assert verify_store(StoreFolder(store)).sound
    assert all(len(list((store / name).iterdir())) > 1 for name in ("commitlog", "index"))


def test_processes_find_the_same(store: Path) -> None:
    with Workers(2) as workers:
        assert said(verify_store(StoreFolder(store), workers=workers)) == said(
            verify_store(StoreFolder(store))
        )


@pytest.mark.parametrize("kept", [1, 2])
def test_files_that_retention_removed(store: Path, tmp_path: Path, kept: int) -> None:
    """Entries and items that are older than the log have no records, and are sound."""
    copy = tmp_path / "copy"
    copy.mkdir()
    for one in ("consumequeue", "index"):
        (copy / one).symlink_to(store / one)
    (copy / "commitlog").mkdir()
    for file in sorted((store / "commitlog").iterdir())[-kept:]:
        (copy / "commitlog" / file.name).symlink_to(file)
    at_once, apart = both_ways(copy)
    assert at_once == apart
    assert verify_store(StoreFolder(copy)).parts["consumequeue"].sound


def test_an_index_whose_header_has_another_time(store: Path) -> None:
    path = next((store / "index").iterdir())
    sound = path.read_bytes()
    assert IndexHeader._fields[0] == "begin_timestamp"
    path.write_bytes((int.from_bytes(sound[:8], "big") + 5000).to_bytes(8, "big") + sound[8:])
    at_once, apart = both_ways(store)
    path.write_bytes(sound)
    assert at_once == apart
