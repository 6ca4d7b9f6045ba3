"""The broker and its store where sys.platform is darwin and the names are gone that macOS lacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
OF_LINUX = ["broker/store/test_many_queues.py::test_residency_and_synchronization"]
"""Tests of calls that only Linux has."""


@pytest.mark.parametrize(
    "files",
    [
        "platforms/as_macos broker/store/test_files broker/store/test_sparse broker/test_node test_machine",
        "broker/store/test_append_and_get broker/store/test_flush broker/store/test_folders "
        "broker/store/test_recovery broker/store/test_many_queues broker/test_server broker/test_temporary",
    ],
    ids=["files and a node", "store and broker"],
)
def test_the_tests_of_broker_and_store_pass(files: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.platforms.macos", "-p", "no:cacheprovider"]
    command += ["-p", "no:xdist", "-m", "not slow", *(f"{TESTS / name}.py" for name in files.split())]
    command += [word for one in OF_LINUX for word in ("--deselect", f"tests/{one}")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout[-10_000:]
    assert " passed" in done.stdout
