"""Clocks for nodes, and the number of cores that this process may use."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath

NowMs = Callable[[], int]
"""Milliseconds since the epoch."""
Timer = Callable[[], float]
"""Seconds since any moment, with a resolution of a microsecond or better."""


def system_now_ms() -> int:
    """Return the wall-clock time of this machine."""
    return time.time_ns() // 1_000_000


# Cores that this process may use: those it may run on, and what a container's quota leaves of them.
#
# A quota is that of the process's control group or of one above it (cgroups v2: `cpu.max`; v1:
# `cpu.cfs_quota_us` and `cpu.cfs_period_us`).

_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")


def cores() -> float:
    """Return the number of cores that this thread may use; a fraction under a quota, which is read once."""
    return min(len(os.sched_getaffinity(0)), _own_quota())


def quota(groups: Path = _GROUPS, own_groups: Path = _OWN_GROUPS) -> float:
    """Return the cores that the quotas of this process allow; infinite without any."""
    return min(_quotas(groups, own_groups), default=math.inf)


_own_quota = cache(quota)


def _quotas(groups: Path, own_groups: Path) -> Iterator[float]:
    for line in _lines(own_groups):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not path or (controllers and "cpu" not in controllers.split(",")):
            continue
        group = PurePosixPath(path)
        # A container sees its own group as the root, whatever the path says.
        for folder in {group, *group.parents, PurePosixPath("/")}:
            yield from _quota(groups / controllers / folder.relative_to("/"))


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
