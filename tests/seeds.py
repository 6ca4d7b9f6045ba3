"""How many cases a test takes: few in each run, `RMQ_SEEDS` times as many where somebody asks for it.

`make nightly` asks for four times as many, `make crash` for twenty times.
"""

from __future__ import annotations

import os

__all__ = ["seeds", "times"]


def times(few: int) -> int:
    """Returns the number of cases, where each run has `few`."""
    return few * int(os.environ.get("RMQ_SEEDS", "1"))


def seeds(few: int) -> range:
    """Returns the seeds of a test."""
    return range(times(few))
