"""Saved tables, the lock file, segments."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rmqcli.broker.disk import PAGE, REAL, load_table, save_table
from rmqcli.broker.disk.lock import hold_lock
from rmqcli.broker.store import StoreDamaged, StoreError, StoreLocked
from rmqcli.broker.store.segment import Segment
from rmqcli.broker.store.segment_list import SegmentList
from rmqcli.broker.testing.disk import SimulatedDisk
from rmqcli.codec.errors import BodyError


def _decode(data: bytes) -> Any:
    if data.startswith(b"!"):
        raise BodyError("not a table")
    return json.loads(data)


def test_a_table_keeps_its_previous_content(tmp_path: Path) -> None:
    path = tmp_path / "config" / "topics.json"
    assert load_table(REAL, path, _decode) is None
    save_table(REAL, path, b"1")
    save_table(REAL, path, b"2")
    assert (path.read_bytes(), path.with_name("topics.json.bak").read_bytes()) == (b"2", b"1")
    assert load_table(REAL, path, _decode) == 2
    assert sorted(file.name for file in path.parent.iterdir()) == ["topics.json", "topics.json.bak"]


@pytest.mark.parametrize("damage", [b"", b"  \n", b"{", b"!", None])
def test_a_damaged_table_is_read_from_its_backup(tmp_path: Path, damage: bytes | None) -> None:
    path = tmp_path / "topics.json"
    save_table(REAL, path, b"1")
    save_table(REAL, path, b"2")
    path.unlink() if damage is None else path.write_bytes(damage)
    assert load_table(REAL, path, _decode) == 1


class Killed(Exception):
    """Ends a save before one of its calls."""


@pytest.mark.parametrize("damage", [b"", b"  \n", b"{", b"!"])
@pytest.mark.parametrize("call", range(1, 8))
def test_a_kill_while_a_damaged_table_is_replaced(damage: bytes, call: int) -> None:
    """The damaged version does not take the place of the only sound one."""
    disk, path = SimulatedDisk(), Path("/config/topics.json")
    save_table(disk, path, b"1")
    save_table(disk, path, b"2")
    disk.write(path, damage)
    assert load_table(disk, path, _decode) == 1
    calls = 0

    def count(_name: str) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            raise Killed

    disk.on_call = count
    with contextlib.suppress(Killed):
        save_table(disk, path, b"3")
    disk.on_call = None
    assert load_table(disk.killed(), path, _decode) in (1, 3)


def test_a_damaged_table_is_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "topics.json"
    save_table(REAL, path, b"1")
    save_table(REAL, path, b"2")
    path.write_bytes(b"!2")
    assert load_table(REAL, path, _decode) == 1
    assert path.with_name("topics.json.damaged").read_bytes() == b"!2"
    assert "topics.json.damaged" in caplog.text
    save_table(REAL, path, b"3")
    assert path.with_name("topics.json.bak").read_bytes() == b"1"


def test_two_damaged_tables_are_not_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    path.write_bytes(b"{")
    path.with_name("topics.json.bak").write_bytes(b"!")
    with pytest.raises(StoreDamaged, match=r"topics.json.*topics.json.bak: not a table.*move"):
        load_table(REAL, path, _decode)


def test_the_lock_is_seen_by_other_processes(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    attempt = (
        "import fcntl, sys; file = open(sys.argv[1], 'r+b')\n"
        "try: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)\n"
        "except OSError: print('held')\n"
        "else: print('free')"
    )

    def other() -> str:
        return subprocess.run(
            [sys.executable, "-c", attempt, str(path)], capture_output=True, text=True, check=True
        ).stdout.strip()

    with hold_lock(path):
        assert other() == "held"
        with pytest.raises(StoreLocked, match="this process"), hold_lock(path):
            pass
        assert other() == "held"
    assert other() == "free"
    assert path.read_bytes() == b"lock"


def test_a_lock_that_a_full_disk_refused_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> int:
        raise OSError(28, "No space left on device")

    path = tmp_path / "lock"
    with monkeypatch.context() as patched:
        patched.setattr("os.pwrite", refuse)
        with pytest.raises(OSError, match="No space"), hold_lock(path):
            pass
    with hold_lock(path):
        assert path.read_bytes() == b"lock"


def test_a_lock_of_another_process_is_respected(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_bytes(b"lock")
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import fcntl, sys; file = open(sys.argv[1], 'r+b'); fcntl.lockf(file, fcntl.LOCK_EX, 1, 0)\n"
            "print('held', flush=True); sys.stdin.read()",
            str(path),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreLocked, match="another process"), hold_lock(path):
            pass
    finally:
        holder.communicate(b"")
    with hold_lock(path):
        assert path.read_bytes() == b"lock"


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(StoreError, match="choose a store folder"),
        hold_lock(tmp_path / "file" / "store" / "lock"),
    ):
        pass


def test_clearing_keeps_time_and_length(tmp_path: Path) -> None:
    segment = Segment(REAL, tmp_path / "s", 0, 64 * 1024)
    segment.view[100:200] = b"x" * 100
    segment.view[50_000:50_003] = b"abc"
    os.utime(segment.path, ns=(0, 1_000_000_000_000))
    segment.clear_from(150)
    assert bytes(segment.view[:200]) == bytes(100) + b"x" * 50 + bytes(50)
    assert not any(segment.view[200:])
    assert segment.path.stat().st_size == segment.size
    assert segment.modified_ms == 1_000_000
    segment.destroy()
    assert not segment.path.exists()


def test_files_are_sparse_and_pages_can_be_released(tmp_path: Path) -> None:
    segment = Segment(REAL, tmp_path / "s", 0, 1 << 30)
    segment.view[:5] = b"first"
    segment.release_pages(0, 1 << 30)
    assert bytes(segment.view[:5]) == b"first"
    assert segment.path.stat().st_blocks * 512 < 1 << 20
    segment.close()


def test_files_that_are_cut_off_go_from_the_last_on() -> None:
    """Power lost meanwhile: no file is missing before another."""
    folder = Path("/log")
    for seed in range(40):
        disk, left = SimulatedDisk(seed), list[SimulatedDisk]()
        disk.make_folder(folder)
        segments = SegmentList(disk, folder, PAGE, "mappedFileSizeCommitLog")
        for number in range(5):
            segments.append(number * PAGE)
        disk.on_call = lambda _name, disk=disk, left=left: left.append(disk.power_cut())
        segments.cut(PAGE - 1)
        disk.on_call = None
        for after in left:
            starts = [int(path.name) for path in after.list(folder)]
            assert starts == [number * PAGE for number in range(len(starts))]


def test_a_file_that_comes_after_all_were_taken_is_removed() -> None:
    """A slave whose master began a queue again drops the old one, of which a worker may be building a file."""
    disk, folder = SimulatedDisk(0), Path("/queue")
    segments = SegmentList(disk, folder, PAGE, "mappedFileSizeConsumeQueue")
    segments.append(0)
    built = segments.build(PAGE)
    destroy = segments.take_all()
    segments.offer(built)
    destroy()
    assert disk.list(folder) == []


@pytest.mark.parametrize("position", [0, 7, PAGE, 3 * PAGE + 100, (1 << 20) + 5])
def test_a_file_is_cleared_where_no_holes_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, position: int
) -> None:
    """Its length never changes: a process that is killed meanwhile leaves it whole."""

    def refuse(*_arguments: object) -> int:
        ctypes.set_errno(errno.EOPNOTSUPP)
        return -1

    size = (3 << 20) + PAGE // 2
    path = tmp_path / "file"
    file = REAL.open_mapped(path, size)
    for at in (0, 5, PAGE + 3, position, (2 << 20) - 1, size - 1):
        file.view[at] = 7
    kept = bytes(file.view[:position])
    monkeypatch.setattr("rmqcli.broker.disk.mapped._fallocate", lambda: refuse)
    monkeypatch.setattr(os, "ftruncate", refuse)
    assert file.clear_from(position)
    assert bytes(file.view) == kept + bytes(size - position) == path.read_bytes()
    assert not file.clear_from(position)
    file.close()
