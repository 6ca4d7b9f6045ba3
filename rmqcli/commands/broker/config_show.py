"""`rmq broker config show`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.options import Seats
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.broker.app import config
from rmqcli.commands.broker.reading import read_configs
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.common.properties import PatternsArgument, show_properties


@command(
    config,
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
    from rmqcli.render.columns import BROKER

    failures: Failures = {}
    tables = with_admin(settings, lambda admin: read_configs(admin, seats, failures))
    show_properties(settings, BROKER, tables, patterns or ())
    end_partly(failures)
