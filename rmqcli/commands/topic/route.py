"""`rmq topic route`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.options import TopicArgument
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.topic.app import app, perm_text


@command(
    app,
    "route",
    example="rmq topic route orders --json",
    rows=Rows.DOCUMENT,
)
def route(topic: TopicArgument, settings: Settings) -> None:
    """Show the brokers, addresses and queues of a topic.

    Piped output: cluster, broker, ID (0 is the master), address, read queues, write queues, permission.
    """
    from rmqcli.render import Column, Output, show_rows
    from rmqcli.render.columns import BROKER

    columns = [
        Column("CLUSTER", "cluster"),
        BROKER,
        Column("ID", "brokerId", number=True),
        Column("ADDRESS", "address", whole=True),
        Column("READ", "readQueueNums", number=True),
        Column("WRITE", "writeQueueNums", number=True),
        Column("PERM", "perm", perm_text),
    ]

    found = with_admin(settings, lambda admin: admin.topics.route(topic))
    if settings.json:
        import msgspec

        Output().json(msgspec.to_builtins(found, str_keys=True))
        return
    queues = {data.broker_name: data for data in found.queue_datas}
    rows = [
        [
            broker.cluster,
            broker.broker_name,
            number,
            address,
            *(
                (q.read_queue_nums, q.write_queue_nums, q.perm)
                if (q := queues.get(broker.broker_name))
                else (0, 0, 0)
            ),
        ]
        for broker in sorted(found.broker_datas, key=lambda data: (data.cluster or "", data.broker_name))
        for number, address in sorted(broker.broker_addrs.items())
    ]
    show_rows(settings, columns, rows)
