"""`rmq dlq drop`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError, ExitCode
from rmqcli.cli.options import YesOption
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.clocks import warn_of_clocks
from rmqcli.commands.common.messages import Conditions
from rmqcli.commands.common.outcome import Failures, confirm, end_partly, show_change
from rmqcli.commands.dlq.app import (
    Access,
    AllOption,
    Choice,
    DryRunOption,
    GroupArgument,
    app,
    check_selected,
    letters,
)
from rmqcli.render.output import note
from rmqcli.render.text import many

if TYPE_CHECKING:
    from rmqcli.client import Admin
    from rmqcli.dead_letters.journal import Journal
    from rmqcli.dead_letters.selection import Selection
    from rmqcli.dead_letters.work import Found, Tally


@command(app, "drop", example="rmq dlq drop billing --id 7F000001ABCD\nrmq dlq drop billing --all --yes")
def drop(
    group: GroupArgument,
    settings: Settings,
    *,
    choice: Choice,
    conditions: Conditions,
    everything: AllOption = False,
    access: Access,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Drop dead letters: mark those selected, or delete all with their topic.

    Brokers cannot delete single messages: a letter that is selected is noted as dropped in a file, so that
    `rmq dlq redrive` leaves it out; it stays in its topic until its retention ends. --all deletes the
    dead-letter topic of the group, which brokers make again for the next dead letter. Asks for confirmation;
    without a terminal, --yes is required.
    """
    access.check(settings, group)
    chosen = choice.selection(conditions)
    warn_of_clocks(settings, choice.offset)
    check_selected(chosen, everything=everything)
    if everything:
        _drop_all(settings, group, dry_run=dry_run, yes=yes)
    else:
        _drop_some(settings, group, chosen, access, dry_run=dry_run, yes=yes)


def _drop_all(settings: Settings, group: str, *, dry_run: bool, yes: bool) -> None:
    from codec.names import dlq_topic

    topic = dlq_topic(group)
    failures: Failures = {}
    count = with_admin(settings, lambda admin: _count(admin, topic, failures))
    if _is_dry(settings, group, count, dry_run=dry_run):
        end_partly(failures)
        return
    question = f"delete topic {topic} and all dead letters of group {group}?"
    confirm(settings, question, yes=yes, lost=[many(count, "dead letter")])
    change = with_admin(settings, lambda admin: admin.topics.delete(topic, failures=failures))
    show_change(settings, f"topic {topic} deleted from", change)


async def _count(admin: Admin, topic: str, failures: Failures) -> int:
    from rmqcli.client import NoRoute
    from rmqcli.client.admin.values import stored

    try:
        return stored(await admin.topics.stats(topic, failures=failures))
    except NoRoute:
        return 0


def _drop_some(
    settings: Settings, group: str, chosen: Selection, access: Access, *, dry_run: bool, yes: bool
) -> None:
    from rmqcli.dead_letters.work import Tally
    from rmqcli.render import Output

    journal, tally = access.journal(group), Tally()
    with nullcontext() if dry_run else journal:
        found = with_admin(settings, lambda admin: _found(admin, group, chosen, access, journal))
        count = sum(found.topics.values())
        if _is_dry(settings, group, count, dry_run=dry_run):
            end_partly(found.failures)
            return
        question = f"drop {many(count, 'dead letter')} of group {group}?"
        confirm(settings, question, yes=yes, lost=[many(count, "dead letter")])
        with_admin(settings, lambda admin: _mark(admin, group, chosen, access, journal, found, tally))
    if settings.json:
        Output().json({"dropped": tally.done})
    note(f"{many(tally.done, 'dead letter')} of group {group} dropped")
    end_partly(found.failures)


def _is_dry(settings: Settings, group: str, count: int, *, dry_run: bool) -> bool:
    """Show the plan of a dry run and return whether it is one. CommandError (4) if there is nothing."""
    from rmqcli.render import Output

    if not count:
        raise CommandError(f"no dead letter of group {group} is selected", ExitCode.NOT_FOUND)
    if dry_run and settings.json:
        Output().json({"letters": count, "dryRun": True})
    elif dry_run:
        note(f"{many(count, 'dead letter')} of group {group} would be dropped")
    return dry_run


async def _found(admin: Admin, group: str, chosen: Selection, access: Access, journal: Journal) -> Found:
    async with letters(admin, group, chosen, access, journal, again=False) as reader:
        return await reader.counted()


async def _mark(
    admin: Admin, group: str, chosen: Selection, access: Access, journal: Journal, found: Found, tally: Tally
) -> None:
    async with letters(admin, group, chosen, access, journal, again=False) as reader:
        await reader.drop(found, tally)
