"""Inspections that find nothing, or a store without messages: a word on a terminal, nothing in a pipe."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest

from rmqcli.cli.exit_codes import ExitCode
from tests.cli.conftest import Run
from tests.support import JavaStore


def on_terminal(*arguments: str) -> str:
    """Returns what a command prints on a terminal of 80 columns, standard error last."""
    with NamedTemporaryFile() as errors:
        words = ["COLUMNS=80", sys.executable, "-m", "rmqcli", "inspect", *arguments, "2>", errors.name]
        shell = ["script", "-qec", " ".join(words), "/dev/null"]
        printed = subprocess.run(shell, capture_output=True, text=True, check=True).stdout.replace("\r", "")
        return printed + errors.read().decode()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("commitlog", "--topic", "none"), "no records\n"),
        (("consumequeue", "--topic", "SeedTx", "-o", "999"), "no entries\n"),
        (("index", "-o", "99999999"), "no such file\n"),
        (("delay", "-o", "99999999", "--where", "pending > 0"), "no delayed messages\n"),
    ],
)
def test_nothing_is_found(cli: Run, store_clean: JavaStore, arguments: tuple[str, ...], said: str) -> None:
    inspection, *options = arguments
    quoted = [f"'{option}'" for option in options]
    assert on_terminal(inspection, str(store_clean.root), *quoted) == said
    result = cli("inspect", inspection, str(store_clean.root), *options)
    assert (result.code, result.out, result.err) == (ExitCode.DONE, b"", "")


@pytest.mark.parametrize(
    ("inspection", "said"),
    [
        ("commitlog", "this store has no commit log: no message was ever stored"),
        ("consumequeue", "this store has no consume queue: no message was ever stored"),
        ("rebuild", "this store has no commit log: no message was ever stored"),
        ("index", "no index file"),
        ("checkpoint", "no checkpoint"),
    ],
)
def test_a_store_without_messages(cli: Run, tmp_path: Path, inspection: str, said: str) -> None:
    (tmp_path / "lock").touch()
    result = cli("inspect", inspection, str(tmp_path), *(["--dry-run"] if inspection == "rebuild" else []))
    assert (result.code, result.out) == (ExitCode.NOT_FOUND, b"")
    assert result.err.startswith(f"rmq: {tmp_path}: ")
    assert said in result.err


def test_a_store_without_queues_on_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    assert "\nno queues\n" in on_terminal("store", str(tmp_path))


def test_the_queues_of_a_topic_on_a_terminal(store_clean: JavaStore) -> None:
    """Those that are chosen, or with -v all of them; else topics are enough."""
    root = str(store_clean.root)
    chosen = on_terminal("store", root, "--topic", "SeedNormal", "--queue", "3", "--color", "never")
    assert "SeedNormal      3       375    0  375  " in chosen
    assert "TOPIC       QUEUE  MESSAGES  MIN  MAX  LAST STORED" in chosen
    assert "MIN  MAX" not in on_terminal("store", root, "--color", "never")
    every = on_terminal("store", root, "-v", "--color", "never")
    assert max(map(len, every.splitlines())) <= 80
    assert every.count("\nSeedNormal ") == 5


def test_batch_consume_queues_are_named_as_such(cli: Run, store_five: JavaStore) -> None:
    result = cli("inspect", "consumequeue", str(store_five.root), "--topic", "FiveBatchCQ")
    assert (result.code, result.out) == (ExitCode.NOT_FOUND, b"")
    assert "FiveBatchCQ: batch consume queues of 5.x: `rmq inspect commitlog --topic`" in result.err
