"""`rmq broker config`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import Seats, YesOption
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.broker import config_group
from rmqcli.commands.broker.watch import read_configs
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.configuration import (
    NAME,
    DryRunOption,
    PatternsArgument,
    Servers,
    ValuesArgument,
    change_properties,
    properties_of,
    show_properties,
    values_of,
)
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.render.table import BROKER

if TYPE_CHECKING:
    from rmqcli.client import Admin, TopicChange


@command(
    config_group,
    "show",
    example="""rmq broker config show
rmq broker config show flushDiskType 'store*' -b broker-a""",
    rows=Rows.LIST,
)
def show(settings: Settings, seats: Seats, patterns: PatternsArgument = None) -> None:
    """Show the properties of brokers and their slaves.

    Piped output: broker (NAME:ID for a slave), property, value. Brokers that do not respond are reported, and
    the exit code is 3. Exit code 4 if no property has the name.
    """
    from rmqcli.render.table import BROKER

    failures: Failures = {}
    tables = with_admin(settings, lambda admin: read_configs(admin, seats, failures))
    show_properties(settings, BROKER, tables, patterns or ())
    end_partly(failures)


@command(
    config_group,
    "set",
    example="""rmq broker config set flushDiskType=SYNC_FLUSH -b broker-a --dry-run
rmq broker config set deleteWhen=03 fileReservedTime=48 --yes""",
    rows=Rows.DOCUMENT,
)
def set_properties(
    settings: Settings,
    values: ValuesArgument,
    seats: Seats,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Change properties of running brokers and their slaves.

    Shows the old and new values and asks for confirmation; without a terminal, --yes is required. The values
    are read again afterwards: a broker that still has the old one is reported, and the exit code is 3, as for
    brokers that refuse or do not respond. Brokers save a change in the file that they were started with.

    Piped output: broker, property, old value, new value.
    """
    wanted = values_of(values)

    async def apply(admin: Admin, values: Mapping[str, str], labels: Sequence[str]) -> TopicChange:
        found = await admin.brokers.seats(**seats.named)
        return await admin.brokers.set_config({label: found[label] for label in labels}, values)

    servers = Servers(BROKER, lambda admin, failures: read_configs(admin, seats, failures), apply)
    change_properties(settings, servers, wanted, dry_run=dry_run, yes=yes)


FileOption = Annotated[
    Path | None,
    Option("--file", metavar="FILE", help="Compare with the properties of this file (broker.conf)."),
]
DefaultsOption = Annotated[bool, Option("--defaults", help="Compare with the defaults of a broker of 4.9.")]
AllOption = Annotated[
    bool,
    Option("--all", "-a", help="Include names, addresses and folders, which differ on every broker."),
]


@command(
    config_group,
    "diff",
    example="""rmq broker config diff --cluster DefaultCluster
rmq broker config diff -b broker-a --file broker.conf
rmq broker config diff --defaults""",
    rows=Rows.LIST,
)
def diff(
    settings: Settings,
    seats: Seats,
    file: FileOption = None,
    defaults: DefaultsOption = False,
    everything: AllOption = False,
) -> None:
    """Show the properties in which brokers differ from each other, a file or the defaults.

    With --file, only the properties of the file are compared. Names, addresses and folders, which differ on
    every broker, are omitted unless --all is given. Piped output: property, the value in the file or the
    default, then one value for each broker, in the order of their names. Brokers that do not respond are
    reported, and the exit code is 3.
    """
    from rmqcli.broker.config import SECRETS
    from rmqcli.plans.properties import compared, is_of_one_broker
    from rmqcli.render.table import show_matrix

    if file is not None and defaults:
        raise usage_error("--file and --defaults cannot be combined")
    model = {} if file is None else {file.name: properties_of(file)}
    for table in model.values():
        for name in SECRETS & table.keys():
            del table[name]
    failures: Failures = {}
    read = with_admin(settings, lambda admin: read_configs(admin, seats, failures))
    model |= {"default": _defaults(read.values())} if defaults else {}
    tables = {**model, **read}
    names = next(iter(model.values())) if model else None
    lines = [
        line
        for line in compared(tables, names)
        if line.differs and (everything or not is_of_one_broker(line.name))
    ]
    if len(tables) < 2 and not failures:
        raise usage_error("one broker has nothing to differ from: use --file or --defaults")
    show_matrix(settings, NAME, list(tables), lines, empty="no differences")
    end_partly(failures)


def _defaults(tables: Collection[Mapping[str, str]]) -> dict[str, str]:
    """Return the defaults of the properties that any of the brokers lists; others exist only in `rmq broker`."""
    from rmqcli.broker.config import BrokerConfig, config_properties

    return {
        name: value
        for name, value in config_properties(BrokerConfig()).items()
        if any(name in table for table in tables)
    }
