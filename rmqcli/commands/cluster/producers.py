"""`rmq cluster producers`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.options import BrokersOption
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.cluster.app import app
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.common.watching import watchable
from rmqcli.render.columns import BROKER, CLIENT
from rmqcli.render.table import Column

if TYPE_CHECKING:
    from rmqcli.client import Admin, ConnectedProducer

ProducerGroupOption = Annotated[
    str | None, Option("--group", "-g", metavar="GROUP", help="Show only this producer group.")
]


@command(
    app,
    "producers",
    example="rmq cluster producers\nrmq cluster producers -g orders-service --json",
    rows=Rows.LIST,
)
@watchable
def producers(settings: Settings, group: ProducerGroupOption = None, broker: BrokersOption = None) -> None:
    """List the producers connected to the masters, by producer group.

    A producer connects to the brokers of the topics it sends to. Piped output: group, client ID, broker,
    address, language, version. Exit code 4 if no producer of GROUP is connected. Brokers that do not respond
    are reported, and the exit code is 3.
    """
    from codec.versions import version_name
    from rmqcli.render import show_rows

    columns = [
        Column("GROUP", "producerGroup", whole=True),
        CLIENT,
        BROKER,
        Column("ADDRESS", "clientAddr", whole=True),
        Column("LANGUAGE", "language", minor=True),
        Column("VERSION", "version", minor=True),
    ]
    failures: Failures = {}

    async def main(admin: Admin) -> list[ConnectedProducer]:
        if group is None:
            return await admin.clients.producers(brokers=broker or (), failures=failures)
        return await admin.clients.producers_of(group, brokers=broker or (), failures=failures)

    rows = [[*found[:-1], version_name(found.version)] for found in with_admin(settings, main)]
    show_rows(settings, columns, rows, empty="" if failures else "no producers connected")
    end_partly(failures)
