"""Shows the log of the client library on standard error while a command runs.

Warnings and errors take one line each; a repeated text is shown once every REPEAT_SECONDS. With `-v`,
everything is shown, with tracebacks.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rmqcli.render.text import one_line, printable

REPEAT_SECONDS = 60.0
MAX_REMEMBERED = 1000  # texts
_CLIENT = "rmqcli.client"


class Escaped(logging.Formatter):
    """Formats a record with its traceback; neither its message nor that of an error can forge a line."""

    def formatException(self, ei: Any) -> str:
        return printable(super().formatException(ei))

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = one_line(record.message)
        return super().formatMessage(record)


class OneLine(logging.Formatter):
    """Formats the error without its traceback."""

    def formatException(self, ei: Any) -> str:
        return ""

    def format(self, record: logging.LogRecord) -> str:
        text = " ".join(super().format(record).split())
        error = record.exc_info[1] if record.exc_info else None
        return one_line(text if error is None else f"{text}: {type(error).__name__}: {error}")


class RepeatFilter(logging.Filter):
    """Passes the same text at most once in `seconds`."""

    def __init__(self, seconds: float = REPEAT_SECONDS) -> None:
        super().__init__()
        self._seconds = seconds
        self._shown: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        last = self._shown.get(text)
        if last is not None and record.created - last < self._seconds:
            return False
        if len(self._shown) >= MAX_REMEMBERED:
            # Bounds the memory; at worst, a text is shown again too early.
            self._shown.clear()
        self._shown[text] = record.created
        return True


@contextmanager
def client_log(*, verbose: bool) -> Iterator[None]:
    """Show the log of the client library while the block runs."""
    handler = logging.StreamHandler(sys.stderr)
    if verbose:
        handler.setFormatter(Escaped("rmq: %(name)s: %(message)s"))
    else:
        handler.setFormatter(OneLine("rmq: %(message)s"))
        handler.addFilter(RepeatFilter())
    logger = logging.getLogger(_CLIENT)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if verbose else logging.WARNING)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
