"""Partial success: some items, brokers or clients failed and others did not. Exit code 3 is decided only here."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from rmqcli.cli.errors import exit_code_of
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.render.output import warn


def partial_code(*, done: bool, code: ExitCode = ExitCode.FAILED) -> ExitCode:
    """Return 3 if anything succeeded (`done`), else `code`."""
    return ExitCode.PARTLY if done else code


def report_failures(*failures: Mapping[str, Exception | str]) -> None:
    """Report each failure by its name on standard error."""
    for table in failures:
        for name, error in table.items():
            warn(f"{name}: {error}")


def end_partly(
    *failures: Mapping[str, Exception | str], done: bool = True, code: ExitCode | None = None
) -> None:
    """Report each failure by its name and end with exit code 3, or return if there is none.

    If nothing succeeded (`done` is false), the exit code is `code`, by default that of the first error.
    """
    report_failures(*failures)
    found = [error for table in failures for error in table.values()]
    if found:
        first = found[0]
        code = code or (exit_code_of(first) if isinstance(first, Exception) else ExitCode.FAILED)
        raise typer.Exit(partial_code(done=done, code=code))
