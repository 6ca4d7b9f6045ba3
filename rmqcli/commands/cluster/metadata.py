"""Shared by `rmq cluster dump`, `diff` and `apply`: options, columns, and the reading of both sides."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from rmqcli.cli.exit_codes import CommandError, ExitCode
from rmqcli.cli.options import Masters
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.render.table import Column

if TYPE_CHECKING:
    from rmqcli.metadata.reading import Scope, State
    from rmqcli.metadata.values import Metadata

OnlyOption = Annotated[
    str | None,
    Option("--only", metavar="AREAS", help="Only these, with commas: topics, groups, kv, config, offsets."),
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
        help="Take broker OLD of FILE for NEW of the cluster; * for every other one, or for all; repeatable.",
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
    """Return what a file says; CommandError (4) if there is none."""
    from rmqcli.metadata.document import read_metadata

    if not path.is_file():
        raise CommandError(f"{path}: no such file", ExitCode.NOT_FOUND)
    return read_metadata(path)


def scope_like(metadata: Metadata, masters: Masters, *, everything: bool = False) -> Scope:
    """Return the scope of a cluster that has what a document has."""
    from rmqcli.metadata.reading import Scope

    spaces = tuple(metadata.areas.get("kv", ()))
    return Scope(tuple(metadata.areas), spaces, masters.broker or (), masters.cluster, everything=everything)


def state_of(settings: Settings, scope: Scope) -> State:
    """Read the cluster."""
    from rmqcli.metadata.reading import read_state

    return with_admin(settings, lambda admin: read_state(admin, scope))
