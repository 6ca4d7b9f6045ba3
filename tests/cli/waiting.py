"""Waits for what other threads and processes do, in a time that nobody knows on a busy machine."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.cli.conftest import Result, Run
from tests.support import PATIENCE


def until(rmq: Run, holds: Callable[[Result], bool], *arguments: str) -> Result:
    """Repeats a command and returns the first result that `holds` accepts."""
    deadline = time.monotonic() + PATIENCE
    while not holds(result := rmq(*arguments)):
        assert time.monotonic() < deadline, result
    return result


def has_rows(result: Result) -> bool:
    return bool(result.out)
