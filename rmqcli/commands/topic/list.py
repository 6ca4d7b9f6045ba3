"""`rmq topic list`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.common.watching import watchable
from rmqcli.commands.topic.app import AllTopicsOption, app, perm_text

if TYPE_CHECKING:
    from codec.bodies.config import TopicConfig
    from rmqcli.client import Admin

LongOption = Annotated[bool, Option("--long", help="Show the settings of each topic on each broker.")]

_EMPTY = "no topics; create one with: rmq topic create NAME"


@command(
    app,
    "list",
    example="rmq topic list\nrmq topic list --long\nrmq topic list --all --json",
    rows=Rows.LIST,
)
@watchable
def list_topics(settings: Settings, everything: AllTopicsOption = False, long: LongOption = False) -> None:
    """List topics.

    Piped output with --long: topic, broker, read queues, write queues, permission, order, message type (5.x).
    Brokers that do not respond are reported, and the exit code is 3.
    """
    from rmqcli.flows.topic_totals import listed_topics
    from rmqcli.render import show_rows
    from rmqcli.render.columns import TOPIC

    if long:
        _show_settings(settings, everything=everything)
        return
    names = with_admin(settings, lambda admin: listed_topics(admin, everything=everything))
    show_rows(settings, [TOPIC], [[name] for name in names], empty=_EMPTY)


def _show_settings(settings: Settings, *, everything: bool) -> None:
    from rmqcli.flows.topic_totals import listed_topics, topic_settings
    from rmqcli.render import Column, show_rows
    from rmqcli.render.columns import BROKER, TOPIC

    columns = [
        TOPIC,
        BROKER,
        Column("READ", "readQueueNums", number=True),
        Column("WRITE", "writeQueueNums", number=True),
        Column("PERM", "perm", perm_text),
        Column("ORDER", "order"),
        Column("TYPE", "messageType"),
    ]
    failures: Failures = {}

    async def main(admin: Admin) -> list[tuple[str, TopicConfig]]:
        topics = await listed_topics(admin, everything=everything)
        return await topic_settings(admin, topics, failures)

    rows = [
        [
            config.topic_name,
            broker,
            config.read_queue_nums,
            config.write_queue_nums,
            config.perm,
            config.order,
            (config.attributes or {}).get("message.type"),
        ]
        for broker, config in with_admin(settings, main)
    ]
    show_rows(settings, columns, rows, empty=_EMPTY)
    end_partly(failures)
