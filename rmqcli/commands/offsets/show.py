"""`rmq offsets show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.lag import LAG_COLUMNS, lag_object, lag_row, warn_of_lost_topics
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.common.watching import watchable
from rmqcli.commands.offsets.app import GroupArgument, app
from rmqcli.render import Column, show_rows
from rmqcli.render.table import BROKER, CLIENT, QUEUE, show_objects

if TYPE_CHECKING:
    from rmqcli.client import Admin
    from rmqcli.codec.message_queue import MessageQueue

TopicOption = Annotated[str | None, Option("--topic", "-T", metavar="TOPIC", help="Limit to this topic.")]
ClientsOption = Annotated[
    bool, Option("--clients", help="With --topic: show the current offsets of running clients.")
]

_CLIENT_COLUMNS = (
    CLIENT,
    BROKER,
    QUEUE,
    Column("OFFSET", "offset", number=True),
    Column("COMMITTED", "consumerOffset", number=True),
)


@command(
    app,
    "show",
    example="rmq offsets show billing\nrmq offsets show billing -T orders --json",
    rows=Rows.LIST,
)
@watchable
def show(
    group: GroupArgument, settings: Settings, topic: TopicOption = None, clients: ClientsOption = False
) -> None:
    """Show the committed offset of each queue of a group.

    Piped output: topic, broker, queue, committed offset, maximum offset, lag, time of the last consumed
    message (epoch ms), client, why the lag is unknown. An offset that was never committed is empty, and so is
    an unknown lag: clients of broadcasting groups keep their offsets, and an offset beyond the end belongs to
    a former topic of this name. Clients commit every few seconds; --clients requests their current offsets;
    piped output: client, broker, queue, offset of the client, committed offset. Brokers and clients that do
    not respond are reported (exit code 3; 1 if no client responds).
    """
    if clients:
        if topic is None:
            raise usage_error("--clients requires --topic")
        _show_client_offsets(settings, group, topic)
        return

    failures: Failures = {}
    found = with_admin(settings, lambda admin: admin.offsets.lags(group, topic, failures=failures))
    if settings.json:
        show_objects(settings, [lag_object(queue) for queue in found])
    else:
        show_rows(settings, LAG_COLUMNS, [lag_row(queue) for queue in found])
    warn_of_lost_topics(settings, group, found)
    end_partly(failures)


def _show_client_offsets(settings: Settings, group: str, topic: str) -> None:
    """Show a row for each client and queue; report brokers and clients that do not respond."""
    failures: Failures = {}

    async def main(admin: Admin) -> tuple[list[str], list[list[Any]]]:
        found = await admin.groups.describe(group, failures=failures)
        ids = [client.client_id for client in found.connections]
        if not ids and failures:
            raise next(iter(failures.values()))
        if not ids:
            raise CommandError(f"no client of group {group} is running", ExitCode.NOT_FOUND)
        held = await admin.clients.held_offsets(group, topic, ids, failures=failures)

        async def committed(queue: MessageQueue) -> int | None:
            return None if queue.broker_name in failures else await admin.offsets.committed(queue, group)

        rows = [
            [client_id, q.broker_name, q.queue_id, offset, await committed(q)]
            for client_id, table in sorted(held.items())
            for q, offset in sorted(table.items())
        ]
        return [client_id for client_id in ids if client_id not in held], rows

    failed, rows = with_admin(settings, main)
    show_rows(settings, _CLIENT_COLUMNS, rows)
    end_partly(
        dict.fromkeys(failed, "did not return its offsets"),
        failures,
        done=bool(rows) or not failed,
        code=ExitCode.FAILED,
    )
