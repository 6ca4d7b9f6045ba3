"""The clients for asyncio in pytest-asyncio, anyio and FastAPI: the test files of docs/testing.md that need them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.python_blocks import FRAMEWORKS, blocks
from tests.support import PATIENCE


@pytest.mark.parametrize("name", sorted(FRAMEWORKS))
def test_a_test_file_of_the_page_passes(name: str, frameworks: Path, tmp_path: Path) -> None:
    (text,) = (block for block in blocks("python") if block.startswith(f"# {name}\n"))
    (tmp_path / name).write_text(text)
    options = (
        "-q",
        "-W",
        "error",
        "-p",
        "no:cacheprovider",
        "-o",
        "asyncio_default_fixture_loop_scope=function",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, name],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(frameworks)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    expected = {"test_with_pytest_asyncio.py": 2, "test_with_anyio.py": 2, "test_service.py": 1}[name]
    assert done.returncode == 0 and f"{expected} passed" in done.stdout, done.stdout + done.stderr
