"""The Python of docs/embed.md: a test file that pytest passes, and a program that prints what the page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "embed.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )


def test_the_test_file_of_the_page_passes(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(blocks("python")[0])
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_orders.py", folder=tmp_path)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout


def test_the_program_of_the_page_prints_what_it_shows(tmp_path: Path) -> None:
    done = run("-c", blocks("python")[1], folder=tmp_path)
    assert (done.stdout, done.returncode) == (blocks("text")[0], 0), done.stderr
