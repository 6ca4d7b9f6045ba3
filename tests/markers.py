"""Markers of the tests: one for folders and files, `slow` for those that slow.txt names, and `nightly` for those of
nightly.txt, which `make nightly` runs and `make test` leaves out."""

from __future__ import annotations

import warnings
from collections import defaultdict
from pathlib import Path

import pytest

FOLDERS = {
    "tests/codec/core/": "core",
    "tests/crash/test_errors.py": "crash",
    "tests/crash/test_ext4.py": "crash",
    "tests/crash/test_hostile_frames.py": "crash",
    "tests/crash/test_kill.py": "crash",
    "tests/crash/test_nemesis.py": "crash",
    "tests/crash/test_power_cuts.py": "crash",
    "tests/crash/test_replication.py": "crash",
    "tests/crash/test_timer_kills.py": "crash",
    "tests/crash/test_truncation.py": "crash",
    "tests/docs/test_containers.py": "docs",
    "tests/docs/test_programs.py": "docs",
    "tests/docs/test_python_blocks.py": "docs",
    "tests/docs/test_session_picture.py": "docs",
    "tests/docs/test_transcripts.py": "docs",
    "tests/docs/test_warm.py": "docs",
    "tests/export/spark/": "spark",
    "tests/export/spark_source/test_batch.py": "spark",
    "tests/export/spark_source/test_killed.py": "spark",
    "tests/export/spark_source/test_outages.py": "spark",
    "tests/export/spark_source/test_page.py": "spark",
    "tests/export/spark_source/test_python.py": "spark",
    "tests/export/spark_source/test_reads_little.py": "spark",
    "tests/export/spark_source/test_stream.py": "spark",
    "tests/export/spark_source/test_transform.py": "spark",
    "tests/export/spark_source/test_writer.py": "spark",
    "tests/foreign/": "foreign",
    "tests/proof/": "foreign",
}
SLOW = Path(__file__).with_name("slow.txt").read_text().split()
"""Files (`test_salvage.py::`) and tests (`test_scan.py::test_any_records`) that take 0.05 s of CPU time or more, with
all parameters."""

NIGHTLY = Path(__file__).with_name("nightly.txt").read_text().splitlines()
"""Files, tests, and beginnings of tests with their parameters (`test_errors.py::test_errors[EIO-SYNC_FLUSH-]`), one
a line. `test_hostile.py::test_a_frame /8` leaves the first, the ninth … of its cases in each run."""


def mark(items: list[pytest.Item], *, is_whole: bool) -> None:
    """Marks the tests. `is_whole`: `items` are all tests, so every name above should fit one.

    Warns when one does not: a folder, a file or a test has another name now.
    """
    named = defaultdict(list)
    for marker, lines in (("slow", SLOW), ("nightly", NIGHTLY)):
        for line in lines:
            beginning, _, number = line.partition(" /")
            named[beginning.partition("::")[0]].append((beginning, marker, line, int(number or 0)))
    used: set[str] = set()
    met: dict[str, int] = defaultdict(int)
    folders: dict[str, dict[str, str]] = {}
    for item in items:
        path, _, test = item.nodeid.partition("::")
        if path not in folders:  # one look for all tests of a file
            folders[path] = {folder: marker for folder, marker in FOLDERS.items() if path.startswith(folder)}
        found = set(folders[path].values())
        file = path.rpartition("/")[2]
        for beginning, marker, line, every in named[file]:
            if f"{file}::{test}".startswith(beginning):
                used.add(line)
                met[line] += 1
                if not every or (met[line] - 1) % every:
                    found.add(marker)
        for marker in found:
            item.add_marker(marker)
        used |= folders[path].keys()
    if is_whole and (unused := sorted({*FOLDERS, *SLOW, *NIGHTLY} - used)):
        warnings.warn(
            f"tests/markers.py, slow.txt, nightly.txt: no test is called {', '.join(unused)}", stacklevel=1
        )
