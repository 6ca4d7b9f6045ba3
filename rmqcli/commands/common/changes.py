"""What commands that change something have in common: asking first, and telling who took the change and who did not."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.settings import Settings
from rmqcli.render.output import warn

if TYPE_CHECKING:
    from rmqcli.client import TopicChange

__all__ = ["confirm", "show_change"]


def confirm(question: str, *, yes: bool) -> None:
    """Goes on after yes. Without a terminal to ask on, `--yes` is needed; a no ends with exit code 1."""
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise usage_error(f"{question.rstrip('?')}: there is no terminal to ask on; --yes says yes")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was done")


def show_change(
    settings: Settings, done: str, change: TopicChange, kept: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Ends with exit code 3 when some brokers refused; raises their error when all did. `kept` are topics that were to be deleted
    and are still there, by broker."""
    from rmqcli.render import Output

    for name, error in change.failures.items():
        warn(f"{name}: {error}")
    for name, topics in (kept or {}).items():
        warn(f"{name} still has {' and '.join(topics)}: delete again when it answers")
    if settings.json:
        failures = {name: str(error) for name, error in change.failures.items()}
        told = {} if kept is None else {"keptTopics": kept}
        Output().json({"brokers": list(change.brokers), "failures": failures} | told)
    elif change.brokers:
        Output().line(f"{done} {', '.join(change.brokers)}")
    if (change.failures or kept) and change.brokers:
        raise typer.Exit(ExitCode.PARTLY)
    if change.failures:
        from rmqcli.cli.errors import exit_code_of

        raise typer.Exit(exit_code_of(next(iter(change.failures.values()))))
