"""Which tests share a worker process, and in which order they start: what takes longest first.

A file is one group, for its fixtures are made once. Spark has one session for the whole run; the foreign clients are
installed once, and each of their tests keeps both cores busy by itself. Long tests that share nothing go apart.
"""

from __future__ import annotations

import pytest

__all__ = ["arrange"]

FOREIGN, SPARK = "foreign", "spark"
FOREIGN_FOLDERS = ("tests/proof/", "tests/foreign/")
APART = (
    "tests/docs/test_transcripts.py",
    "tests/crash/",
    "tests/store/test_two_ways.py",
    "tests/client/push/test_rebalance.py",
)
WAITS = "tests/proof/test_order_kept.py"
"""Its group works beside the other tests until a broker gives up the locks of a dead member."""


def group_of(item: pytest.Item) -> str:
    path = item.nodeid.partition("::")[0]
    if path.startswith(FOREIGN_FOLDERS):
        return FOREIGN
    if "spark" in getattr(item, "fixturenames", ()) or path.startswith("tests/export/test_spark"):
        return SPARK
    return item.nodeid if path.startswith(APART) else path


def rank(item: pytest.Item, group: str) -> tuple[int, bool, bool]:
    """Groups that take a minute, then tests that take seconds, then the rest in its order."""
    path = item.nodeid.partition("::")[0]
    place = 0 if group == FOREIGN else 1 if group == SPARK else 2 if path.startswith(APART) else 3
    return place, path == WAITS, path.startswith("tests/foreign/")


def arrange(items: list[pytest.Item]) -> None:
    """Marks each test with its group and sorts the tests, stable within a group."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group_of(item)))
    items.sort(key=lambda item: rank(item, group_of(item)))
