"""`rmq inspect offsets`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import FormatOption
from rmqcli.cli.row_options import Rows
from rmqcli.cli.running import now_ms
from rmqcli.cli.settings import Settings
from rmqcli.commands.inspect.app import (
    CountOption,
    GroupOption,
    QueueOption,
    StatsOption,
    TableArgument,
    TopicsOption,
    WhereOption,
    app,
    backup_of,
    matching,
    one_view,
    range_option,
    require_store,
    show_table_rows,
)
from rmqcli.commands.inspect.meant import note_meant
from rmqcli.commands.inspect.records import View, show_records
from rmqcli.grammar.offset_range import OffsetRange, parse_range
from rmqcli.render.columns import GROUP, LAG, MAX, QUEUE, QUEUES, TOPIC
from rmqcli.render.table import Column

if TYPE_CHECKING:
    from rmqcli.store.read.log_reader import Found
    from rmqcli.store.select.group_positions import GroupPosition


@command(
    app,
    "offsets",
    example="""rmq inspect offsets ~/store --group billing
rmq inspect offsets ~/store --where 'lag > 0' -f '%t %q@%o %k %v\\n'""",
    rows=Rows.LIST,
)
def offsets(
    settings: Settings,
    path: TableArgument,
    range_text: Annotated[
        str, range_option("Range of offsets, or store times of the next message; -N: at most N behind.")
    ] = "start",
    count: CountOption = None,
    group: GroupOption = None,
    topics: TopicsOption = None,
    queue: QueueOption = None,
    where: WhereOption = None,
    format_text: FormatOption = None,
    stats: StatsOption = False,
) -> None:
    """Show the committed offset and the lag of each group on each queue.

    -f prints the next message of each offset, if there is one. --stats adds up the queues of each group and
    topic. --where knows group, topic, queue_id, offset, max_offset and lag.
    """
    from rmqcli.store.select.group_positions import group_positions, next_messages, topic_lags

    one_view(stats=stats, format=format_text is not None)
    require_store(path)
    note_meant(path, topics=topics, group=group)
    shown = (GROUP, TOPIC, QUEUE, Column("OFFSET", "offset", number=True), MAX, LAG)
    wanted = parse_range(range_text, now_ms())
    times = wanted.begin_time is not None or wanted.end_time is not None
    if (times or format_text is not None or wanted.last is not None) and not path.is_dir():
        raise usage_error(f"{path} holds no messages: specify the store folder")
    accepted = (
        one
        for one in group_positions(path)
        if group in (None, one.group)
        and (not topics or one.topic in topics)
        and queue in (None, one.queue_id)
        and _holds(wanted, one)
    )
    found = matching(shown, accepted, where)
    coming: list[tuple[GroupPosition, Found]] = []
    if times or format_text is not None:
        nexts = next_messages(path, found)
        coming = [(one, next_) for one, next_ in nexts if wanted.holds_time(next_[1].store_timestamp)]
        found = [one for one, _ in coming]
    source = backup_of(path, "consumerOffset.json")
    if format_text is not None:
        show_records(settings, (next_ for _, next_ in coming), View(format_text), count)
        return
    if stats:
        summed = (
            GROUP,
            TOPIC,
            QUEUES,
            Column("BEHIND", "behind", number=True),
            LAG,
            Column("GREATEST", "greatest", number=True),
        )
        show_table_rows(settings, summed, topic_lags(found)[:count], source, empty="no offsets")
        return
    show_table_rows(settings, shown, found[:count], source, empty="no offsets")


def _holds(wanted: OffsetRange, one: GroupPosition) -> bool:
    """True if the offset is in the range; -N selects queues that lag by 1 to N messages."""
    if wanted.only_new:
        return False
    if wanted.last is not None:
        return one.lag is not None and 0 < one.lag <= wanted.last
    return wanted.holds_offset(one.offset)
