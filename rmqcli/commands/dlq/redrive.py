"""`rmq dlq redrive`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.options import YesOption
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.clocks import warn_of_clocks
from rmqcli.commands.common.messages import Conditions
from rmqcli.commands.common.outcome import end_partly
from rmqcli.commands.dlq.app import (
    Access,
    AgainOption,
    AllOption,
    Choice,
    DryRunOption,
    GroupArgument,
    app,
    check_selected,
)

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

    A letter keeps its body, keys, tag, properties and message ID, starts without retries, and has the
    property REDRIVEN_FROM. Shows how many letters go where, then asks for confirmation; without a terminal,
    --yes is required. What was sent is noted in a file, so that no letter is sent twice; a letter whose send
    was not answered is left out until --again. The dead letters stay in their topic. Exit code 3 if some
    could not be sent.
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
