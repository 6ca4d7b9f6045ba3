"""`rmq topic create`."""

from __future__ import annotations

from typing import Annotated, Any

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.options import Masters, TopicArgument
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import show_change
from rmqcli.commands.topic.app import QueueCounts, app, perm_number

PermOption = Annotated[
    str, Option("--perm", metavar="PERM", help="Permission: r, w, rw, or a number (2 w, 4 r, 6 rw).")
]
OrderOption = Annotated[
    bool,
    Option("--order", help="Ordered topic: name servers keep its queue order; brokers follow within 30 s."),
]


@command(
    app, "create", example="rmq topic create orders\nrmq topic create orders --queues 16 --broker broker-a"
)
def create(
    topic: TopicArgument,
    settings: Settings,
    *,
    queues: QueueCounts,
    perm: PermOption = "rw",
    order: OrderOption = False,
    masters: Masters,
) -> None:
    """Create a topic.

    The topic is created on all masters, with 8 queues by default. An existing topic gets these settings; `rmq
    topic update` changes only the given ones.
    """
    wanted: dict[str, Any] = {"perm": perm_number(perm), "order": order} | queues.named(8) | masters.named
    change = with_admin(settings, lambda admin: admin.topics.create(topic, **wanted))
    show_change(settings, f"topic {topic} created on", change)
