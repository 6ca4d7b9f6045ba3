"""`rmq cluster dump`, `diff` and `apply`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from rmqcli.cli.command import command
from rmqcli.cli.errors import Ended
from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.options import Masters, YesOption
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.cluster import app
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.configuration import DryRunOption
from rmqcli.commands.common.outcome import confirm, end_partly
from rmqcli.render.output import Output, note, warn
from rmqcli.render.table import Column, objects, show_rows
from rmqcli.render.text import many

if TYPE_CHECKING:
    from rmqcli.plans.metadata.document import Metadata
    from rmqcli.plans.metadata.planning import Step
    from rmqcli.plans.metadata.reading import Scope, State

OnlyOption = Annotated[
    str | None,
    Option("--only", metavar="AREAS", help="Areas, comma-separated: topics, groups, kv, config, offsets."),
]
AllOption = Annotated[
    bool,
    Option(
        "--all",
        "-a",
        help="Include system topics and groups, names, addresses, folders and secrets of brokers.",
    ),
]
MapOption = Annotated[
    list[str] | None,
    Option(
        "--map-broker",
        metavar="OLD=NEW",
        help="Map broker OLD of FILE to NEW of the cluster; * means every other one, or all; repeatable.",
    ),
]
FileArgument = Annotated[
    Path, Argument(metavar="FILE", help="Dump of rmq, or topic.json, … of mqadmin's exportMetadata.")
]

AREA = Column("AREA", "area")
PLACE = Column("PLACE", "place", whole=True)
NAME = Column("NAME", "name", whole=True)
CHANGES = Column("CHANGES", "changes")


def read_file(path: Path) -> Metadata:
    """Return the metadata in a file. Raise CommandError (4) if the file does not exist."""
    from rmqcli.plans.metadata.document import read_metadata

    if not path.is_file():
        raise CommandError(f"{path}: no such file", ExitCode.NOT_FOUND)
    return read_metadata(path)


def scope_like(metadata: Metadata, masters: Masters, *, everything: bool = False) -> Scope:
    """Return the scope of a cluster that corresponds to a document."""
    from rmqcli.plans.metadata.reading import Scope

    spaces = tuple(metadata.areas.get("kv", ()))
    return Scope(tuple(metadata.areas), spaces, masters.broker or (), masters.cluster, everything=everything)


def state_of(settings: Settings, scope: Scope) -> State:
    """Return the state of the cluster within a scope."""
    from rmqcli.plans.metadata.reading import read_state

    return with_admin(settings, lambda admin: read_state(admin, scope))


NamespaceOption = Annotated[
    list[str] | None,
    Option("--namespace", metavar="NAME", help="Include the entries of this namespace; repeatable."),
]


@command(
    app, "dump", example="rmq cluster dump > cluster.json\nrmq cluster dump --only topics,groups -b broker-a"
)
def dump(
    settings: Settings,
    masters: Masters,
    only: OnlyOption = None,
    namespace: NamespaceOption = None,
    everything: AllOption = False,
) -> None:
    """Print topics, groups, name server entries, broker configuration and offsets as one JSON document.

    Names are sorted, so equal clusters give equal bytes, which suits version control. Only masters are
    queried. Of the entries of name servers, those of ordered topics and of --namespace are included, because
    a name server does not list its namespaces. Brokers that do not respond are listed in the member missing.
    The exit code is then 3, as it is if entries differ between name servers.
    """
    from rmqcli.client.admin.topics import ORDER_NAMESPACE
    from rmqcli.plans.metadata.document import AREAS, areas_of, document_of, encoded
    from rmqcli.plans.metadata.reading import Scope

    areas = areas_of(only, AREAS)
    spaces = dict.fromkeys([ORDER_NAMESPACE, *(namespace or ())])
    scope = Scope(areas, tuple(spaces), masters.broker or (), masters.cluster, everything=everything)
    state = state_of(settings, scope)
    if settings.json:
        Output().json(document_of(state.metadata))
    else:
        Output().write(encoded(state.metadata))
    end_partly(state.problems())


OtherArgument = Annotated[
    Path | None,
    Argument(metavar="[OTHER]", help="Another file; without it, the cluster.", show_default=False),
]
DEFAULT = ("topics", "groups", "kv", "config")


@command(
    app,
    "diff",
    example="rmq cluster diff cluster.json\nrmq cluster diff monday.json friday.json --json",
    rows=Rows.DOCUMENT,
)
def diff(
    file: FileArgument,
    settings: Settings,
    masters: Masters,
    other: OtherArgument = None,
    only: OnlyOption = None,
    map_broker: MapOption = None,
    everything: AllOption = False,
) -> None:
    """Show the differences between a dump and the cluster, or another dump.

    Exit code 0 if they are the same, 1 if they differ. Areas that either side lacks are not compared; offsets
    are compared only with --only. --map-broker works as in `rmq cluster apply`.

    Piped output: area, broker or namespace, name, then removed (only in FILE),
    added (not in FILE) or changed, changes. Brokers that do not respond are reported, and the exit code is 3.
    """
    from rmqcli.plans.metadata.document import areas_of, chosen, names_of, renamed, spread, without_own
    from rmqcli.plans.metadata.planning import check_selected, check_sums, compared

    if other is not None and masters.cluster:
        raise usage_error("--cluster: a file does not name clusters; use --broker")
    names = names_of(map_broker or ())
    clusters: Collection[str] = ()
    document, areas = read_file(file), areas_of(only, DEFAULT)
    document = document if everything else without_own(document)
    if other is not None:
        second, problems = read_file(other), {}
        first = chosen(renamed(document, names, second.brokers), areas)
        known = set(masters.broker or first.brokers | second.brokers)
    else:
        state = state_of(settings, scope_like(chosen(document, areas), masters, everything=everything))
        first = chosen(renamed(document, names, state.masters), areas)
        check_sums(first, state.masters)
        second, problems, known = state.metadata, state.problems(), set(state.masters)
        clusters = state.clusters
    limited = bool(masters.broker or masters.cluster)
    if first.brokers and second.brokers and not first.brokers & second.brokers:
        old, new = min(first.brokers), min(second.brokers)
        warn(f"no broker is on both sides: take one for another with --map-broker {old}={new}")
    for one in (first, second):
        check_selected(spread(one, known, limited=limited), one, known)
    first, second = (spread(one, known, limited=limited) for one in (first, second))
    if not everything:
        first, second = without_own(first, clusters), without_own(second, clusters)
    found = compared(first, second)
    columns = (AREA, PLACE, NAME, Column("DIFFERENCE", "difference"), CHANGES)
    rows = [[*one[:-1], list(one.changes)] for one in found]
    if settings.json:
        Output().json(
            {"differences": objects(columns, rows), "missing": sorted({*first.missing, *second.missing})}
        )
    else:
        show_rows(settings, columns, rows, empty="" if problems else "no differences")
    end_partly(problems)
    if found:
        raise Ended(ExitCode.FAILED, summary=many(len(found), "difference"))


PruneOption = Annotated[
    bool, Option("--prune", help="Delete topics, groups and entries that are only in the cluster.")
]
APPLIED = ("topics", "groups", "kv")
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
    """Make a cluster match a dump.

    Topics, groups and entries of name servers are applied; broker configuration and offsets only with --only.
    Shows what will be created and changed, and what exists only in the cluster (extra), and asks for
    confirmation; without a terminal, --yes is required. Nothing is deleted without --prune. Settings that the
    file does not name are kept, and so are system topics and settings specific to one broker, such as its
    addresses. --map-broker maps brokers of different names: a=b, '*=b' for every other broker of the file,
    'a=*' for every broker of the cluster.

    Piped output: area, broker or namespace, name, create, change, extra or delete, changes. Exit code 3 if
    some brokers did not apply the changes.
    """
    from rmqcli.plans.metadata.document import areas_of, chosen, names_of, renamed, spread, without_own
    from rmqcli.plans.metadata.planning import check_applicable, check_selected, planned

    names = names_of(map_broker or ())
    if prune and (masters.broker or masters.cluster):
        raise usage_error("--prune goes without --broker and --cluster: a topic is deleted as a whole")
    document = read_file(file)
    wanted = chosen(document, areas_of(only, APPLIED))
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
    """Ask for confirmation and carry out the steps. Return how many succeeded, and the errors of the others."""
    from rmqcli.plans.metadata.applying import carry_out, seen_losses
    from rmqcli.plans.metadata.planning import lost_with

    hidden = with_admin(settings, lambda admin: seen_losses(admin, steps, state))
    for line in hidden:
        warn(line)
    confirm(settings, f"apply {many(len(steps), 'change')}?", yes=yes, lost=[*lost_with(steps), *hidden])
    applied, failures = with_admin(settings, lambda admin: carry_out(admin, steps, state))
    return applied, dict(failures)
