"""What the library logs, told on standard error by the command that uses it.

From warnings on, a line each; what is said again and again only once in AGAIN seconds. With -v all of it, and where it happened.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["OneLine", "Seldom", "client_log"]

AGAIN = 60.0
MOST = 1000  # texts that are remembered
_CLIENT = "rmqcli.client"


class OneLine(logging.Formatter):
    """Says what went wrong, not where."""

    def formatException(self, ei: Any) -> str:
        return ""

    def format(self, record: logging.LogRecord) -> str:
        text = " ".join(super().format(record).split())
        error = record.exc_info[1] if record.exc_info else None
        return text if error is None else f"{text}: {type(error).__name__}: {error}"


class Seldom(logging.Filter):
    """Lets the same text pass once in `seconds`."""

    def __init__(self, seconds: float = AGAIN) -> None:
        super().__init__()
        self._seconds = seconds
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        last = self._said.get(text)
        if last is not None and record.created - last < self._seconds:
            return False
        if len(self._said) >= MOST:
            self._said.clear()
        self._said[text] = record.created
        return True


@contextmanager
def client_log(*, verbose: bool) -> Iterator[None]:
    """While the block runs."""
    handler = logging.StreamHandler(sys.stderr)
    if verbose:
        handler.setFormatter(logging.Formatter("rmq: %(name)s: %(message)s"))
    else:
        handler.setFormatter(OneLine("rmq: %(message)s"))
        handler.addFilter(Seldom())
    logger = logging.getLogger(_CLIENT)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if verbose else logging.WARNING)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
