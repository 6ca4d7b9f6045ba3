"""The programs of docs/testing.md: test files that pytest passes, and a program that prints what the page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.python_blocks import FRAMEWORKS, PAGE, blocks
from tests.support import PATIENCE

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


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE
    )


NAMES = set(re.findall(r"^# (test_\w+\.py)$", PAGE.read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", sorted(NAMES - FRAMEWORKS))
def test_a_test_file_of_the_page_passes(tmp_path: Path, name: str) -> None:
    (text,) = (block for block in blocks("python") if block.startswith(f"# {name}\n"))
    (tmp_path / name).write_text(text)
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", name, folder=tmp_path)
    assert done.returncode == 0 and f"{text.count('def test_')} passed" in done.stdout, done.stdout


def test_the_settings_of_the_page_are_the_brokers(tmp_path: Path) -> None:
    (text,) = (block for block in blocks("python") if block.startswith("# conftest.py\n"))
    (tmp_path / "conftest.py").write_text(text)
    (tmp_path / "test_settings.py").write_text(SETTINGS_TEST)
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", folder=tmp_path)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout


def test_the_program_of_the_page_prints_what_it_shows(tmp_path: Path) -> None:
    (program,) = (block for block in blocks("python") if not block.startswith("#"))
    done = run("-c", program, folder=tmp_path)
    assert (done.stdout, done.returncode) == (blocks("text")[0], 0), done.stderr
