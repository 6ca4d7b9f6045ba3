"""Exit codes, whose meaning never changes because scripts depend on it, and the error that commands raise."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit status of `rmq`."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    PARTLY = 3
    NOT_FOUND = 4
    NO_CONNECTION = 5
    NOT_PERMITTED = 6
    TIMED_OUT = 7
    CORRUPT = 8
    INTERRUPTED = 130


EXIT_TEXTS: Mapping[ExitCode, str] = {
    ExitCode.DONE: "Success.",
    ExitCode.FAILED: "A server refused the request, or the command failed.",
    ExitCode.USAGE: "The command line is invalid; nothing was done.",
    ExitCode.PARTLY: "Partial success; standard error names the failures.",
    ExitCode.NOT_FOUND: "The topic, group, queue, message or file does not exist.",
    ExitCode.NO_CONNECTION: "No server could be reached.",
    ExitCode.NOT_PERMITTED: "Not permitted.",
    ExitCode.TIMED_OUT: "Timed out, or it is unknown whether messages were stored.",
    ExitCode.CORRUPT: "Stored data is damaged.",
    ExitCode.INTERRUPTED: "Interrupted (Ctrl-C).",
}


class CommandError(Exception):
    """A command cannot continue: one line that names the object and the remedy, and the exit code `code`.

    `missing`: kind and name of the object that does not exist; `known`: the existing names, or None to query
    the cluster.
    """

    def __init__(
        self,
        message: str,
        code: ExitCode = ExitCode.FAILED,
        *,
        missing: tuple[str, str] | None = None,
        known: Collection[str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.missing = missing
        self.known = None if known is None else tuple(sorted(known))


def usage_error(message: str) -> CommandError:
    """Return the error for an invalid command line."""
    return CommandError(message, ExitCode.USAGE)
