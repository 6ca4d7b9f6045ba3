"""`rmq inspect timers`: the timer messages that wait."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from rmqcli.cli.command import command
from rmqcli.cli.row_options import Rows
from rmqcli.cli.running import now_ms
from rmqcli.cli.settings import Settings
from rmqcli.commands.inspect.app import CountOption, StoreArgument, WhereOption, app, range_option
from rmqcli.commands.inspect.records import Selection, View, show_records
from rmqcli.grammar.offset_range import parse_range
from rmqcli.render.output import warn
from rmqcli.render.table import QUEUE, TOPIC, Column
from rmqcli.render.text import local_seconds, many

if TYPE_CHECKING:
    from rmqcli.store.read.timers import TimerMessage


@command(
    app,
    "timers",
    example="rmq inspect timers ~/store\nrmq inspect timers ~/store --topic orders -o @now:@2030-01-01",
    rows=Rows.LIST,
)
def timers(
    settings: Settings,
    path: StoreArgument,
    *,
    range_text: Annotated[
        str, range_option("Range of offsets in the timer queue, or of due times.")
    ] = "start",
    count: CountOption = None,
    selection: Selection,
    where: WhereOption = None,
    view: View,
) -> None:
    """Show timer messages that are not delivered yet, second by second.

    Piped output: due time (epoch ms), topic, queue, keys, message ID, size; recalled messages are not listed.
    --where selects by all columns of `inspect commitlog --where`. If the wheel is missing or damaged, the
    timer log is read, and if that is missing, the queue of the timer topic, as standard error reports.
    """
    from rmqcli.store.read.tables import store_folder
    from rmqcli.store.read.timers import TimerFiles

    view.require_one()
    wanted, accepts = parse_range(range_text, now_ms()), selection.filter(where).accepts
    columns = (
        Column("DUE", "due", local_seconds, whole=True),
        TOPIC,
        QUEUE,
        Column("KEYS", "keys"),
        Column("MESSAGE ID", "msgId", whole=True),
        Column("SIZE", "storeSize", number=True),
    )
    with TimerFiles(store_folder(path)) as files:
        found = wanted.select(
            (one for one in files.messages() if accepts(one.message)),
            lambda one: (one.message.queue_offset, one.due),
        )
        if view.is_given:
            show_records(settings, ((one.place, one.message) for one in found), view, count)
        else:
            from rmqcli.render.inspection import stream_rows

            stream_rows(settings, columns, map(_row, islice(found, count)), empty="no timer messages")
        for problem in files.problems:
            warn(problem)
        if files.gone:
            warn(f"{many(files.gone, 'timer message')} not in the commit log: deleted or damaged")


def _row(one: TimerMessage) -> tuple[Any, ...]:
    message = one.message
    keys = message.properties.get("KEYS", "").split()
    return one.due, message.topic, message.queue_id, keys, message.msg_id, message.store_size
