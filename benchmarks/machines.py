"""A measuring client, a broker and an attacker as if on three machines: the first two have a core each, and the
attacker what these leave; of two cores, that of the client at the lowest priority."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_CLIENT, *_OTHERS = sorted(os.sched_getaffinity(0))
_BROKER: Final = set(_OTHERS[:1]) or {_CLIENT}
_ATTACKER: Final = set(_OTHERS[1:]) or {_CLIENT}
_LOWEST: Final = 19

ASIDE: Final = ("nice", "-n", str(_LOWEST), "taskset", "--cpu-list", ",".join(map(str, _ATTACKER)))
"""In front of the command of an attacker."""


def place_client_and(broker: int) -> None:
    """Places this process and the broker with that process id; children that start later are beside us."""
    os.sched_setaffinity(0, {_CLIENT})
    for task in Path(f"/proc/{broker}/task").iterdir():
        os.sched_setaffinity(int(task.name), _BROKER)


def place_attacker() -> None:
    """Places this process, which attacks."""
    os.nice(_LOWEST)
    os.sched_setaffinity(0, _ATTACKER)
