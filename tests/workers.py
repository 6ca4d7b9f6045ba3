"""Which tests share a worker process, and in which order they start: what takes longest first.

A file is one group, for its fixtures are made once. Spark has one session for the whole run; the foreign clients are
installed once, and each of their tests keeps both cores busy by itself. Long tests that share nothing go apart.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

__all__ = ["ByGroup", "place"]

SHARED = {
    "foreign clients": ("tests/proof/", "tests/foreign/"),
    "Spark": ("tests/export/spark/", "tests/export/spark_source/"),
}
APART = (
    "tests/docs/test_transcripts.py",
    "tests/crash/",
    "tests/store/verify/test_two_ways.py",
    "tests/client/push/test_rebalance.py",
)
WAITS = "tests/proof/test_order_kept.py"
"""Its group works beside the other tests until a broker gives up the locks of a dead member."""


def group_of(node_id: str) -> str:
    """The tests of a group run in one process, in their order."""
    for group, beginnings in SHARED.items():
        if node_id.startswith(beginnings):
            return group
    return node_id if node_id.startswith(APART) else node_id.partition("::")[0]


def place(node_id: str) -> tuple[int, bool, bool]:
    """To sort by: groups that take a minute, tests that take seconds, then the rest in its order."""
    group = group_of(node_id)
    ranks = (group != "foreign clients", group != "Spark", not node_id.startswith(APART))
    return (
        ranks.index(False) if False in ranks else len(ranks),
        node_id.startswith(WAITS),
        node_id.startswith("tests/foreign/"),
    )


class ByGroup(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Hands out whole groups."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
