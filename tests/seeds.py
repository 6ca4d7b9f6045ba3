"""How many random cases a test takes: few in each run, `RMQ_SEEDS` times as many where somebody asks for it."""

from __future__ import annotations

import os

__all__ = ["seeds"]


def seeds(few: int) -> range:
    """Returns the seeds of a test."""
    return range(few * int(os.environ.get("RMQ_SEEDS", "1")))
