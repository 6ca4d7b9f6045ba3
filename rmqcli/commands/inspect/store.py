"""`rmq inspect store` and `rmq inspect verify`: a whole store folder."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.verifying import verify_folder
from rmqcli.commands.inspect.app import (
    GroupOption,
    JobsOption,
    QueueOption,
    StoreArgument,
    TopicsOption,
    WhereOption,
    app,
    backup_of,
)
from rmqcli.commands.inspect.similar_names import note_meant

_TABLES = ("consumerOffset.json", "delayOffset.json")
"""The tables that the overview reads."""


@command(
    app,
    "store",
    example='''rmq inspect store ~/store
rmq inspect store ~/store --where "messages > 0 AND topic NOT STARTSWITH '%'"''',
    rows=Rows.DOCUMENT,
)
def store(
    settings: Settings,
    path: StoreArgument,
    topics: TopicsOption = None,
    queue: QueueOption = None,
    group: GroupOption = None,
    where: WhereOption = None,
) -> None:
    """Show an overview of a store folder: files, topics, groups, pending messages.

    With --topic, --queue, --where or -v, also shows a row for each queue. --where selects queues by topic,
    queue_id, messages, min_offset, max_offset, first_store_timestamp and last_store_timestamp; only groups of
    the selected topics are shown.
    """
    from rmqcli.render.store_view import QUEUE_KEYS, queue_row, show_overview
    from rmqcli.store.read.folder import StoreFolder
    from rmqcli.store.select.conditions import row_test
    from rmqcli.store.stats.overview import overview

    meets = row_test(QUEUE_KEYS, where)
    found = overview(StoreFolder(path))
    sources = {name: source for name in _TABLES if (source := backup_of(path, name)) is not None}
    note_meant(path, topics=topics, group=group)
    is_choice = bool(topics) or queue is not None or where is not None
    if is_choice:
        queues = [
            one
            for one in found.queues
            if (not topics or one.topic in topics) and queue in (None, one.queue_id) and meets(queue_row(one))
        ]
        shown = {one.topic for one in queues}
        groups = [one for one in found.groups if one.topic in shown]
        found = found._replace(queues=queues, groups=groups)
    if group is not None:
        found = found._replace(groups=[one for one in found.groups if one.group == group])
    show_overview(settings, found, by_queue=is_choice or settings.verbose, sources=sources)


@command(
    app, "verify", example="rmq inspect verify ~/store\nrmq inspect verify ~/store --json | jq .findings"
)
def verify(settings: Settings, path: StoreArgument, jobs: JobsOption = None) -> None:
    """Verify a store folder: records, consume queues, index, checkpoint and tables.

    Exit code 0 if it is sound, 8 if it is damaged. Leftovers of a killed broker that its next start repairs
    are notes, not damage.
    """
    verify_folder(settings, path, jobs)
