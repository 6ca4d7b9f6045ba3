"""How many cases a test takes: few in each run, `RMQ_SEEDS` times as many where somebody asks for it.

`make nightly` asks for four times as many, `make crash` for twenty times.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["one_of", "seeds", "times"]

Case = TypeVar("Case")


def times(few: int) -> int:
    """Returns the number of cases, where each run has `few`."""
    return few * int(os.environ.get("RMQ_SEEDS", "1"))


def seeds(few: int) -> range:
    """Returns the seeds of a test."""
    return range(times(few))


def one_of(every: int, cases: Sequence[Case]) -> Sequence[Case]:
    """Returns one of so many cases of a systematic test, and `RMQ_SEEDS` times as many, up to all."""
    return cases[:: max(1, every // times(1))]
