"""What a broker does on macOS instead of calls that only Linux has; test_macos.py runs this with the plug-in."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmqcli.broker.disk import PAGE, REAL, mapped
from rmqcli.broker.disk.real import open_kernel_sync
from rmqcli.files import replace_file
from tests.platforms import macos
from tests.platforms.names import lacking


def test_the_names_are_gone() -> None:
    assert sys.platform == "darwin"
    assert {"os.eventfd", "os.fdatasync", "os.sched_getaffinity", "os.posix_fadvise"} <= macos.removed
    assert not macos.removed & {"os.pread", "os.preadv", "os.sched_yield", "mmap.MADV_RANDOM"}
    assert not hasattr(ctypes.CDLL(None), "fallocate")
    assert {"fork", "O_DIRECTORY", "pread", "sysconf"} <= lacking("os", "win32")


def test_a_sync_reaches_the_disk(tmp_path: Path) -> None:
    file = REAL.open_mapped(tmp_path / "file", 3 * PAGE)
    changes: list[Callable[[], None]] = [
        lambda: REAL.sync_file(tmp_path / "file"),
        lambda: REAL.sync_folder(tmp_path),
        lambda: replace_file(tmp_path / "other", b"x"),
    ]
    for change in changes:
        file.view[PAGE] = 1
        macos.full_syncs.clear()
        change()
        assert macos.full_syncs
    file.close()
    assert REAL.read(tmp_path / "file")[PAGE] == 1


def test_there_is_no_kernel_sync() -> None:
    assert open_kernel_sync() is None


def test_zeros_are_written_where_no_hole_can_be(tmp_path: Path) -> None:
    file = REAL.open_mapped(tmp_path / "file", 8 * PAGE)
    file.reserve(0, 8 * PAGE)
    assert not file.clear_from(10)
    file.view[:] = bytes([7]) * 8 * PAGE
    assert file.clear_from(PAGE + 5)
    assert bytes(file.view) == bytes([7]) * (PAGE + 5) + bytes(7 * PAGE - 5)
    assert list(REAL.data_ranges(tmp_path / "file", PAGE, 8 * PAGE)) == [(PAGE, 8 * PAGE)]
    assert not list(REAL.data_ranges(tmp_path / "file", PAGE, PAGE))
    assert not file.populate_pages(0, PAGE)
    file.close()


def test_pages_of_16_kib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """mincore is asked for whole pages of the kernel, whose bytes have further bits."""
    asked: list[tuple[int, int]] = []
    bits = 1

    def mincore(address: int, length: int, flags: Any) -> int:
        asked.append((address - file._address, length))
        flags[: len(flags)] = bytes([bits | 64]) * len(flags)
        return 0

    file = mapped.RealMappedFile(tmp_path / "file", 64 * 1024)
    monkeypatch.setattr(mapped, "KERNEL_PAGE", 16 * 1024)
    monkeypatch.setattr(mapped, "_mincore", lambda: mincore)
    assert file.is_resident(20_000, 20_000)
    bits = 0
    assert not file.is_resident(5_000, 100)
    assert asked == [(16_384, 23_616), (0, 5_100)]
    file.view[:] = bytes([7]) * 64 * 1024
    file.release_pages(1, 40_000)
    assert bytes(file.view) == bytes([7]) * 64 * 1024
    file.close()
