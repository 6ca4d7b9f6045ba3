"""`rmq trace`: who sent and consumed a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rmqcli.cli.command import command, single_command
from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.running import run_async
from rmqcli.cli.settings import Settings
from rmqcli.render.output import warn

if TYPE_CHECKING:
    from rmqcli.client import QueryResult

app = single_command()

_TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
_MOST = 64

IdOption = Annotated[str, typer.Option("--id", metavar="ID", help="The message id, as senders see it.")]
TopicOption = Annotated[
    str, typer.Option("--trace-topic", metavar="TOPIC", help="Where the clients write their traces.")
]


@command(app, "trace", example="rmq trace --id 7F000001ABCD\nrmq trace --id 7F000001ABCD --json")
def trace(settings: Settings, msg_id: IdOption, topic: TopicOption = _TRACE_TOPIC) -> None:
    """Show who sent a message, who consumed it, when, and how that ended.

    Only what clients with traces switched on have told: `rmq send --trace`, Java's enableMsgTrace. A trace may come some
    moments after the message itself. Exit code 4 when there is none. Lines in a pipe: what, group, client, time (epoch ms),
    cost (ms), status, retries, topic, broker.
    """
    from rmqcli.render import Column, show_rows
    from rmqcli.render.text import local_time, tsv_cell

    for option, text in (("--id", msg_id), ("--trace-topic", topic)):
        if not text.strip():
            raise usage_error(f"{option} is empty")

    async def main() -> QueryResult:
        from rmqcli.client import Admin, NoRoute

        async with Admin(**settings.client_options) as admin:
            try:
                return await admin.messages.query_by_key(topic, msg_id, max_num=_MOST)
            except NoRoute as error:
                remedy = " (brokers have it with traceTopicEnable=true)" if topic == _TRACE_TOPIC else ""
                raise CommandError(
                    f"no trace of message {msg_id}: there is no topic {topic}{remedy}", ExitCode.NOT_FOUND
                ) from error

    found = run_async(main)
    from rmqcli.flows.tracing import trace_rows

    for name, error in found.failures.items():
        warn(f"{name} could not be asked: {error}")
    rows = trace_rows(found.messages, msg_id)
    if not rows:
        raise CommandError(f"no trace of message {msg_id} in topic {topic}", ExitCode.NOT_FOUND)
    columns = (
        Column("WHAT", "what"),
        Column("GROUP", "group"),
        Column("CLIENT", "client"),
        Column("TIME", "time", local_time),
        Column("MS", "cost", tsv_cell, number=True),
        Column("STATUS", "status"),
        Column("RETRIES", "retries", tsv_cell, number=True),
        Column("TOPIC", "topic"),
        Column("BROKER", "broker"),
    )
    show_rows(settings, columns, rows)
    if found.failures:
        raise typer.Exit(ExitCode.PARTLY)
