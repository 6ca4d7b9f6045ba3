"""The group `rmq dlq`: options that its commands share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from rmqcli.cli.command import command_group
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import KeyOption, OptionGroup
from rmqcli.cli.running import now_ms
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.messages import Conditions
from rmqcli.commands.common.outcome import confirm

if TYPE_CHECKING:
    from rmqcli.client import Admin
    from rmqcli.dead_letters.journal import Journal
    from rmqcli.dead_letters.letter import Selection
    from rmqcli.dead_letters.redrive import Letters

app = command_group("dlq", "Show dead letters, send them back, or drop them.")

GroupArgument = Annotated[str, Argument(metavar="GROUP", help="Consumer group of the dead letters.")]
IdOption = Annotated[
    list[str] | None,
    Option("--id", metavar="ID", help="Message ID of the letter or of its original; repeatable."),
]
RangeOption = Annotated[
    str, Option("--offset", "-o", metavar="RANGE", help="Range of the letters; see `rmq help ranges`.")
]
GrantOption = Annotated[
    bool,
    Option("--grant-read", help="Give a write-only dead-letter topic read permission while this runs."),
]
ProgressOption = Annotated[
    Path | None,
    Option("--progress", metavar="FILE", help="File that records what was done; default: one per group."),
]
AllOption = Annotated[bool, Option("--all", "-a", help="Select all letters of the group.")]
AgainOption = Annotated[bool, Option("--again", help="Include letters that were sent or dropped before.")]
DryRunOption = Annotated[bool, Option("--dry-run", help="Show the plan only.")]


@dataclass(frozen=True, slots=True)
class Access(OptionGroup):
    """Options for reading dead letters."""

    grant_read: GrantOption = False
    progress: ProgressOption = None

    def check(self, settings: Settings, group: str) -> None:
        """Ask for confirmation before changing the permission of a topic in a protected cluster. Raise as
        `confirm` does.
        """
        if self.grant_read:
            question = f"give the dead-letter topic of {group} read permission while this runs?"
            confirm(settings, question, yes=True)

    def journal(self, group: str) -> Journal:
        """Return the record of what was done with the letters of a group."""
        from rmqcli.dead_letters.journal import Journal, journal_path

        return Journal(self.progress or journal_path(group))


@dataclass(frozen=True, slots=True)
class Choice(OptionGroup):
    """Options that select letters; without any, all are selected."""

    key: KeyOption = None
    id: IdOption = None
    offset: RangeOption = "start"

    def selection(self, conditions: Conditions) -> Selection:
        """Return the selection. Raise GrammarError or InvalidInput for an invalid condition."""
        from rmqcli.dead_letters.letter import selection
        from rmqcli.grammar.offset_range import OffsetRange, parse_range

        span = OffsetRange() if self.offset == "start" else parse_range(self.offset, now_ms())
        conditional = conditions.where is not None or conditions.grep is not None
        test = conditions.test() if conditional else None
        return selection(self.key or (), self.id or (), span, test)


def check_selected(chosen: Selection, *, everything: bool) -> None:
    """Raise a usage error unless either a selection or `--all` is given."""
    if chosen.is_all != everything:
        raise usage_error("select letters with --key, --id, --offset, --where or --grep, or all with --all")


@asynccontextmanager
async def letters(
    admin: Admin,
    group: str,
    chosen: Selection,
    access: Access,
    journal: Journal,
    *,
    again: bool,
    to: str | None = None,
) -> AsyncIterator[Letters]:
    """Yield the selected letters of a group, whose topic is readable until the block ends."""
    from rmqcli.dead_letters.access import opened
    from rmqcli.dead_letters.redrive import Letters

    async with opened(admin, group, grant=access.grant_read) as topic:
        yield Letters(admin, topic, chosen, journal, again=again, to=to)
