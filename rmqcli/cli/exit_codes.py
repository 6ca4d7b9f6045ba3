"""Exit codes, whose meaning never changes as scripts depend on it, and the error that commands raise."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit status of `rmq`."""

    DONE = 0
    FAILED = 1
    """A server refused the request, or the command failed."""
    USAGE = 2
    """The command line is invalid; nothing was done."""
    PARTLY = 3
    """Some items succeeded and some failed; standard error names the failures."""
    NOT_FOUND = 4
    """The topic, group, queue, message or file does not exist."""
    NO_CONNECTION = 5
    """No server could be reached."""
    NOT_PERMITTED = 6
    TIMED_OUT = 7
    CORRUPT = 8
    """Stored data is damaged."""
    INTERRUPTED = 130
    """Ctrl-C."""


class CommandError(Exception):
    """A command cannot continue: one line that names the object and the remedy, and the exit code `code`."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


def usage_error(message: str) -> CommandError:
    """Return the error for an invalid command line."""
    return CommandError(message, ExitCode.USAGE)
