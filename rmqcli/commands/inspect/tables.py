"""`rmq inspect offsets|topics|groups`: the tables that a broker saves, as they are in its store folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import FormatOption, Settings, command
from rmqcli.cli.running import now_ms
from rmqcli.commands.common.columns import columns
from rmqcli.commands.common.inspecting import (
    CountOption,
    GroupOption,
    QueueOption,
    StatsOption,
    TableArgument,
    TopicsOption,
    WhereOption,
    app,
    one_view,
    range_option,
)
from rmqcli.commands.common.records import View, show_records
from rmqcli.grammar.offset_range import OffsetRange, parse_range

if TYPE_CHECKING:
    from rmqcli.store.read.log_reader import Found
    from rmqcli.store.select.group_positions import GroupPosition


def _require_store(path: Path) -> None:
    """A folder must be a store folder: any other has no tables, which would look like a store without topics."""
    from rmqcli.store.read.tables import store_folder

    if path.is_dir():
        store_folder(path)


@command(
    app,
    "offsets",
    example="rmq inspect offsets ~/store --group billing\nrmq inspect offsets ~/store --where 'lag > 0' -f '%t %q@%o %k %v\\n'",
)
def offsets(
    settings: Settings,
    path: TableArgument,
    range_text: Annotated[
        str,
        range_option(
            "Only offsets in it; with times, those whose next message was stored then; -N: N or fewer behind."
        ),
    ] = "start",
    count: CountOption = None,
    group: GroupOption = None,
    topics: TopicsOption = None,
    queue: QueueOption = None,
    where: WhereOption = None,
    format_text: FormatOption = None,
    stats: StatsOption = False,
) -> None:
    """Show how far each group has consumed each queue, and its lag.

    -f prints the message that comes next, of each offset that has one. --stats adds the queues of each group and topic up.
    """
    from rmqcli.render.store_view import show_values
    from rmqcli.store.select.group_positions import group_positions, next_messages, topic_lags
    from rmqcli.store.select.row_filter import row_test

    one_view(stats=stats, format=format_text is not None)
    _require_store(path)
    shown = columns(
        ("GROUP", "group"),
        ("TOPIC", "topic"),
        ("QUEUE", "queueId", "n"),
        ("OFFSET", "offset", "n"),
        ("MAX", "maxOffset", "n"),
        ("LAG", "lag", "n"),
    )
    meets = row_test([column.key for column in shown], where)
    wanted = parse_range(range_text, now_ms())
    times = wanted.begin_time is not None or wanted.end_time is not None
    if (times or format_text is not None or wanted.last is not None) and not path.is_dir():
        raise usage_error(f"{path}: this file holds no messages: name the store folder")
    found = [
        one
        for one in group_positions(path)
        if group in (None, one.group)
        and (not topics or one.topic in topics)
        and queue in (None, one.queue_id)
        and meets(one)
        and _holds(wanted, one)
    ]
    coming: list[tuple[GroupPosition, Found]] = []
    if times or format_text is not None:
        nexts = next_messages(path, found)
        coming = [(one, next_) for one, next_ in nexts if wanted.holds_time(next_[1].store_timestamp)]
        found = [one for one, _ in coming]
    if format_text is not None:
        show_records(settings, (next_ for _, next_ in coming), View(format_text), count)
        return
    if stats:
        summed = columns(
            ("GROUP", "group"),
            ("TOPIC", "topic"),
            ("QUEUES", "queues", "n"),
            ("BEHIND", "behind", "n"),
            ("LAG", "lag", "n"),
            ("GREATEST", "greatest", "n"),
        )
        show_values(settings, summed, topic_lags(found)[:count], "no offsets")
        return
    show_values(settings, shown, found[:count], "no offsets")


def _holds(wanted: OffsetRange, one: GroupPosition) -> bool:
    """As far as offsets go; -N are the last N of the queue."""
    if wanted.only_new:
        return False
    if wanted.last is not None:
        return one.lag is not None and 0 < one.lag <= wanted.last
    return wanted.holds_offset(one.offset)


@command(app, "topics", example="rmq inspect topics ~/store")
def topics_table(
    settings: Settings, path: TableArgument, topics: TopicsOption = None, where: WhereOption = None
) -> None:
    """Show the topics that the broker knows, as topics.json has them."""
    from rmqcli.render.store_view import show_values
    from rmqcli.store.read.tables import topics as read_topics

    _require_store(path)
    rows = [
        (name, one.read_queue_nums, one.write_queue_nums, one.perm, one.topic_sys_flag, one.order)
        for name, one in sorted(read_topics(path).items())
        if not topics or name in topics
    ]
    shown = columns(
        ("TOPIC", "topic"),
        ("READ", "readQueueNums", "n"),
        ("WRITE", "writeQueueNums", "n"),
        ("PERM", "perm", "n"),
        ("FLAGS", "topicSysFlag", "n"),
        ("ORDER", "order"),
    )
    show_values(settings, shown, rows, "no topics", where)


@command(app, "groups", example="rmq inspect groups ~/store")
def groups(
    settings: Settings, path: TableArgument, group: GroupOption = None, where: WhereOption = None
) -> None:
    """Show the consumer groups that the broker knows, as subscriptionGroup.json has them."""
    from rmqcli.render.store_view import show_values
    from rmqcli.store.read.tables import groups as read_groups

    _require_store(path)
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
    shown = columns(
        ("GROUP", "group"),
        ("CONSUME", "consumeEnable"),
        ("BROADCAST", "consumeBroadcastEnable"),
        ("RETRY QUEUES", "retryQueueNums", "n"),
        ("RETRIES", "retryMaxTimes", "n"),
        ("BROKER", "brokerId", "n"),
    )
    show_values(settings, shown, rows, "no groups", where)
