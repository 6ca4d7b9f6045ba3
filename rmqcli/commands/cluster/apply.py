"""`rmq cluster apply`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import Masters, YesOption
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.cluster.app import app
from rmqcli.commands.cluster.metadata import (
    AREA,
    CHANGES,
    NAME,
    PLACE,
    FileArgument,
    MapOption,
    OnlyOption,
    read_file,
    scope_like,
    state_of,
)
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import confirm, end_partly
from rmqcli.commands.common.properties import DryRunOption
from rmqcli.render.output import Output, note, warn
from rmqcli.render.table import Column, objects, show_rows
from rmqcli.render.text import many

if TYPE_CHECKING:
    from rmqcli.metadata.planning import Step
    from rmqcli.metadata.reading import State

PruneOption = Annotated[
    bool, Option("--prune", help="Delete topics, groups and entries that are only in the cluster.")
]
DEFAULT = ("topics", "groups", "kv")
COLUMNS = (AREA, PLACE, NAME, Column("ACTION", "action"), CHANGES)


@command(
    app,
    "apply",
    example="""rmq cluster apply cluster.json --dry-run
rmq cluster apply cluster.json --prune --yes
rmq cluster apply cluster.json --map-broker broker-a=broker-x --dry-run
rmq cluster apply cluster.json -b broker-a --map-broker '*=broker-a'""",
    rows=Rows.DOCUMENT,
)
def apply(
    file: FileArgument,
    settings: Settings,
    masters: Masters,
    only: OnlyOption = None,
    map_broker: MapOption = None,
    prune: PruneOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Make a cluster what a dump says.

    Topics, groups and entries of name servers are applied; broker configuration and offsets only with --only.
    Shows what is to create and to change, and what only the cluster has (extra), and asks for confirmation;
    without a terminal, --yes is required. Nothing is deleted without --prune. What the file does not name
    stays as it is, and so do system topics and what belongs to one broker, such as its addresses. Brokers of
    other names are mapped: a=b, '*=b' for every other broker of the file, 'a=*' for every broker of the
    cluster.

    Piped output: area, broker or namespace, name, create, change, extra or delete, changes. Exit code 3 if
    some brokers did not apply it.
    """
    from rmqcli.metadata.own import without_own
    from rmqcli.metadata.planning import check_applicable, check_selected, planned
    from rmqcli.metadata.renaming import names_of, renamed
    from rmqcli.metadata.values import areas_of, chosen, spread

    names = names_of(map_broker or ())
    if prune and (masters.broker or masters.cluster):
        raise usage_error("--prune goes without --broker and --cluster: a topic is deleted as a whole")
    document = read_file(file)
    wanted = chosen(document, areas_of(only, DEFAULT))
    absent = [area for area in areas_of(only, ()) if area not in wanted.areas]
    if absent or not wanted.areas:
        raise usage_error(f"{file} has no {' and '.join(absent or ['topics, groups or kv'])}")
    limited = bool(masters.broker or masters.cluster)
    state = state_of(settings, scope_like(wanted, masters))
    wanted = chosen(renamed(without_own(document), names, state.masters), wanted.areas)
    file_says = wanted
    wanted = without_own(spread(wanted, state.masters, limited=limited), state.clusters)
    check_selected(wanted, file_says, state.masters)
    check_applicable(wanted, state.masters, prune=prune)
    steps = planned(wanted, state, prune=prune)
    shown = [step for step in steps if step.action != "same"]
    rows = [[*step[:4], list(step.changes)] for step in shown]
    if not settings.json:
        show_rows(settings, COLUMNS, rows)
        Output().flush()
        note(_summary(steps))
    elif dry_run:
        Output().json({"steps": objects(COLUMNS, rows), "dryRun": True})
    todo = [step for step in shown if step.action != "extra"]
    if dry_run or not (todo or settings.json):
        end_partly(state.failures)
        return
    applied, failures = _apply(settings, todo, state, yes=yes) if todo else (0, {})
    failures = {**state.failures, **failures}
    if settings.json:
        texts = {name: str(error) for name, error in failures.items()}
        Output().json({"steps": objects(COLUMNS, rows), "applied": applied, "failures": texts})
    else:
        note(f"applied {applied} of {len(todo)}")
    end_partly(failures, done=bool(applied) or not todo)


def _summary(steps: Sequence[Step]) -> str:
    counts = Counter(step.action for step in steps)
    texts = [f"{counts['create']} to create, {counts['change']} to change, {counts['same']} as wanted"]
    texts += [f"{counts['delete']} to delete"] if counts["delete"] else []
    texts += [f"{counts['extra']} only in the cluster"] if counts["extra"] else []
    return ", ".join(texts)


def _apply(
    settings: Settings, steps: Sequence[Step], state: State, *, yes: bool
) -> tuple[int, dict[str, Exception | str]]:
    """Ask, and carry out the steps; return how many were, and why others were not."""
    from rmqcli.metadata.applying import apply_steps, seen_losses
    from rmqcli.metadata.planning import lost_with

    hidden = with_admin(settings, lambda admin: seen_losses(admin, steps, state))
    for line in hidden:
        warn(line)
    confirm(settings, f"apply {many(len(steps), 'change')}?", yes=yes, lost=[*lost_with(steps), *hidden])
    applied, failures = with_admin(settings, lambda admin: apply_steps(admin, steps, state))
    return applied, dict(failures)
