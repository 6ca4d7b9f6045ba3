"""`rmq inspect transactions`."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

from rmqcli.cli.command import command
from rmqcli.cli.row_options import Rows
from rmqcli.cli.running import now_ms
from rmqcli.cli.settings import Settings
from rmqcli.commands.inspect.app import (
    CountOption,
    GroupOption,
    StoreArgument,
    WhereOption,
    app,
    backup_of,
    range_option,
    show_table_rows,
)
from rmqcli.commands.inspect.records import Selection, View, show_records
from rmqcli.grammar.offset_range import parse_range
from rmqcli.render.table import TOPIC, Column
from rmqcli.render.text import local_seconds

if TYPE_CHECKING:
    from rmqcli.store.read.pending import HalfMessage


@command(
    app,
    "transactions",
    example="""rmq inspect transactions ~/store
rmq inspect transactions ~/store --group shop -o @-1h --explain""",
    rows=Rows.LIST,
)
def transactions(
    settings: Settings,
    path: StoreArgument,
    *,
    range_text: Annotated[
        str, range_option("Range of offsets in the queue of half messages, or of store times.")
    ] = "start",
    count: CountOption = None,
    group: GroupOption = None,
    selection: Selection,
    where: WhereOption = None,
    view: View,
) -> None:
    """Show half messages that were neither committed nor rolled back.

    --where can use queue_offset, topic, producer_group, check_times, store_timestamp and msg_id. Topic and
    queue are those of the delivery.
    """
    from rmqcli.store.read import pending
    from rmqcli.store.read.tables import store_folder
    from rmqcli.store.select.conditions import row_test

    view.require_one()
    shown = (
        Column("OFFSET", "queueOffset", number=True),
        TOPIC,
        Column("GROUP", "producerGroup", whole=True),
        Column("CHECKS", "checkTimes", number=True),
        Column("STORED", "storeTimestamp", local_seconds, whole=True),
        Column("ID", "msgId", whole=True),
    )
    meets = row_test([column.key for column in shown], where)
    messages = selection.filter()
    store = store_folder(path)
    source = backup_of(store, "consumerOffset.json")
    accepted = (
        one
        for one in pending.half_messages(store)
        if group in (None, one.group) and messages.accepts(one.message) and meets(_half_row(one))
    )
    wanted = parse_range(range_text, now_ms())
    found = wanted.select(accepted, lambda one: (one.queue_offset, one.message.store_timestamp))
    if view.is_given:
        show_records(settings, ((one.place, one.message) for one in found), view, count)
        return
    rows = [_half_row(one) for one in islice(found, count)]
    show_table_rows(settings, shown, rows, source, "no pending transactions", hidden=["msgId"])


def _half_row(one: HalfMessage) -> tuple[object, ...]:
    message = one.message
    return one.queue_offset, one.topic, one.group, one.checks, message.store_timestamp, message.msg_id
