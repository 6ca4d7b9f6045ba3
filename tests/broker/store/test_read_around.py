"""Pages that come with the first touch of one: none in files that are written here and there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rmqcli.broker.disk import PAGE, REAL
from rmqcli.broker.disk.mapped import RealMappedFile
from rmqcli.broker.store import MessageStore
from tests.broker.store.support import loaded, message, small_config

SIZE = 1 << 20
NEXT = 8 * PAGE
"""The place of a page that read-around, 128 KiB or more, brings with the first one."""


def test_a_new_file_gets_the_pages_that_are_touched(tmp_path: Path) -> None:
    file = RealMappedFile(tmp_path / "file", SIZE, read_around=False)
    file.view[0] = 1
    assert file.is_resident(0, 1)
    assert not file.is_resident(NEXT, 1)
    file.close()


def test_a_file_that_was_found_does_once_it_grows(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    os.truncate(tmp_path / "file", SIZE)
    file = RealMappedFile(tmp_path / "file", SIZE, read_around=False)
    file.reserve(0, PAGE)
    file.view[0] = 1
    assert not file.is_resident(NEXT, 1)
    file.close()
    file.reserve(0, PAGE)  # by a worker that was late


def test_on_one_core_pages_come_alone_to_a_busy_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0})
    file = REAL.open_mapped(tmp_path / "file", SIZE)
    assert file.populate_pages(0, 2 * PAGE)
    assert file.is_resident(0, 2 * PAGE)
    assert not file.is_resident(NEXT, 1)
    file.close()


@pytest.mark.parametrize(("flush", "comes_alone"), [("ASYNC_FLUSH", False), ("SYNC_FLUSH", True)])
def test_the_files_of_a_store(
    tmp_path: Path, flush: str, comes_alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[str, bool] = {}
    real = RealMappedFile.__init__

    def note(file: RealMappedFile, path: Path, size: int, **options: bool) -> None:
        told[path.relative_to(tmp_path).parts[0]] = options["read_around"]
        real(file, path, size, **options)

    monkeypatch.setattr(RealMappedFile, "__init__", note)
    with loaded(small_config(tmp_path, flush_disk_type=flush, enable_consume_queue_ext=True)) as store:
        fill(store)
    assert told == {
        "commitlog": not comes_alone,
        "consumequeue": False,
        "consumequeue_ext": False,
        "index": False,
    }


def fill(store: MessageStore) -> None:
    store.writer.append(message(1))
    assert store.query("TopicA", "all", 1, 0, 1 << 50)
