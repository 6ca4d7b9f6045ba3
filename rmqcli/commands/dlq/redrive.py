"""`rmq dlq redrive` and `rmq dlq drop`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError, ExitCode
from rmqcli.cli.options import YesOption
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import warn_of_clocks, with_admin
from rmqcli.commands.common.messages import Conditions
from rmqcli.commands.common.outcome import Failures, confirm, end_partly, show_change
from rmqcli.commands.dlq.app import (
    Access,
    AgainOption,
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
    from rmqcli.dead_letters.letter import Selection
    from rmqcli.dead_letters.redrive import Found, Tally

RateOption = Annotated[
    float | None, Option("--rate", metavar="N", min=0.001, help="Send at most N letters a second.")
]
ToOption = Annotated[
    str | None, Option("--to", metavar="TOPIC", help="Send to TOPIC instead of the original topics.")
]


@command(
    app,
    "redrive",
    example="""rmq dlq redrive billing --all --dry-run
rmq dlq redrive billing --key 42 --yes
rmq dlq redrive billing -o @-1h --rate 50""",
    rows=Rows.DOCUMENT,
)
def redrive(
    group: GroupArgument,
    settings: Settings,
    *,
    choice: Choice,
    conditions: Conditions,
    everything: AllOption = False,
    to: ToOption = None,
    rate: RateOption = None,
    again: AgainOption = False,
    access: Access,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Send dead letters back to the topics they came from, where all groups of the topic consume them.

    A letter keeps its body, keys, tag, properties and message ID, starts with no retries counted, and has the
    property REDRIVEN_FROM. Shows how many letters go where, then asks for confirmation; without a terminal,
    --yes is required. Sent letters are recorded in a file, so that none is sent twice; a letter whose send
    was not acknowledged is skipped unless --again is given. The dead letters remain in their topic. Exit code
    3 if some could not be sent.
    """
    access.check(settings, group)
    chosen = choice.selection(conditions)
    warn_of_clocks(settings, choice.offset)
    check_selected(chosen, everything=everything)
    journal = access.journal(group)

    from rmqcli.commands.dlq.steps import Redrive

    job = Redrive(settings, group, chosen, access, journal, again, to)
    with nullcontext() if dry_run else journal:
        found, readers = job.plan()
        job.show(found, dry_run=dry_run)
        if dry_run:
            end_partly(found.failures)
            return
        job.agree(found, readers, yes=yes)
        tally = job.apply(found, rate)
    job.end(found, tally)


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
    """Drop dead letters: mark the selected ones, or delete all with their topic.

    Brokers cannot delete single messages: a selected letter is recorded as dropped in a file, so that `rmq
    dlq redrive` skips it; it remains in its topic until retention deletes it. --all deletes the dead-letter
    topic of the group, which brokers create again for the next dead letter. Asks for confirmation; without a
    terminal, --yes is required.
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
    from rmqcli.codec.names import dlq_topic

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
    from rmqcli.dead_letters.redrive import Tally
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
    """Return whether this is a dry run, after showing its plan. Raise CommandError (4) if no letter is
    selected.
    """
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
