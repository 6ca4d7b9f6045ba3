"""Temporary folders: removed at the end of their block, and those of killed processes by the next."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rmqcli.broker.disk.temporary import PREFIX, remove_abandoned, temporary_folder

HOLD = (
    "import sys\n"
    "from rmqcli.broker.disk.temporary import temporary_folder\n"
    "with temporary_folder() as folder:\n"
    "    (folder / 'store').mkdir()\n"
    "    (folder / 'store' / 'log').write_text('x')\n"
    "    print(folder, flush=True)\n"
    "    sys.stdin.read()\n"
)


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


def test_a_folder_lives_as_long_as_its_block(tmp_path: Path) -> None:
    with temporary_folder() as folder:
        assert folder.parent == tmp_path and folder.name.startswith(PREFIX)
        (folder / "a").mkdir()
        assert remove_abandoned() == []
        assert (folder / "a").is_dir()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_leaves_is_removed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert folder.parent == tmp_path
        assert remove_abandoned() == [], "its process lives"
        process.kill()
        process.wait()
        assert (folder / "store" / "log").exists()
        assert remove_abandoned() == [folder]
    assert list(tmp_path.iterdir()) == []


def test_nothing_else_is_removed(tmp_path: Path) -> None:
    (tmp_path / "rmq-spark-x").mkdir()
    (tmp_path / f"{PREFIX}file").write_text("x")
    target = tmp_path / "mine"
    target.mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(target)
    assert remove_abandoned() == []
    assert {path.name for path in tmp_path.iterdir()} == {
        "rmq-spark-x",
        f"{PREFIX}file",
        f"{PREFIX}link",
        "mine",
    }
