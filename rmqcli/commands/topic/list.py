"""`rmq topic list`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.topic.app import app

if TYPE_CHECKING:
    from codec.bodies.route import ClusterInfo
    from rmqcli.client import Admin

AllOption = Annotated[
    bool,
    Option(
        "--all", "-a", help="Include system topics, retry topics (%RETRY%) and dead-letter topics (%DLQ%)."
    ),
]


def _is_internal(topic: str) -> bool:
    from codec.message import DLQ_PREFIX, RETRY_PREFIX, is_system_topic

    return topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) or is_system_topic(topic)


def _own_topics(info: ClusterInfo) -> set[str]:
    """Return the topics that every broker creates for itself, named after it and its cluster."""
    from codec.names import reply_topic

    clusters = set(info.cluster_addr_table)
    return clusters | {reply_topic(name) for name in clusters} | set(info.broker_addr_table)


@command(app, "list", example="rmq topic list\nrmq topic list --all --json")
def list_topics(settings: Settings, everything: AllOption = False) -> None:
    """List topics."""
    from rmqcli.render import show_rows
    from rmqcli.render.columns import TOPIC

    async def main(admin: Admin) -> list[str]:
        found = await admin.topics.names()
        if everything:
            return found
        hidden = _own_topics(await admin.brokers.cluster_info())
        return [name for name in found if name not in hidden and not _is_internal(name)]

    names = with_admin(settings, main)
    show_rows(
        settings,
        [TOPIC],
        [[name] for name in names],
        empty="no topics; create one with: rmq topic create NAME",
    )
