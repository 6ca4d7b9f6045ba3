"""Small files are replaced whole, with or without a backup, and the folder is synced."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from rmqcli.files import refuse_existing, replace_file, replacing


def test_the_file_its_backup_and_nothing_else(tmp_path: Path) -> None:
    path, backup = tmp_path / "new" / "x.json", tmp_path / "new" / "x.json.bak"
    replace_file(path, b"1", backup=backup)
    replace_file(path, b"2", backup=backup)
    assert (path.read_bytes(), backup.read_bytes()) == (b"2", b"1")
    assert sorted(path.parent.iterdir()) == [path, backup]


@pytest.mark.parametrize("durable", [True, False])
def test_file_and_folder_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool) -> None:
    synced: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(stat.S_ISDIR(os.fstat(fd).st_mode)))
    replace_file(tmp_path / "x", b"1", durable=durable)
    assert synced == ([False, True] if durable else [])


def test_a_refusal_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    replace_file(path, b"1")

    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"2")
    assert path.read_bytes() == b"1"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_while_writing_leaves_the_old_content_alone(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError, match="half"), replacing(path) as file:
        file.write(b"new")
        raise RuntimeError("half")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_permissions(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        replace_file(tmp_path / "new", b"")
        replace_file(tmp_path / "own", b"", mode=0o600)
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("new", "own")]
    assert modes == [0o640, 0o600]


def test_what_must_not_be_replaced(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.touch()
    with pytest.raises(FileExistsError, match="--replace overwrites it"):
        refuse_existing(there, replace=False)
    with pytest.raises(IsADirectoryError, match="name a file"):
        refuse_existing(tmp_path, replace=True)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        refuse_existing(tmp_path / "nowhere" / "x", replace=True)
    refuse_existing(there, replace=True)
    refuse_existing(tmp_path / "new", replace=False)
