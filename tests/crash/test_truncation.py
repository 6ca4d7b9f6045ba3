"""A last record that is cut at every byte, or has flipped bits: recovery ends at the last whole record."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.broker.store.support import Rebuild, loaded, message, numbers, queue_bytes, small_config

WHOLE = 4
"""Messages before the damaged one."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five messages in one file, as a killed process leaves them."""
    with loaded(small_config(tmp_path / "made")) as store:
        for number in range(WHOLE + 1):
            store.writer.append(message(number, size=40))
        shutil.copytree(tmp_path / "made", tmp_path / "killed")
    return tmp_path / "killed"


def _recovered(root: Path, expected: int) -> None:
    with loaded(small_config(root)) as store:
        assert numbers(store, "TopicA", 0) == list(range(expected))
        assert store.search.max_offset("TopicA", 0) == expected
        assert store.writer.append(message(99, size=40)).queue_offset == expected
        assert numbers(store, "TopicA", 0) == [*range(expected), 99]
        assert len(store.query("TopicA", "k99", 9, 0, 1 << 50).views) == 1
    assert queue_bytes(root) == Rebuild(root).queues()


def _last_record(folder: Path) -> tuple[Path, int, int]:
    record = Rebuild(folder).records[-1]
    return next((folder / "commitlog").iterdir()), record.commit_log_offset, record.store_size


@pytest.mark.parametrize("clean", [False, True])
def test_cut_at_every_byte_of_the_last_record(tmp_path: Path, folder: Path, clean: bool) -> None:
    path, start, size = _last_record(folder)
    assert size > 150
    if clean:
        (folder / "abort").unlink()
    for cut in range(size):
        root = tmp_path / "case"
        shutil.copytree(folder, root)
        os.truncate(root / "commitlog" / path.name, start + cut)
        _recovered(root, WHOLE)
        shutil.rmtree(root)


def test_zeros_from_every_byte_of_the_last_record_on(tmp_path: Path, folder: Path) -> None:
    """The file has its length, but its last pages never reached the disk."""
    path, start, size = _last_record(folder)
    data = path.read_bytes()
    for cut in range(size):
        root = tmp_path / "case"
        shutil.copytree(folder, root)
        (root / "commitlog" / path.name).write_bytes(data[: start + cut] + bytes(len(data) - start - cut))
        _recovered(root, WHOLE)
        shutil.rmtree(root)


@pytest.mark.parametrize("clean", [False, True])
def test_flipped_bits_of_the_last_record(tmp_path: Path, folder: Path, clean: bool) -> None:
    """Lengths, magic, CRC, place and body are covered by checks; the format has no check over the rest."""
    path, start, size = _last_record(folder)
    data = path.read_bytes()
    covered = [*range(12), *range(28, 36), *range(84, 88 + 40), 88 + 40]
    if clean:
        (folder / "abort").unlink()
    for position in covered:
        for bit in (0, 7):
            root = tmp_path / "case"
            shutil.copytree(folder, root)
            damaged = bytearray(data)
            damaged[start + position] ^= 1 << bit
            (root / "commitlog" / path.name).write_bytes(damaged)
            _recovered(root, WHOLE)
            shutil.rmtree(root)
    assert max(covered) < size


def test_flips_elsewhere_harm_nothing_else(tmp_path: Path, folder: Path) -> None:
    path, start, size = _last_record(folder)
    data = path.read_bytes()
    for position in range(size):
        root = tmp_path / "case"
        shutil.copytree(folder, root)
        damaged = bytearray(data)
        damaged[start + position] ^= 0x10
        (root / "commitlog" / path.name).write_bytes(damaged)
        with loaded(small_config(root)) as store:
            assert numbers(store, "TopicA", 0)[:WHOLE] == list(range(WHOLE))
        shutil.rmtree(root)
