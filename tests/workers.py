"""The distribution of the tests over worker processes, and their order: the longest groups start first.

A group runs in one process. A file is a group, because its fixtures are created once. Spark has one session in
a run; the foreign clients are installed once, and each of their tests keeps two cores busy; the tests of packages
share a build. Long tests that share nothing are groups of their own.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

SHARED = {
    "foreign clients": ("tests/proof/", "tests/foreign/"),
    "Spark": ("tests/export/spark/", "tests/export/spark_source/"),
    "packaging": ("tests/test_packaging.py",),
}
APART = (
    "tests/docs/test_transcripts.py",
    "tests/crash/",
    "tests/forms/",
    "tests/store/verify/test_two_ways.py",
    "tests/client/push/test_rebalance.py",
)
WAITS = "tests/proof/test_order_kept.py"
"""Runs last of its group, which works in the background until a broker expires the locks of a dead member."""


def group_of(node_id: str) -> str:
    """Returns the name of the group of a test."""
    for group, beginnings in SHARED.items():
        if node_id.startswith(beginnings):
            return group
    return node_id if node_id.startswith(APART) else node_id.partition("::")[0]


def place(node_id: str) -> tuple[int, bool, bool]:
    """Returns the sort key: groups that take a minute, tests that take seconds, then the rest."""
    group = group_of(node_id)
    ranks = [*(group == name for name in SHARED), node_id.startswith(APART)]
    return (
        ranks.index(True) if True in ranks else len(ranks),
        node_id.startswith(WAITS),
        node_id.startswith("tests/foreign/"),
    )


class ByGroup(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """The scheduler of pytest-xdist that hands out whole groups."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
