"""Markers of the tests: one for its folder, and `slow` for those that slow.txt names.

The measurement of coverage doubles the time of Python code. It leaves out tests that have a marker, but for
those of `MEASURED` that are not of `COVERED`: most of what they run is their own. Of each test that it takes,
it takes one case in `SHARE`: the others run mostly the same lines. The floors of tests/coverage_floor.py hold
for that.
"""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path

import pytest

FOLDERS = {
    "tests/crash/": "crash",
    "tests/docs/test_python_blocks.py": "docs",
    "tests/docs/test_session_picture.py": "docs",
    "tests/docs/test_transcripts.py": "docs",
    "tests/docs/test_warm.py": "docs",
    "tests/export/spark/": "spark",
    "tests/export/spark_source/": "spark",
    "tests/foreign/": "foreign",
    "tests/proof/": "foreign",
}
MEASURED = ("tests/cli/", "tests/export/test_", "tests/export/spark", "tests/import_/")
SHARE = 10
COVERED = ("tests/cli/test_silent.py", "tests/cli/test_process.py")
SLOW = Path(__file__).with_name("slow.txt").read_text().split()
"""Files (`test_salvage.py::`) and tests (`test_scan.py::test_any_records`) that take 0.3 s of CPU time or more, with
all parameters."""


def mark(items: list[pytest.Item], *, is_whole: bool) -> None:
    """Marks the tests. `is_whole`: `items` are all tests, so every name above should fit one.

    Warns when one does not: a folder, a file or a test has another name now.
    """
    used: set[str] = set()
    cases: Counter[str] = Counter()
    for item in items:
        found = {folder: marker for folder, marker in FOLDERS.items() if item.nodeid.startswith(folder)}
        test = item.nodeid.partition("[")[0]
        name = test.rpartition("/")[2]
        found |= {beginning: "slow" for beginning in SLOW if name.startswith(beginning)}
        for marker in found.values():
            item.add_marker(marker)
        is_own = test.startswith(MEASURED) and not test.startswith(COVERED)
        if cases[test] % SHARE or (found and not is_own):
            item.add_marker("no_cover")
        cases[test] += 1
        used |= found.keys()
    if is_whole and (unused := sorted({*FOLDERS, *SLOW} - used)):
        warnings.warn(f"tests/markers.py, slow.txt: no test is called {', '.join(unused)}", stacklevel=1)
