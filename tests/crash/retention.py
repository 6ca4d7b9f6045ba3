"""What may remove files of the log in a session, by the settings of a seed and by what was done to it: a request,
the hour of day (`deleteWhen`), and the disk, which other programs fill (`diskMaxUsedSpaceRatio`,
`diskSpaceCleanForciblyRatio`).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from rmqcli.broker.testing.disk import CAPACITY
from tests.crash.plan import START_MS, Clock, hour_of

HOURS_OFF = (-1, 0, 1, 2)
"""Of the hours to delete at, from the one in which the clock starts."""
HOUR_OFF_NEVER = 12
"""As good as never: the clock is set by single hours, or by days."""
MAX_USED, FORCED = 75, 85
"""Percent of the disk above which expired files go, and any files: Java's defaults."""
ROOMY, FILLING, FORCING, REFUSING = (CAPACITY * percent // 100 for percent in (50, 76, 86, 91))
"""Bytes that other programs use, of each kind."""
HARDLY_ANY = CAPACITY - (10 << 20)
"""The same: they leave too little room for messages."""
USED = (ROOMY, ROOMY, ROOMY, FILLING, FORCING, FORCING, REFUSING, HARDLY_ANY)
RUN_S = 3.0
"""The longest time that a run takes: ten files, with a pause and a few calls to the disk for each."""


KINDS: Sequence[frozenset[str]] = tuple(
    map(frozenset, (("request",), ("hour",), ("disk",), ("request", "hour", "disk")))
)
"""What removes files, or fills the disk, by seed."""


def draw_settings(rng: random.Random, kinds: frozenset[str]) -> dict[str, Any]:
    """The settings of retention for a seed."""
    offs = rng.sample(HOURS_OFF, rng.choice((1, 1, 2))) if "hour" in kinds else [HOUR_OFF_NEVER]
    hours = {(hour_of(START_MS) + off) % 24 for off in offs}
    return {
        "delete_when": ";".join(f"{hour:02d}" for hour in sorted(hours)),
        "clean_resource_interval": rng.choice((1000, 2000, 10_000)),
        "delete_commit_log_files_interval": rng.choice((0, 100)),
        "clean_file_forcibly_enable": rng.random() < 0.8,
    }


@dataclass(eq=False)
class Causes:
    """Why files may have been removed since the last recovered store. Times are trio's."""

    clock: Clock
    kinds: frozenset[str]
    settings: dict[str, Any]
    requested: bool = False
    """A request was sent (code 329)."""
    used: int = 0
    """Bytes that other programs use now."""
    fillings: list[tuple[float, int]] = field(default_factory=lambda: [(0.0, 0)])
    """When this was set, and to what."""
    since: float = 0.0

    def fill(self, used: int, now: float) -> None:
        self.used = used
        self.fillings.append((now, used))

    def settle(self, now: float) -> None:
        """A broker has recovered: what its predecessors were told is forgotten."""
        self.requested, self.since = False, now

    def names(self) -> list[str]:
        """The causes there were."""
        forces = self.forces_since(self.since)
        found = {
            "request": self.requested,
            "hour": bool(self._hours & self.clock.hours(self.since)),
            "a disk that fills": self._last(MAX_USED) + RUN_S >= self.since and not forces,
            "a full disk": forces,
        }
        return [name for name, is_so in found.items() if is_so]

    def forces_since(self, begin: float) -> bool:
        """True if files that have not expired may have been removed after a time."""
        forces: bool = self.settings["clean_file_forcibly_enable"]
        return forces and self._last(FORCED) + RUN_S >= begin

    @property
    def _hours(self) -> set[int]:
        return set(map(int, self.settings["delete_when"].split(";")))

    def _last(self, percent: int) -> float:
        """When more than a part of the disk was in use last; infinite if it is now."""
        if self.used * 100 > percent * CAPACITY:
            return math.inf
        full = [end for (_, used), (end, _) in pairwise(self.fillings) if used * 100 > percent * CAPACITY]
        return max(full, default=-math.inf)
