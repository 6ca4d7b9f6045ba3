"""The quota of control groups, read from folders like the kernel's."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from rmqcli.broker import system
from rmqcli.broker.system import quota


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/", {}, math.inf),
        ("0::/", {"cpu.max": "max 100000"}, math.inf),
        ("0::/", {"cpu.max": "150000 100000"}, 1.5),
        ("0::/a/b", {"a/cpu.max": "50000 100000", "a/b/cpu.max": "max 100000"}, 0.5),
        ("0::/a/b", {"a/cpu.max": "300000 100000", "a/b/cpu.max": "200000 100000"}, 2),
        ("0::/outside/of/the/container", {"cpu.max": "100000 100000"}, 1),
        ("0::/../../x", {"cpu.max": "100000 100000"}, 1),
        (
            "4:memory:/\n1:cpu:/a",
            {"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"},
            math.inf,
        ),
        (
            "4:memory:/\n1:cpu,cpuacct:/a",
            {"cpu,cpuacct/a/cpu.cfs_quota_us": "25000", "cpu,cpuacct/a/cpu.cfs_period_us": "50000"},
            0.5,
        ),
        ("4:memory:/", {"memory/cpu.max": "1 100000", "cpu.max": "1 100000"}, math.inf),
        ("0::/", {"cpu.max": "nonsense"}, math.inf),
        ("0::/", {"cpu.max": "100000 0"}, math.inf),
        ("nonsense", {"cpu.max": "1 1"}, math.inf),
    ],
)
def test_the_smallest_quota_counts(own: str, files: dict[str, str], expected: float, tmp_path: Path) -> None:
    own_groups = tmp_path / "own"
    own_groups.write_text(own + "\n")
    for name, text in files.items():
        path = tmp_path / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    assert quota(tmp_path / "groups", own_groups) == expected


def test_without_control_groups_there_is_none(tmp_path: Path) -> None:
    assert quota(tmp_path / "groups", tmp_path / "own") == math.inf


@pytest.mark.parametrize(("allowed", "expected"), [(0.5, 0.5), (math.inf, 1)])
def test_cores_are_those_of_the_thread_within_the_quota(
    allowed: float, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    monkeypatch.setattr(system, "_own_quota", lambda: allowed)
    assert system.cores() == expected
