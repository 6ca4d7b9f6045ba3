"""The commits of a Delta log that count: those that no RESTORE has undone."""

from __future__ import annotations

from typing import Any

import pytest

from rmqcli.export.tables.delta import in_force

WRITES = [{"version": version, "timestamp": 1000 * version, "operation": "WRITE"} for version in range(6)]


def restored(number: int, **to: str) -> dict[str, Any]:
    return {
        "version": number,
        "timestamp": 1000 * number,
        "operation": "RESTORE",
        "operationParameters": to,
    }


@pytest.mark.parametrize(
    ("newest", "versions"),
    [
        ([], [5, 4, 3, 2, 1, 0]),
        ([restored(6, version="2")], [6, 2, 1, 0]),
        ([restored(6, datetime="3999")], [6, 3, 2, 1, 0]),
        ([restored(7, version="6"), restored(6, version="1")], [7, 6, 1, 0]),
        (
            [{"version": 7, "timestamp": 7000, "operation": "WRITE"}, restored(6, version="4")],
            [7, 6, 4, 3, 2, 1, 0],
        ),
    ],
)
def test_commits_in_force(newest: list[dict[str, Any]], versions: list[int]) -> None:
    log = [*newest, *reversed(WRITES)]
    assert [commit["version"] for commit in in_force(log)] == versions
