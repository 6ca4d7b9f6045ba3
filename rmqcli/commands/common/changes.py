"""Commands that change something: the confirmation prompt and the report of brokers that did so."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rmqcli.cli.exit_codes import CommandError, usage_error
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.partial import end_partly

if TYPE_CHECKING:
    from rmqcli.client import TopicChange


def confirm(question: str, *, yes: bool) -> None:
    """Return after yes on the terminal. A usage error without a terminal, CommandError after no."""
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise usage_error(f"{question.rstrip('?')}: no terminal to confirm on; use --yes")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("aborted: nothing was changed")


def show_change(
    settings: Settings, done: str, change: TopicChange, kept: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Report the brokers that applied a change. End with exit code 3 if some failed, or with the code of
    their error if all did.

    `kept` holds topics that could not be deleted, by broker.
    """
    from rmqcli.render import Output

    if settings.json:
        failures = {name: str(error) for name, error in change.failures.items()}
        extra = {} if kept is None else {"keptTopics": kept}
        Output().json({"brokers": list(change.brokers), "failures": failures} | extra)
    elif change.brokers:
        Output().line(f"{done} {', '.join(change.brokers)}")
    still = {
        name: f"still has {' and '.join(topics)}; repeat the command when the broker responds"
        for name, topics in (kept or {}).items()
    }
    end_partly(change.failures, still, done=bool(change.brokers))
