"""The end of a command that reached some brokers and not others."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.render.output import warn

__all__ = ["end_partly"]


def end_partly(failures: Mapping[str, Exception]) -> None:
    """Report each broker that failed and end with exit code 3; return if there is none."""
    for name, error in failures.items():
        warn(f"{name}: {error}")
    if failures:
        raise typer.Exit(ExitCode.PARTLY)
