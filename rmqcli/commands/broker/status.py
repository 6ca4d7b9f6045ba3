"""`rmq broker status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcli.cli.command import command
from rmqcli.cli.options import Seats
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.broker.app import app
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.common.watching import WatchOption, watched

if TYPE_CHECKING:
    from rmqcli.client import Admin


@command(
    app,
    "status",
    example="rmq broker status -b broker-a\nrmq broker status --watch=5",
    rows=Rows.LIST,
)
def status(settings: Settings, seats: Seats, watch: WatchOption = None) -> None:
    """Show the figures of brokers and their slaves: traffic, store, waiting requests, delays.

    On a terminal, the values have units; piped output and JSON have them as the broker sends them. Piped
    output: broker (NAME:ID for a slave), group of the figure, its name, value. Brokers that do not respond
    are reported, and the exit code is 3. With --watch, a broker that is lost does not end the command.
    """
    watched(settings, watch, lambda: _show(settings, seats))


def _show(settings: Settings, seats: Seats) -> None:
    from rmqcli.render import Column, show_rows
    from rmqcli.render.broker_figures import grouped, human
    from rmqcli.render.columns import BROKER

    failures: Failures = {}

    async def main(admin: Admin) -> dict[str, dict[str, str]]:
        return await admin.brokers.runtime_infos(await admin.brokers.seats(**seats.named), failures=failures)

    plain = settings.json or not settings.terminal
    rows = [
        [label, group, name, value if plain else human(name, value)]
        for label, table in with_admin(settings, main).items()
        for group, name, value in grouped(table)
    ]
    columns = [
        BROKER,
        Column("GROUP", "group"),
        Column("FIGURE", "name"),
        Column("VALUE", "value"),
    ]
    show_rows(settings, columns, rows)
    end_partly(failures)
