"""`rmq topic create`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.options import BrokersOption, ClusterOption, TopicArgument
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.topic.app import QueuesOption, ReadQueuesOption, WriteQueuesOption, app, perm_number

PermOption = Annotated[
    str, Option("--perm", metavar="PERM", help="Permission: r, w, rw, or a number (2 w, 4 r, 6 rw).")
]
OrderOption = Annotated[
    bool,
    Option("--order", help="Ordered topic: name servers keep its queue order; brokers follow within 30 s."),
]


@command(app, "create", example="rmq topic create orders\nrmq topic create orders -q 16 --broker broker-a")
def create(
    topic: TopicArgument,
    settings: Settings,
    queues: QueuesOption = None,
    read_queues: ReadQueuesOption = None,
    write_queues: WriteQueuesOption = None,
    perm: PermOption = "rw",
    order: OrderOption = False,
    broker: BrokersOption = None,
    cluster: ClusterOption = None,
) -> None:
    """Create a topic.

    The topic is created on all masters, with 8 queues by default. An existing topic gets these settings; `rmq
    topic update` changes only the given ones.
    """
    from rmqcli.commands.common.changes import show_change

    number = perm_number(perm)

    change = with_admin(
        settings,
        lambda admin: admin.topics.create(
            topic,
            brokers=broker or (),
            cluster=cluster,
            read_queues=_first(read_queues, queues, 8),
            write_queues=_first(write_queues, queues, 8),
            perm=number,
            order=order,
        ),
    )
    show_change(settings, f"topic {topic} created on", change)


def _first(*values: int | None) -> int:
    return next(value for value in values if value is not None)
