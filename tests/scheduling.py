"""The order of tasks that are ready at the same time, which trio draws: the same in each run of a test."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest
from trio._core import _run


class OwnRandom:
    """A source of random numbers that is seeded for one thread.

    Other tests may have left a cluster in another thread, whose event loop draws from trio's source, too.
    """

    def __init__(self, seed: int, others: Any) -> None:
        self._own, self._others = random.Random(seed), others
        self._thread = threading.get_ident()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own if threading.get_ident() == self._thread else self._others, name)


def seed_scheduler(patch: pytest.MonkeyPatch, seed: int) -> None:
    """Seed the order of tasks in this thread, until `patch` is undone."""
    patch.setattr(_run, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
    patch.setattr(_run, "_r", OwnRandom(seed, _run._r))
