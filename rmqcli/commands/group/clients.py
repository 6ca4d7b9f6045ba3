"""`rmq group clients`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcli.cli.command import command
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.common.watching import watchable
from rmqcli.commands.group.app import GroupArgument, app, online_clients, short_kind
from rmqcli.render.columns import CLIENT
from rmqcli.render.table import Column

if TYPE_CHECKING:
    from codec.bodies.connections import ConsumerConnection

_CLIENT_COLUMNS = (
    CLIENT,
    Column("ADDRESS", "clientAddr", whole=True),
    Column("LANGUAGE", "language", minor=True),
    Column("VERSION", "version", minor=True),
    Column("TYPE", "consumeType", short_kind, minor=True),
    Column("MODEL", "messageModel", short_kind, minor=True),
    Column("SUBSCRIPTIONS", "subscriptions"),
)


@command(
    app,
    "clients",
    example="rmq group clients billing\nrmq group clients billing | cut -f 1",
    rows=Rows.DOCUMENT,
)
@watchable
def clients(group: GroupArgument, settings: Settings) -> None:
    """List the running clients of a group.

    Piped output: client ID, address, language, version, CONSUME_PASSIVELY (push) or CONSUME_ACTIVELY (pull),
    model, subscriptions. Exit code 4 if no client is running. Brokers that do not respond are reported, and
    the exit code is 3.
    """
    from rmqcli.render import Output

    failures: Failures = {}
    found = with_admin(settings, lambda admin: online_clients(admin, group, failures))
    if settings.json:
        import msgspec

        Output().json(msgspec.to_builtins(found, str_keys=True))
    else:
        _show_clients(settings, found)
    end_partly(failures)


def _show_clients(settings: Settings, found: ConsumerConnection) -> None:
    from codec.versions import version_name
    from rmqcli.render import show_rows

    subscriptions = [
        f"{topic}: {data.sub_string}" for topic, data in sorted(found.subscription_table.items())
    ]
    rows = [
        [
            client.client_id,
            client.client_addr,
            client.language,
            version_name(client.version),
            found.consume_type,
            found.message_model,
            subscriptions,
        ]
        for client in found.connection_set
    ]
    show_rows(settings, _CLIENT_COLUMNS, rows)
