"""What the process answers. One enum, one error type for what a command itself finds wrong.

Scripts depend on these numbers: they never change their meaning.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["CommandError", "ExitCode", "usage_error"]


class ExitCode(IntEnum):
    """Exit status of `rmq`."""

    DONE = 0
    FAILED = 1
    """Refused by a server, or failed."""
    USAGE = 2
    """The command line is wrong; nothing was done."""
    PARTLY = 3
    """Some items were done, some were not; standard error says which."""
    NOT_FOUND = 4
    """The topic, group, queue, message or file is not there."""
    NO_CONNECTION = 5
    """No server could be reached."""
    NOT_PERMITTED = 6
    TIMED_OUT = 7
    CORRUPT = 8
    """Stored data is damaged."""
    INTERRUPTED = 130
    """Ctrl-C."""


class CommandError(Exception):
    """A command gives up. The text is one line that names the thing and the remedy; `code` is the exit status."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


def usage_error(message: str) -> CommandError:
    """The command line cannot be meant so."""
    return CommandError(message, ExitCode.USAGE)
