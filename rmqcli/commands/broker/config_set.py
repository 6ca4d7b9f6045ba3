"""`rmq broker config set`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rmqcli.cli.command import command
from rmqcli.cli.options import Seats, YesOption
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.broker.app import config
from rmqcli.commands.broker.reading import read_configs
from rmqcli.commands.common.properties import (
    DryRunOption,
    Servers,
    ValuesArgument,
    change_properties,
    values_of,
)
from rmqcli.render.columns import BROKER

if TYPE_CHECKING:
    from rmqcli.client import Admin, TopicChange


@command(
    config,
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
