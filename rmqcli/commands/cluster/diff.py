"""`rmq cluster diff`."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated

from typer import Argument

from rmqcli.cli.command import command
from rmqcli.cli.errors import Ended
from rmqcli.cli.exit_codes import ExitCode, usage_error
from rmqcli.cli.options import Masters
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.cluster.app import app
from rmqcli.commands.cluster.metadata import (
    AREA,
    CHANGES,
    NAME,
    PLACE,
    AllOption,
    FileArgument,
    MapOption,
    OnlyOption,
    read_file,
    scope_like,
    state_of,
)
from rmqcli.commands.common.outcome import end_partly
from rmqcli.render.output import Output, warn
from rmqcli.render.table import Column, objects, show_rows
from rmqcli.render.text import many

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
    """Show in what a dump differs from the cluster, or from another dump.

    Exit code 0 if they are the same, 1 if they differ. Areas that one of both lacks are not compared, and
    offsets only with --only. Brokers of other names are mapped, as by `rmq cluster apply`.

    Piped output: area, broker or namespace, name, then removed (only in FILE),
    added (not in FILE) or changed, changes. Brokers that do not respond are reported, and the exit code is 3.
    """
    from rmqcli.metadata.comparing import compared
    from rmqcli.metadata.own import without_own
    from rmqcli.metadata.planning import check_selected, check_sums
    from rmqcli.metadata.renaming import names_of, renamed
    from rmqcli.metadata.values import areas_of, chosen, spread

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
