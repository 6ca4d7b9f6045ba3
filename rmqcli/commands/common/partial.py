"""What commands that ask several brokers do about those that do not answer: name them after what the others said."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.render.output import warn

__all__ = ["end_partly"]


def end_partly(failures: Mapping[str, Exception]) -> None:
    """Names each broker that failed and ends with exit code 3; nothing when there is none."""
    for name, error in failures.items():
        warn(f"{name} could not be asked: {error}")
    if failures:
        raise typer.Exit(ExitCode.PARTLY)
