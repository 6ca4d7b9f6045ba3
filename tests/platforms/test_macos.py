"""The broker and its store where sys.platform is darwin and the names are gone that macOS lacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BROKER = ROOT / "tests" / "broker"
TESTS = [
    Path(__file__).with_name("as_macos.py"),
    *(
        BROKER / "store" / f"test_{name}.py"
        for name in ("append_and_get", "files", "flush", "folders", "recovery", "sparse", "many_queues")
    ),
    *(BROKER / f"test_{name}.py" for name in ("node", "server", "temporary")),
    ROOT / "tests" / "test_machine.py",
]
OF_LINUX = ["broker/store/test_many_queues.py::test_residency_and_synchronization"]
"""Tests of calls that only Linux has."""


def test_the_tests_of_broker_and_store_pass() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.platforms.macos", "-p", "no:cacheprovider"]
    command += ["-p", "no:xdist", "-m", "not slow", *map(str, TESTS)]
    command += [word for one in OF_LINUX for word in ("--deselect", f"tests/{one}")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout[-10_000:]
    assert " passed" in done.stdout
