"""`rmq topic update`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import BrokersOption, ClusterOption, TopicArgument
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.topic.app import (
    NewPermOption,
    QueuesOption,
    ReadQueuesOption,
    WriteQueuesOption,
    app,
    perm_number,
)


@command(app, "update", example="rmq topic update orders -q 16\nrmq topic update orders --perm r")
def update(
    topic: TopicArgument,
    settings: Settings,
    queues: QueuesOption = None,
    read_queues: ReadQueuesOption = None,
    write_queues: WriteQueuesOption = None,
    perm: NewPermOption = None,
    broker: BrokersOption = None,
    cluster: ClusterOption = None,
) -> None:
    """Update the queues or the permission of a topic. Other settings are kept."""
    from rmqcli.commands.common.changes import show_change

    number = None if perm is None else perm_number(perm)
    reading = queues if read_queues is None else read_queues
    writing = queues if write_queues is None else write_queues
    if reading is None and writing is None and number is None:
        raise usage_error("nothing to update: specify --queues, --read-queues, --write-queues or --perm")

    change = with_admin(
        settings,
        lambda admin: admin.topics.update(
            topic,
            read_queues=reading,
            write_queues=writing,
            perm=number,
            brokers=broker or (),
            cluster=cluster,
        ),
    )
    show_change(settings, f"topic {topic} updated on", change)
