"""`rmq group describe`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqcli.cli.command import command
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.common.watching import watchable
from rmqcli.commands.group.app import GroupArgument, TopicOption, app, short_kind

if TYPE_CHECKING:
    from rmqcli.client import GroupDescription


@command(
    app,
    "describe",
    example="rmq group describe billing\nrmq group describe billing -T orders --json",
    rows=Rows.DOCUMENT,
)
@watchable
def describe(group: GroupArgument, settings: Settings, topic: TopicOption = None) -> None:
    """Show the clients of a group and its lag on each queue.

    Lag is the number of stored messages that are not consumed, never below 0. Piped output: topic, broker,
    queue, consumer offset, maximum offset, lag, time of the last consumed message (epoch ms), client, why the
    lag is unknown. Offsets beyond the end of a topic are reported: it was created again. Brokers that do not
    respond are reported, and the exit code is 3.
    """
    from rmqcli.commands.common.lag import warn_of_lost_topics

    failures: Failures = {}
    found = with_admin(settings, lambda admin: admin.groups.describe(group, topic, failures=failures))
    if settings.json:
        from rmqcli.render import Output

        Output().json(_as_json(found))
    else:
        _show(settings, found)
    warn_of_lost_topics(settings, group, found.queues)
    end_partly(failures)


def _show(settings: Settings, found: GroupDescription) -> None:
    from rmqcli.commands.common.lag import LAG_COLUMNS, lag_row
    from rmqcli.render import Column, Output, show_rows
    from rmqcli.render.columns import CLIENT, TOPIC
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
    lag = found.lag if found.lag_unknown is None else f"unknown ({found.lag_unknown})"
    Output().line(f"group {found.name}: {state}, lag {lag}\n")
    if found.queues:
        show_table(settings, LAG_COLUMNS, [lag_row(queue) for queue in found.queues])
    if found.connections:
        print()
        columns = [
            CLIENT,
            Column("ADDRESS", "clientAddr", whole=True),
            Column("LANGUAGE", "language", minor=True),
        ]
        rows = [[client.client_id, client.client_addr, client.language] for client in found.connections]
        show_table(settings, columns, rows)
    if found.subscriptions:
        print()
        columns = [TOPIC, Column("SUBSCRIPTION", "subString")]
        show_table(settings, columns, [[name, data.sub_string] for name, data in found.subscriptions.items()])


def _as_json(found: GroupDescription) -> dict[str, Any]:
    import msgspec

    from rmqcli.commands.common.lag import lag_object

    return {
        "group": found.name,
        "online": found.online,
        "consumeType": found.consume_type,
        "messageModel": found.message_model,
        "consumeFromWhere": found.consume_from_where,
        "consumeTps": found.consume_tps,
        "lag": found.lag,
        "lagUnknown": found.lag_unknown,
        "queues": [lag_object(queue) for queue in found.queues],
        "clients": [msgspec.to_builtins(client, str_keys=True) for client in found.connections],
        "subscriptions": [msgspec.to_builtins(data, str_keys=True) for data in found.subscriptions.values()],
    }
