"""`rmq group list|describe`: consumer groups, how far they are and who is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.cli.options import Settings, command
from rmqcli.cli.running import run_async, warn
from rmqcli.commands.common.group_options import GroupArgument, TopicOption, app, short_kind

if TYPE_CHECKING:
    from rmqcli.client import ClientError, GroupDescription, GroupSummary


@command(app, "list", example="rmq group list\nrmq group list --json | jq '.[] | select(.lag > 1000)'")
def list_groups(settings: Settings) -> None:
    """List the consumer groups with their clients and their lag.

    A pipe gets lines: group, clients, type, model, messages a second, lag. A broker that does not answer is named, and the
    exit code is 3.
    """
    from rmqcli.commands.common.missing import end_partly
    from rmqcli.render import Column, show_rows

    columns = [
        Column("GROUP", "group"),
        Column("CLIENTS", "clients", number=True),
        Column("TYPE", "consumeType", short_kind),
        Column("MODEL", "messageModel", short_kind),
        Column("TPS", "consumeTps", "{:.1f}".format, number=True),
        Column("LAG", "lag", number=True),
    ]

    failures: dict[str, ClientError] = {}

    async def main() -> list[GroupSummary]:
        from rmqcli.client import Admin

        async with Admin(**settings.client_options) as admin:
            return await admin.groups.summaries(failures=failures)

    found = run_async(main)
    rows = [[g.name, g.clients, g.consume_type, g.message_model, g.consume_tps, g.lag] for g in found]
    show_rows(settings, columns, rows, empty="no consumer groups yet")
    unknown = [group for group in found if group.error is not None]
    for group in unknown:
        warn(f"{group.name}: {group.error}")
    end_partly(failures)
    if unknown:
        raise typer.Exit(ExitCode.PARTLY)


@command(app, "describe", example="rmq group describe billing\nrmq group describe billing -t orders --json")
def describe(group: GroupArgument, settings: Settings, topic: TopicOption = None) -> None:
    """Show the lag of each queue and the clients of a group.

    Lag is what is stored and not yet consumed, never below 0. A pipe gets lines: topic, broker, queue, consumed offset,
    maximum offset, lag, time of the last consumed message (epoch ms), client. A broker that does not answer is named, and the
    exit code is 3.
    """
    from rmqcli.commands.common.missing import end_partly

    failures: dict[str, ClientError] = {}

    async def main() -> GroupDescription:
        from rmqcli.client import Admin

        async with Admin(**settings.client_options) as admin:
            return await admin.groups.describe(group, topic, failures=failures)

    found = run_async(main)
    if settings.json:
        from rmqcli.render import Output

        Output().json(_as_json(found))
    else:
        _show(settings, found)
    end_partly(failures)


def _show(settings: Settings, found: GroupDescription) -> None:
    from rmqcli.commands.offsets import LAG_COLUMNS, lag_row
    from rmqcli.render import Column, Output, show_rows
    from rmqcli.render.table import show_table
    from rmqcli.render.text import many

    if not settings.terminal:
        show_rows(settings, LAG_COLUMNS, [lag_row(queue) for queue in found.queues])
        return
    state = (
        f"{many(len(found.connections), 'client')}, {short_kind(found.consume_type)}"
        if found.online
        else "no clients"
    )
    Output().line(f"group {found.name}: {state}, lag {found.lag}\n")
    if found.queues:
        show_table(settings, LAG_COLUMNS, [lag_row(queue) for queue in found.queues])
    if found.connections:
        print()
        columns = [
            Column("CLIENT", "clientId"),
            Column("ADDRESS", "clientAddr"),
            Column("LANGUAGE", "language"),
        ]
        rows = [[client.client_id, client.client_addr, client.language] for client in found.connections]
        show_table(settings, columns, rows)
    if found.subscriptions:
        print()
        columns = [Column("TOPIC", "topic"), Column("SUBSCRIPTION", "subString")]
        show_table(settings, columns, [[name, data.sub_string] for name, data in found.subscriptions.items()])


def _as_json(found: GroupDescription) -> dict[str, Any]:
    import msgspec

    from rmqcli.commands.offsets import lag_object

    return {
        "group": found.name,
        "online": found.online,
        "consumeType": found.consume_type,
        "messageModel": found.message_model,
        "consumeFromWhere": found.consume_from_where,
        "consumeTps": found.consume_tps,
        "lag": found.lag,
        "queues": [lag_object(queue) for queue in found.queues],
        "clients": [msgspec.to_builtins(client, str_keys=True) for client in found.connections],
        "subscriptions": [msgspec.to_builtins(data, str_keys=True) for data in found.subscriptions.values()],
    }
