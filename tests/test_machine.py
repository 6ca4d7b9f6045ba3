"""The limits of control groups, read from folders like the kernel's."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from rmqcli import machine
from rmqcli.machine import memory, quota
from rmqcli.store import CommitLogFiles
from rmqcli.store.verify.commit_log import workers_for
from rmqcli.store.workers import WORTH_A_PROCESS


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
    assert quota(*written(tmp_path, own, files)) == expected


def written(folder: Path, own: str, files: dict[str, str]) -> tuple[Path, Path]:
    own_groups = folder / "own"
    own_groups.write_text(own + "\n")
    for name, text in files.items():
        path = folder / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return folder / "groups", own_groups


MACHINE = memory(Path("/nowhere"), Path("/nowhere"))


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/", {}, MACHINE),
        ("0::/", {"memory.max": "max"}, MACHINE),
        ("0::/outside", {"memory.max": "268435456"}, 268435456),
        ("0::/a/b", {"a/memory.max": "4096", "a/b/memory.max": "max"}, 4096),
        ("4:memory:/a", {"memory/a/memory.limit_in_bytes": "8192"}, 8192),
        ("4:memory:/", {"memory/memory.limit_in_bytes": "9223372036854771712"}, MACHINE),
        ("4:cpu:/", {"cpu/memory.limit_in_bytes": "8192"}, MACHINE),
        ("0::/", {"memory.max": "nonsense"}, MACHINE),
    ],
)
def test_the_smallest_limit_of_memory_counts(
    own: str, files: dict[str, str], expected: int, tmp_path: Path
) -> None:
    assert memory(*written(tmp_path, own, files)) == expected


def test_without_control_groups_there_is_none(tmp_path: Path) -> None:
    assert quota(tmp_path / "groups", tmp_path / "own") == math.inf


@pytest.mark.parametrize(("allowed", "expected"), [(0.5, 0.5), (math.inf, 1)])
def test_cores_are_those_of_the_thread_within_the_quota(
    allowed: float, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    monkeypatch.setattr(machine, "_own_quota", lambda: allowed)
    assert machine.cores() == expected


def test_a_system_without_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    monkeypatch.setattr(machine, "_own_quota", lambda: math.inf)
    assert machine.cores() == 5


@pytest.mark.parametrize(("allowed", "expected"), [(0.2, 1), (1.0, 1), (1.5, 2), (math.inf, 4)])
def test_a_log_is_checked_by_as_many_processes_as_the_quota_feeds(
    allowed: float, expected: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(4), raising=False)
    monkeypatch.setattr(machine, "_own_quota", lambda: allowed)
    asked: list[int] = []
    monkeypatch.setattr("rmqcli.store.verify.commit_log.Workers", asked.append)
    folder = tmp_path / "commitlog"
    folder.mkdir()
    os.truncate(os.open(folder / f"{0:020}", os.O_CREAT | os.O_WRONLY), WORTH_A_PROCESS)
    workers_for(CommitLogFiles(tmp_path))
    assert asked == [expected]
