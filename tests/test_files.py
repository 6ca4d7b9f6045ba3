"""Small files are replaced whole, with or without a backup, and the folder is synced."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from rmqcli.files import replace_file


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
