"""`rmq topic list`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.topic.app import app

if TYPE_CHECKING:
    from rmqcli.client import Admin

AllOption = Annotated[
    bool,
    Option(
        "--all", "-a", help="Include system topics, retry topics (%RETRY%) and dead-letter topics (%DLQ%)."
    ),
]


@command(app, "list", example="rmq topic list\nrmq topic list --all --json")
def list_topics(settings: Settings, everything: AllOption = False) -> None:
    """List topics."""
    from rmqcli.flows.topic_names import application_topics
    from rmqcli.render import show_rows
    from rmqcli.render.columns import TOPIC

    async def main(admin: Admin) -> list[str]:
        found = await admin.topics.names()
        if everything:
            return found
        return application_topics(found, await admin.brokers.cluster_info())

    names = with_admin(settings, main)
    show_rows(
        settings,
        [TOPIC],
        [[name] for name in names],
        empty="no topics; create one with: rmq topic create NAME",
    )
