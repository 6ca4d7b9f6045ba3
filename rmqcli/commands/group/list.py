"""`rmq group list`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.common.watching import watchable
from rmqcli.commands.group.app import app, short_kind


@command(
    app,
    "list",
    example="rmq group list\nrmq group list --json | jq '.[] | select(.lag > 1000)'",
    rows=Rows.LIST,
)
@watchable
def list_groups(settings: Settings) -> None:
    """List consumer groups with their clients and lag.

    Piped output: group, clients, type, model, messages per second, lag, why the lag is
    unknown. Brokers that do not respond are reported, and the exit code is 3.
    """
    from rmqcli.render import Column, show_rows
    from rmqcli.render.columns import GROUP, LAG, LAG_UNKNOWN

    columns = [
        GROUP,
        Column("CLIENTS", "clients", number=True),
        Column("TYPE", "consumeType", short_kind, minor=True),
        Column("MODEL", "messageModel", short_kind, minor=True),
        Column("TPS", "consumeTps", "{:.1f}".format, number=True, minor=True),
        LAG,
        LAG_UNKNOWN,
    ]

    failures: Failures = {}
    found = with_admin(settings, lambda admin: admin.groups.summaries(failures=failures))
    rows = [
        [g.name, g.clients, g.consume_type, g.message_model, g.consume_tps, g.lag, g.lag_unknown]
        for g in found
    ]
    show_rows(settings, columns, rows, empty="no consumer groups")
    end_partly({group.name: group.error for group in found if group.error is not None}, failures)
