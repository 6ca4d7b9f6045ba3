"""Rebuild and salvage that are stopped or killed in the middle leave nothing that looks like a store."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.store.repair.index_writer import IndexWriter
from tests.cli.conftest import Run
from tests.support import JavaStore

Copy = Callable[[str], JavaStore]

_KILLED = """
import os, signal, sys
from rmqcli.store.repair.index_writer import IndexWriter
IndexWriter.finish = lambda self: os.kill(os.getpid(), signal.SIGKILL)
from rmqcli.__main__ import main
sys.argv[0] = "rmq"
main()
"""
COMMANDS = ["rebuild", "salvage"]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def killed(*arguments: str) -> int:
    """`rmq`, killed when queues and index are written but not finished."""
    return subprocess.run([sys.executable, "-c", _KILLED, *arguments], check=False).returncode


@pytest.mark.parametrize("command", COMMANDS)
def test_a_killed_process_leaves_no_half_store(
    cli: Run, store_clean: JavaStore, tmp_path: Path, command: str
) -> None:
    out, whole = tmp_path / "new" / "out", tmp_path / "whole"
    assert killed("inspect", command, str(store_clean.root), "--out", str(out)) == -signal.SIGKILL
    assert [path.name for path in out.parent.iterdir()] == ["out.unfinished"]
    (out.parent / "out.unfinished" / "checkpoint").write_text("of another time")
    assert cli("inspect", command, str(store_clean.root), "--out", str(out)).code == ExitCode.DONE
    assert [path.name for path in out.parent.iterdir()] == ["out"]
    assert cli("inspect", command, str(store_clean.root), "--out", str(whole)).code == ExitCode.DONE
    assert contents(out) == contents(whole)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_stopped_process_leaves_nothing(
    cli: Run, store_clean: JavaStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def stopped(self: IndexWriter) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(IndexWriter, "finish", stopped)
    out = tmp_path / "new" / "out"
    out.mkdir(parents=True)
    result = cli("inspect", command, str(store_clean.root), "--out", str(out))
    assert result.code == ExitCode.INTERRUPTED
    assert list(out.parent.rglob("*")) == [out]


def test_a_rebuild_in_place_that_is_killed(cli: Run, copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    (store.root / "consumequeue/SeedNormal/1/00000000000000000000").write_bytes(bytes(6000))
    before = contents(store.root)
    arguments = ("inspect", "rebuild", str(store.root), "--in-place", "--yes")
    assert killed(*arguments) == -signal.SIGKILL
    kept = {name: data for name, data in contents(store.root).items() if "rebuild" not in name}
    assert kept == before
    assert cli(*arguments).code == ExitCode.DONE
    assert not list(store.root.glob("rebuild*"))
    assert cli("inspect", "verify", str(store.root)).code == ExitCode.DONE


def test_two_at_once(cli: Run, store_clean: JavaStore, tmp_path: Path) -> None:
    work = tmp_path / "out.unfinished"
    work.mkdir()
    (work / "written").touch()
    handle = os.open(work, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    result = cli("inspect", "salvage", str(store_clean.root), "--out", str(tmp_path / "out"))
    os.close(handle)
    assert (result.code, result.err) == (ExitCode.USAGE, f"rmq: {work}: another process is writing here\n")
    assert (work / "written").exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["rebuild", "salvage"])
def test_a_folder_that_is_not_empty_is_refused_before_anything_is_read(
    cli: Run, copy_java_store: Copy, tmp_path: Path, command: str
) -> None:
    """A rebuild that reads the commit log ends with the exit code for its damage."""
    store, out = copy_java_store("store-clean"), tmp_path / "out"
    out.mkdir()
    (out / "mine").touch()
    store.commit_logs[0].write_bytes(b"\xff" * 1000)
    result = cli("inspect", command, str(store.root), "--out", str(out))
    refused = f"rmq: {out}: exists and is not empty; name a new folder with --out\n"
    assert (result.code, result.err) == (ExitCode.USAGE, refused)
