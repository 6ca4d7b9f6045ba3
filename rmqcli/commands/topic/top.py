"""`rmq topic top`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from rmqcli.cli.command import command
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.common.watching import WatchOption, watched
from rmqcli.commands.topic.app import app

if TYPE_CHECKING:
    from rmqcli.client import Admin
    from rmqcli.flows.topic_rates import TopicRate

TopicsArgument = Annotated[
    list[str] | None, Argument(metavar="TOPIC", help="Names of topics; default: all of applications.")
]
ActiveOption = Annotated[bool, Option("--active", help="Show only what had messages in the last minute.")]
RowsOption = Annotated[int | None, Option("--count", "-c", metavar="N", min=1, help="Show at most N lines.")]


@command(
    app,
    "top",
    example="rmq topic top\nrmq topic top --active -c 10 --watch=5\nrmq topic top orders --json",
    rows=Rows.LIST,
)
def top(
    settings: Settings,
    topics: TopicsArgument = None,
    active: ActiveOption = False,
    count: RowsOption = None,
    watch: WatchOption = None,
) -> None:
    """Show the rates and totals of topics by group, the busiest first.

    Rates are messages per second of the last minute, totals those of the last 24 hours; brokers count from
    their start. Piped output: topic, group, lag, messages in per second, out per second, in and out in 24
    hours. Brokers that do not respond are reported, and the exit code is 3.
    """
    watched(settings, watch, lambda: _show(settings, topics or [], active, count))


def _show(settings: Settings, topics: list[str], active: bool, count: int | None) -> None:
    from rmqcli.render import Column, show_rows
    from rmqcli.render.columns import GROUP, LAG, TOPIC
    from rmqcli.render.text import short_number

    failures: Failures = {}
    columns = [
        TOPIC,
        GROUP,
        LAG,
        Column("IN/S", "inTps", short_number, number=True),
        Column("OUT/S", "outTps", short_number, number=True),
        Column("IN 24H", "inTotal24h", short_number, number=True),
        Column("OUT 24H", "outTotal24h", short_number, number=True),
    ]
    found = with_admin(settings, lambda admin: _read(admin, topics, failures))
    rows = [row[: len(columns)] for row in found if row.is_active or not active][:count]
    show_rows(settings, columns, rows, empty="no active topics" if active else "no topics")
    end_partly(failures)


async def _read(admin: Admin, topics: list[str], failures: Failures) -> list[TopicRate]:
    from rmqcli.flows.topic_names import application_topics
    from rmqcli.flows.topic_rates import topic_rates

    for topic in topics:
        await admin.topics.route(topic)  # not found is an error only if it is named
    if not topics:
        topics = application_topics(await admin.topics.names(), await admin.brokers.cluster_info())
    return await topic_rates(admin, topics, failures)
