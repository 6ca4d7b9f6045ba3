"""`rmq offsets show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.lag import LAG_COLUMNS, lag_object, lag_row
from rmqcli.commands.offsets.app import app

if TYPE_CHECKING:
    from rmqcli.client import ClientError

GroupOption = Annotated[str, Option("--group", "-g", metavar="GROUP", help="Name of the consumer group.")]
TopicOption = Annotated[str | None, Option("--topic", "-t", metavar="TOPIC", help="Limit to this topic.")]
ClientsOption = Annotated[
    bool, Option("--clients", help="With --topic: show the current offsets of running clients.")
]


@command(app, "show", example="rmq offsets show -g billing\nrmq offsets show -g billing -t orders --json")
def show(
    group: GroupOption, settings: Settings, topic: TopicOption = None, clients: ClientsOption = False
) -> None:
    """Show the committed offset of each queue of a group.

    Piped output: topic, broker, queue, committed offset, maximum offset, lag, time of the last consumed
    message (epoch ms), client. An offset that was never committed is empty. Clients commit every few seconds;
    --clients asks them for their current offsets; piped output: client, broker, queue, offset of the client,
    committed offset. Brokers and clients that do not respond are reported (exit code 3; 1 if no client
    responds).
    """
    from rmqcli.commands.common.partial import end_partly
    from rmqcli.render import Output, show_rows

    if clients:
        from rmqcli.commands.offsets.client_offsets import show_client_offsets

        if topic is None:
            raise usage_error("--clients requires --topic")
        show_client_offsets(settings, group, topic)
        return

    failures: dict[str, ClientError] = {}

    found = with_admin(settings, lambda admin: admin.offsets.lags(group, topic, failures=failures))
    if settings.json:
        Output().json([lag_object(queue) for queue in found])
    else:
        show_rows(settings, LAG_COLUMNS, [lag_row(queue) for queue in found])
    end_partly(failures)
