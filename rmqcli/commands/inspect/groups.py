"""`rmq inspect groups`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.inspect.app import (
    GroupOption,
    TableArgument,
    WhereOption,
    app,
    backup_of,
    matching,
    require_store,
    show_table_rows,
)
from rmqcli.commands.inspect.meant import note_meant
from rmqcli.render.columns import GROUP
from rmqcli.render.table import Column


@command(
    app,
    "groups",
    example="rmq inspect groups ~/store",
    rows=Rows.LIST,
)
def groups(
    settings: Settings, path: TableArgument, group: GroupOption = None, where: WhereOption = None
) -> None:
    """Show the consumer groups in the broker's subscriptionGroup.json.

    --where knows group, consume_enable, consume_broadcast_enable, retry_queue_nums, retry_max_times and
    broker_id.
    """
    from rmqcli.store.read.tables import groups as read_groups

    require_store(path)
    note_meant(path, group=group)
    rows = [
        (
            name,
            one.consume_enable,
            one.consume_broadcast_enable,
            one.retry_queue_nums,
            one.retry_max_times,
            one.broker_id,
        )
        for name, one in sorted(read_groups(path).items())
        if group in (None, name)
    ]
    shown = (
        GROUP,
        Column("CONSUME", "consumeEnable"),
        Column("BROADCAST", "consumeBroadcastEnable"),
        Column("RETRY QUEUES", "retryQueueNums", number=True),
        Column("RETRIES", "retryMaxTimes", number=True),
        Column("BROKER", "brokerId", number=True),
    )
    found = matching(shown, rows, where)
    show_table_rows(settings, shown, found, backup_of(path, "subscriptionGroup.json"), empty="no groups")
