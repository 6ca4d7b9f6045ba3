"""Which marker a test has: one for its folder, and `slow` for what takes more than half a second on a quiet core."""

from __future__ import annotations

import pytest

FOLDERS = {
    "tests/crash/": "crash",
    "tests/docs/": "docs",
    "tests/export/spark/": "spark",
    "tests/export/spark_source/": "spark",
    "tests/foreign/": "foreign",
    "tests/proof/": "foreign",
}
SLOW: tuple[str, ...] = ()
"""Beginnings of node ids."""


def mark(items: list[pytest.Item], *, is_whole: bool) -> None:
    """Marks the tests. `is_whole`: `items` are all tests, so every name above must fit one.

    UsageError when one does not: the file or the test has moved.
    """
    used: set[str] = set()
    for item in items:
        for folder, marker in FOLDERS.items():
            if item.nodeid.startswith(folder):
                item.add_marker(marker)
                used.add(folder)
        for beginning in SLOW:
            if item.nodeid.startswith(beginning):
                item.add_marker("slow")
                used.add(beginning)
    if is_whole and (unused := sorted({*FOLDERS, *SLOW} - used)):
        raise pytest.UsageError(f"tests/markers.py names tests that do not exist: {', '.join(unused)}")
