"""The Python of docs/embed.md: test files that pytest passes, and a program that prints what the page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import PATIENCE

PAGE = Path(__file__).parents[2] / "docs" / "embed.md"

SETTINGS_TEST = """
import subprocess, sys

def rmq(cluster, *arguments):
    command = [sys.executable, "-m", "rmqcli", "--timeout", "60", "-n", cluster.namesrv, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout

def test_settings(rmq_cluster):
    for number in range(4):
        rmq(rmq_cluster, "send", "orders", str(number), "-p", f"n={number}")
    assert rmq(rmq_cluster, "pull", "orders", "--where", "n = 3", "-f", "%v") == "3"
    assert len(rmq(rmq_cluster, "topic", "stats", "orders").splitlines()) == 2
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE
    )


@pytest.mark.parametrize(("number", "name"), [(0, "test_orders.py"), (3, "test_reminders.py")])
def test_a_test_file_of_the_page_passes(tmp_path: Path, number: int, name: str) -> None:
    text = blocks("python")[number]
    assert text.startswith(f"# {name}\n")
    (tmp_path / name).write_text(text)
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", name, folder=tmp_path)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout


def test_the_settings_of_the_page_are_the_brokers(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(blocks("python")[1])
    (tmp_path / "test_settings.py").write_text(SETTINGS_TEST)
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", folder=tmp_path)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout


def test_the_program_of_the_page_prints_what_it_shows(tmp_path: Path) -> None:
    done = run("-c", blocks("python")[2], folder=tmp_path)
    assert (done.stdout, done.returncode) == (blocks("text")[0], 0), done.stderr
