"""`rmq trace`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from rmqcli.cli.command import command, single_command
from rmqcli.cli.exit_codes import CommandError, ExitCode
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.codec.names import SystemTopic
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import end_partly
from rmqcli.render.output import warn

if TYPE_CHECKING:
    from rmqcli.client import Admin, QueryResult

app = single_command()

_MAX_RECORDS = 64

IdArgument = Annotated[str, Argument(metavar="ID", help="Message ID, as returned to the sender.")]
TopicOption = Annotated[str, Option("--trace-topic", metavar="TOPIC", help="Topic of the traces.")]


@command(
    app,
    "trace",
    example="rmq trace 7F000001ABCD\nrmq trace 7F000001ABCD --json",
    rows=Rows.LIST,
)
def trace(settings: Settings, msg_id: IdArgument, topic: TopicOption = SystemTopic.TRACE) -> None:
    """Show who sent a message, who consumed it, when, and with what result.

    Covers only clients that write traces: `rmq send --trace`, Java's enableMsgTrace. Traces may arrive some
    moments after the message. Exit code 4 if there is none. Piped output: event, group, client, time (epoch
    ms), cost (ms), status, retries, topic, broker.
    """
    from rmqcli.render import Column, show_rows
    from rmqcli.render.table import GROUP, TOPIC
    from rmqcli.render.text import local_time, tsv_cell

    async def main(admin: Admin) -> QueryResult:
        from rmqcli.client import NoRoute

        try:
            return await admin.messages.query_by_key(topic, msg_id, max_num=_MAX_RECORDS)
        except NoRoute as error:
            remedy = (
                " (enable it with traceTopicEnable=true on the brokers)" if topic == SystemTopic.TRACE else ""
            )
            raise CommandError(
                f"no trace of message {msg_id}: topic {topic} not found{remedy}", ExitCode.NOT_FOUND
            ) from error

    found = with_admin(settings, main)
    from rmqcli.flows.tracing import trace_rows

    rows = trace_rows(found.messages, msg_id)
    if not rows:
        end_partly(found.failures, done=False)
        raise CommandError(f"no trace of message {msg_id} in topic {topic}", ExitCode.NOT_FOUND)
    if found.may_be_more:
        warn("the limit of traces is reached: older ones of this message may be missing")
    columns = (
        Column("WHAT", "what"),
        GROUP,
        Column("CLIENT", "client", whole=True, legend=True),
        Column("TIME", "time", local_time, whole=True),
        Column("MS", "cost", tsv_cell, number=True, minor=True),
        Column("STATUS", "status"),
        Column("RETRIES", "retries", tsv_cell, number=True, minor=True),
        TOPIC,
        Column("BROKER", "broker", whole=True, minor=True),
    )
    show_rows(settings, columns, rows)
    end_partly(found.failures)
