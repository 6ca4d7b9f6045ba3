"""The cores and the memory that this process may use: those of the machine, or fewer in a container.

A limit is that of the process's control group or of one above it (cgroups v2: `cpu.max` and `memory.max`; v1:
`cpu.cfs_quota_us`, `cpu.cfs_period_us` and `memory.limit_in_bytes`).
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")


def cores() -> float:
    """Return the number of cores that this thread may use; a fraction under a quota, which is read once."""
    return min(_usable_cores(), _own_quota())


def processes() -> int:
    """Return the number of processes that use all of these cores: a fraction of a core counts as one."""
    return math.ceil(cores())


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # macOS cannot bind a process to cores


def quota(groups: Path = _GROUPS, own_groups: Path = _OWN_GROUPS) -> float:
    """Return the cores that the quotas of this process allow; infinite without any."""
    return min(
        (cores for folder in _folders("cpu", groups, own_groups) for cores in _quota(folder)),
        default=math.inf,
    )


_own_quota = cache(quota)


def memory(groups: Path = _GROUPS, own_groups: Path = _OWN_GROUPS) -> int:
    """Return the bytes of memory that this process may use: those of the machine, or fewer in a container."""
    # Python on Windows does not report it, and there is no store.
    limits = [
        os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else sys.maxsize
    ]
    for folder in _folders("memory", groups, own_groups):
        with contextlib.suppress(ValueError):  # "max"
            limits += map(int, _lines(folder / "memory.max") or _lines(folder / "memory.limit_in_bytes"))
    return min(limits)


def _folders(controller: str, groups: Path, own_groups: Path) -> Iterator[Path]:
    """Yield the folders of the control groups of this process that have a controller, and of those above."""
    for line in _lines(own_groups):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not path or (controllers and controller not in controllers.split(",")):
            continue
        group = PurePosixPath(path)
        # A container sees its own group as the root, regardless of the path.
        for folder in {group, *group.parents, PurePosixPath("/")}:
            yield groups / controllers / folder.relative_to("/")


def _quota(folder: Path) -> Iterator[float]:
    """Yield the cores that the quota of one group allows, if it has one."""
    values = " ".join(_lines(folder / "cpu.max")) or " ".join(
        line for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us") for line in _lines(folder / name)
    )
    with contextlib.suppress(ValueError):  # "max", or -1 in v1: no quota
        quota, period = map(int, values.split())
        if quota > 0 and period > 0:
            yield quota / period


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
