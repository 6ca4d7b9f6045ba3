"""`rmq inspect topics`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.inspect.app import (
    TableArgument,
    TopicsOption,
    WhereOption,
    app,
    backup_of,
    matching,
    require_store,
    show_table_rows,
)
from rmqcli.commands.inspect.meant import note_meant
from rmqcli.render.columns import TOPIC
from rmqcli.render.table import Column


@command(
    app,
    "topics",
    example="rmq inspect topics ~/store",
    rows=Rows.LIST,
)
def topics_table(
    settings: Settings, path: TableArgument, topics: TopicsOption = None, where: WhereOption = None
) -> None:
    """Show the topics in the broker's topics.json.

    --where knows topic, read_queue_nums, write_queue_nums, perm, topic_sys_flag and order.
    """
    from rmqcli.store.read.tables import topics as read_topics

    require_store(path)
    note_meant(path, topics=topics)
    rows = [
        (name, one.read_queue_nums, one.write_queue_nums, one.perm, one.topic_sys_flag, one.order)
        for name, one in sorted(read_topics(path).items())
        if not topics or name in topics
    ]
    shown = (
        TOPIC,
        Column("READ", "readQueueNums", number=True),
        Column("WRITE", "writeQueueNums", number=True),
        Column("PERM", "perm", number=True),
        Column("FLAGS", "topicSysFlag", number=True),
        Column("ORDER", "order"),
    )
    found = matching(shown, rows, where)
    show_table_rows(settings, shown, found, backup_of(path, "topics.json"), empty="no topics")
