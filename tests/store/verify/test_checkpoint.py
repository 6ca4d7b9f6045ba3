"""Every bit of a checkpoint that is used: which wrong ones `verify` names."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from rmqcli import broker
from rmqcli.client import Producer
from rmqcli.codec.message import Message
from rmqcli.codec.store.checkpoint import CHECKPOINT, FILE_SIZE, SAFE_POINT, SAFE_POINT_AT
from rmqcli.store.read.commit_log import CommitLogFiles
from rmqcli.store.read.folder import StoreFolder
from rmqcli.store.verify.checkpoint import check_checkpoint
from rmqcli.store.verify.store import verify_store
from tests.support import JavaStore

Copy = Callable[[str], JavaStore]


def named(root: Path, begin: int, end: int) -> list[bool]:
    """For each bit of a part of the checkpoint: whether it is named when it is wrong."""
    path, log = root / "checkpoint", CommitLogFiles(root)
    index = StoreFolder(root).index_headers
    content = path.read_bytes()
    assert list(check_checkpoint(path, path.read_bytes(), log, index, live=False)) == []
    found = []
    for bit in range(8 * begin, 8 * end):
        wrong = bytearray(content)
        wrong[bit // 8] ^= 0x80 >> bit % 8
        path.write_bytes(wrong)
        found.append(any(True for _ in check_checkpoint(path, path.read_bytes(), log, index, live=False)))
    path.write_bytes(content)
    return found


@pytest.mark.parametrize("name", ["store-clean", "store-killed", "store-five"])
def test_the_times_of_a_java_broker(copy_java_store: Copy, name: str) -> None:
    """A wrong time is not named when it is that of another record, as a few of a broker under load are."""
    missed = named(copy_java_store(name).root, 0, 24).count(False)
    assert missed == {"store-clean": 0, "store-killed": 8, "store-five": 0}[name]


def test_the_offsets_of_5x(store_five: JavaStore) -> None:
    """Of 0, only those bits are named that make it an offset behind the log, of 2 MiB."""
    found = named(store_five.root, 24, 40)
    assert found == 2 * (42 * [True] + 22 * [False])


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A store that a broker of rmq closed."""

    async def main() -> None:
        async with (
            broker.embedded(store=tmp_path / "store") as cluster,
            Producer("P", namesrv=cluster.namesrv) as producer,
        ):
            await producer.send(Message.of("T", "x", keys="k"))

    trio.run(main)
    return tmp_path / "store"


def test_every_bit_of_ours(ours: Path) -> None:
    used = *range(CHECKPOINT.size), *range(SAFE_POINT_AT, FILE_SIZE)
    assert len(used) == 40 + 64 and SAFE_POINT_AT + SAFE_POINT.size <= FILE_SIZE
    assert all(named(ours, 0, CHECKPOINT.size) + named(ours, SAFE_POINT_AT, FILE_SIZE))
    assert verify_store(StoreFolder(ours)).remarks == []


def test_a_time_older_than_what_has_expired_may_be_right(copy_java_store: Copy) -> None:
    root = copy_java_store("store-clean").root
    for path in sorted((root / "commitlog").iterdir())[:1]:
        path.unlink()
    path, log = root / "checkpoint", CommitLogFiles(root)
    first = 1_000_000
    path.write_bytes(first.to_bytes(8, "big") * 3 + bytes(FILE_SIZE - 24))
    assert (
        list(check_checkpoint(path, path.read_bytes(), log, StoreFolder(root).index_headers, live=False))
        == []
    )


def test_the_numbers_of_a_running_broker_change(copy_java_store: Copy) -> None:
    path = copy_java_store("store-clean").root / "checkpoint"
    shutil.copy(path, path.with_name("copy"))
    path.write_bytes(b"\x7f" + path.read_bytes()[1:])
    assert list(check_checkpoint(path, path.read_bytes(), CommitLogFiles(path.parent), [], live=True)) == []
