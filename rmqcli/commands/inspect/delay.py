"""`rmq inspect delay`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

from rmqcli.cli.command import command
from rmqcli.cli.row_options import Rows
from rmqcli.cli.running import now_ms
from rmqcli.cli.settings import Settings
from rmqcli.commands.inspect.app import (
    CountOption,
    DelayLevelsOption,
    StoreArgument,
    WhereOption,
    app,
    backup_of,
    delays_of,
    range_option,
    show_table_rows,
)
from rmqcli.commands.inspect.records import Selection, View, show_records
from rmqcli.grammar.offset_range import OffsetRange, parse_range
from rmqcli.render.columns import MAX
from rmqcli.render.table import Column
from rmqcli.render.text import duration, local_seconds

if TYPE_CHECKING:
    from rmqcli.store.read.pending import DelayedMessage, DelayLevel


@command(
    app,
    "delay",
    example="rmq inspect delay ~/store\nrmq inspect delay ~/store --topic orders -f '%t %k %v\\n'",
    rows=Rows.LIST,
    panels={"Settings": "--delay-levels"},
)
def delay(
    settings: Settings,
    path: StoreArgument,
    *,
    range_text: Annotated[
        str, range_option("Range of offsets in the queue of the level, or of due times.")
    ] = "start",
    count: CountOption = None,
    selection: Selection,
    where: WhereOption = None,
    view: View,
    delay_levels: DelayLevelsOption = None,
) -> None:
    """Show delayed messages that are not delivered yet, by level.

    Shows a row for each level; -f, --stats and --explain show messages. --where selects levels by level,
    delay, pending, offset, max_offset, first_due and last_due; a condition with any other name selects
    messages, by due (ms) and all columns of `inspect commitlog --where`. The other options select messages by
    the topic and queue of their delivery. -N selects the last N messages of each level. If delayOffset.json
    is damaged, its .bak is read: standard error and the column source say so.
    """
    from rmqcli.store.read import pending
    from rmqcli.store.read.tables import store_folder
    from rmqcli.store.select.conditions import DelayCondition

    view.require_one()
    store = store_folder(path)
    wanted = parse_range(range_text, now_ms())
    messages = selection.filter()
    shown = (
        Column("LEVEL", "level", number=True),
        Column("DELAY", "delay", _span, number=True),
        Column("PENDING", "pending", number=True),
        Column("OFFSET", "offset", number=True),
        MAX,
        Column("FIRST DUE", "firstDue", local_seconds, whole=True),
        Column("LAST DUE", "lastDue", local_seconds, whole=True),
    )
    condition = DelayCondition(where)
    source = backup_of(store, "delayOffset.json")
    levels = pending.delay_levels(store, delays_of(delay_levels))

    def chosen_of(level: DelayLevel) -> Iterator[DelayedMessage]:
        accepted = (
            one
            for one in pending.delayed_messages(store, level)
            if messages.accepts(one.message) and condition.takes_message(level, one)
        )
        return wanted.select(accepted, lambda one: (one.message.queue_offset, one.due))

    if view.is_given:
        found = (one for level in levels if condition.takes(level.row) for one in chosen_of(level))
        show_records(settings, ((one.place, one.message) for one in found), view, count)
        return
    if wanted == OffsetRange() and messages.is_open and not condition.is_of_messages:
        rows = [level.row for level in levels]
    else:
        rows = [_chosen_row(level, [one.due for one in chosen_of(level)]) for level in levels]
    chosen_rows = list(islice(filter(condition.takes, rows), count))
    show_table_rows(settings, shown, chosen_rows, source, "no delayed messages", hidden=["offset"])


def _span(milliseconds: int | None) -> str:
    return "" if milliseconds is None else duration(milliseconds / 1000)


def _chosen_row(level: DelayLevel, due: list[int]) -> tuple[int | None, ...]:
    """Return the row of a level, limited to the selected messages."""
    bounds = (min(due), max(due)) if due else (0, 0)
    return (level.level, level.delay, len(due), level.offset, level.max_offset, *bounds)
