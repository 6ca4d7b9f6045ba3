"""Cold pages and holes: they say nothing of what was written, and change nothing of what a start finds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rmqcli.broker.disk import PAGE, REAL, Disk
from rmqcli.broker.store import MessageStore, StoreDamaged, StoreMessage, open_store
from rmqcli.broker.testing.disk import SimulatedDisk
from rmqcli.codec.records.encoding import record_size
from rmqcli.codec.store.consume_queue import ENTRY_SIZE
from tests.broker.store.support import (
    BORN,
    HOST,
    START_MS,
    Clock,
    inline,
    loaded,
    message,
    numbers,
    small_config,
)
from tests.support import sparse_copy

ROOT = Path("/store")
LOG_SIZE = 16 * PAGE
QUEUE_SIZE = 400 * ENTRY_SIZE
LARGE = 6 * PAGE
"""The size of a body so large that files end with more than a page that nothing is written to."""
COUNT = 10
CONFIG = small_config(ROOT, mapped_file_size_commit_log=LOG_SIZE, mapped_file_size_consume_queue=QUEUE_SIZE)

Loss = Callable[[SimulatedDisk], None]
LOSSES: list[Loss] = [SimulatedDisk.forget_pages, SimulatedDisk.make_sparse]


def plain(body: bytes, queue_id: int = 0) -> StoreMessage:
    """A message without properties: its record and its queue entry end in zeros."""
    return StoreMessage(
        topic="TopicA",
        queue_id=queue_id,
        body=body,
        properties={},
        properties_text=b"",
        born_timestamp=START_MS,
        born_host=BORN,
        sys_flag=0,
    )


def size_of(body: int) -> int:
    """The bytes of the record of a plain message."""
    return record_size(body, len("TopicA"), 0)


async def filled(disk: Disk, root: Path, messages: list[StoreMessage], *, killed: bool = False) -> Disk:
    """A disk with a store of these messages, as a clean stop or a kill leaves it."""
    config = small_config(
        root, mapped_file_size_commit_log=LOG_SIZE, mapped_file_size_consume_queue=QUEUE_SIZE
    )
    after = disk
    async with open_store(
        config, now_ms=Clock(step=7), store_host=HOST, in_thread=inline, disk=disk
    ) as store:
        for one in messages:
            assert (await store.when_ready(store.writer.append, one)).status.name == "PUT_OK"
        if killed:
            assert isinstance(disk, SimulatedDisk)
            after = disk.killed()
    return after


def bodies(store: MessageStore, queue_id: int = 0) -> int:
    """The number of messages of a queue that are read."""
    count = 0
    while (found := store.reader.get("TopicA", queue_id, count, 32)).count:
        count += found.count
    return count


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("unknown", [False, True])
async def test_the_unused_end_of_a_file(loss: Loss, killed: bool, unknown: bool) -> None:
    """A filler is its eight bytes, also where nobody knows how the store was left."""
    disk = await filled(SimulatedDisk(), ROOT, [message(n, size=LARGE) for n in range(COUNT)], killed=killed)
    assert isinstance(disk, SimulatedDisk)
    loss(disk)
    if unknown:
        disk.write(CONFIG.abort_file, b"")
        disk.unlink(CONFIG.checkpoint_file)
    with loaded(CONFIG, disk=disk) as store:
        assert numbers(store, "TopicA", 0) == list(range(COUNT))


async def test_a_sparse_copy(tmp_path: Path) -> None:
    """The same on a file system."""
    await filled(REAL, tmp_path / "store", [message(n, size=LARGE) for n in range(COUNT)])
    copy = sparse_copy(tmp_path / "store", tmp_path / "copy")
    config = small_config(
        copy, mapped_file_size_commit_log=LOG_SIZE, mapped_file_size_consume_queue=QUEUE_SIZE
    )
    for _ in range(2):
        with loaded(config) as store:
            assert numbers(store, "TopicA", 0) == list(range(COUNT))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("killed", [False, True])
async def test_a_record_that_ends_in_a_hole(loss: Loss, killed: bool) -> None:
    """Two of its last bytes, the length of no properties, begin a page."""
    first = plain(b"x" * (PAGE - size_of(0) + 2))
    disk = await filled(SimulatedDisk(), ROOT, [first], killed=killed)
    assert isinstance(disk, SimulatedDisk)
    loss(disk)
    with loaded(CONFIG, disk=disk) as store:
        assert store.commit_log_max_offset == PAGE + 2
        assert bodies(store) == 1
        assert store.writer.append(plain(b"next")).physical_offset == PAGE + 2


@pytest.mark.parametrize("loss", LOSSES)
async def test_a_queue_entry_that_ends_in_a_hole(loss: Loss) -> None:
    """Its tags code is 0 and reaches into the next page; another queue has a later message."""
    count = PAGE // ENTRY_SIZE + 1
    messages = [*(plain(b"x") for _ in range(count)), plain(b"later", 1)]
    disk = await filled(SimulatedDisk(), ROOT, messages)
    assert isinstance(disk, SimulatedDisk)
    loss(disk)
    disk.unlink(CONFIG.checkpoint_file)
    with loaded(CONFIG, disk=disk) as store:
        assert (bodies(store), store.search.max_offset("TopicA", 0)) == (count, count)


@pytest.mark.parametrize("loss", LOSSES)
async def test_a_record_that_begins_in_a_hole(loss: Loss) -> None:
    """It is found behind one whose last page is lost, and with it the first two bytes of its size, which are 0."""
    before = plain(b"x" * (3 * PAGE - size_of(0) - 2))
    disk = await filled(SimulatedDisk(), ROOT, [before, plain(b"x")])
    assert isinstance(disk, SimulatedDisk)
    path = CONFIG.commit_log_folder / f"{0:020d}"
    content = bytearray(disk.read(path))
    content[2 * PAGE : 3 * PAGE] = bytes(PAGE)
    disk.write(path, bytes(content))
    loss(disk)
    found = f"whole records follow from offset {3 * PAGE - 2} on"
    with pytest.raises(StoreDamaged, match=found), loaded(CONFIG, disk=disk):
        pass
