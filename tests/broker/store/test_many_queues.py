"""Stores of more queues than the process may have descriptors."""

from __future__ import annotations

import errno
import gc
import mmap
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from rmqcli.broker.disk import PAGE, REAL
from rmqcli.broker.disk.mapped import RealMappedFile
from rmqcli.broker.store.consume_queue import ConsumeQueue
from rmqcli.broker.store.store import open_store
from tests.broker.store.support import HOST, Clock, inline, loaded, message, numbers, small_config
from tests.support import PATIENCE

QUEUES = 60
FAR = 8 << 20
"""Farther than the kernel reads ahead."""


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    """Room for twenty files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Path("/dev/null").open() as file:
        lowest = file.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 20, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def mapped(path: Path) -> int:
    """The number of mappings of a file."""
    return Path("/proc/self/maps").read_text().count(f"{path}\n")


def put_out_of_memory(path: Path, position: int) -> None:
    """Writes a page, and takes it from the page cache where the file system can: a tmpfs has no other place."""
    with path.open("r+b", buffering=0) as file:
        file.seek(position)
        file.write(b"x" * PAGE)
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), position, PAGE, os.POSIX_FADV_DONTNEED)


def test_queues_need_no_descriptors(tmp_path: Path, few_descriptors: None) -> None:
    config = small_config(tmp_path)
    with loaded(config) as store:
        for number in range(QUEUES):
            assert store.writer.append(message(number, queue_id=number)).queue_offset == 0
    with loaded(config) as store:
        for number in range(QUEUES):
            assert store.writer.append(message(number, queue_id=number)).queue_offset == 1
            assert numbers(store, "TopicA", number) == [number, number]


async def test_queues_that_need_a_file_are_found_by_the_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are: nothing looks at all of them in one step."""
    config = small_config(tmp_path, mapped_file_size_consume_queue=20 * 8)
    async with open_store(config, now_ms=Clock(), store_host=HOST, in_thread=inline, disk=REAL) as store:
        queues = store._queues
        for number in range(QUEUES):
            await store.when_ready(store.writer.append, message(number, queue_id=number))
        for number in range(6):
            await store.when_ready(store.writer.append, message(number, queue_id=7))
        monkeypatch.setattr(ConsumeQueue, "nearly_full", property(lambda _: pytest.fail("looked at")))
        assert queues.take_filling() == []
        monkeypatch.undo()
        for _ in range(2):
            await store._flusher.flush_all_queues()
        filling = queues.find("TopicA", 7)
        assert filling is not None
        store._preparer.wake()
        with trio.fail_after(PATIENCE):
            while not filling.segments.is_ready(filling.next_file_start()):
                await trio.lowlevel.checkpoint()


def test_a_mapping_lives_as_long_as_its_slices(tmp_path: Path) -> None:
    path = tmp_path / "file"
    file = REAL.open_mapped(path, 3 * PAGE)
    part = file.view[PAGE : PAGE + 4]
    part[:] = b"text"
    file.close()
    path.rename(tmp_path / "other")
    assert bytes(part) == b"text" and mapped(tmp_path / "other") == 1
    assert (tmp_path / "other").read_bytes()[PAGE:][:5] == b"text\0"
    del part, file
    gc.collect()
    assert mapped(tmp_path / "other") == 0


def test_residency_and_synchronization(tmp_path: Path) -> None:
    file = REAL.open_mapped(tmp_path / "file", 2 * FAR)
    assert not file.is_resident(0, 64 * PAGE), "nobody has touched it"
    assert file.populate_pages(0, 4 * PAGE)
    file.view[:5] = b"first"
    assert file.is_resident(0, 4 * PAGE) and not file.is_resident(FAR, PAGE)
    REAL.sync_file(tmp_path / "file")
    file.release_pages(0, 4 * PAGE)
    assert file.is_resident(0, 4 * PAGE), "the page cache has them"
    assert bytes(file.view[:5]) == b"first"
    put_out_of_memory(tmp_path / "file", FAR)
    file.load_pages(FAR, PAGE)
    assert file.is_resident(FAR, PAGE)
    file.close()


def test_a_refused_mapping_names_file_and_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", refuse)
    with pytest.raises(OSError, match=r"vm.max_map_count.*/file"):
        RealMappedFile(tmp_path / "file", PAGE)


def test_what_is_cleared_is_never_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill would leave a file whose length is taken for the size of all files."""
    file = REAL.open_mapped(tmp_path / "file", 4 * PAGE)
    file.view[:] = b"x" * (4 * PAGE)
    sizes: list[int] = []
    truncate = os.ftruncate

    def note(fd: int, size: int) -> None:
        sizes.append(size)
        truncate(fd, size)

    monkeypatch.setattr(os, "ftruncate", note)
    assert file.clear_from(PAGE + 7)
    assert (tmp_path / "file").read_bytes() == (b"x" * (PAGE + 7)).ljust(4 * PAGE, b"\0")
    assert not file.clear_from(PAGE + 7)
    assert sizes == []
    assert (tmp_path / "file").read_bytes() == bytes(file.view)  # in tmpfs, this fills the hole
    file.close()
