"""`rmq inspect offsets`, `groups`, `topics` and `checkpoint`: the tables of a store folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
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
from rmqcli.commands.inspect.records import View, show_records
from rmqcli.commands.inspect.similar_names import note_meant
from rmqcli.grammar.offset_range import OffsetRange, parse_range
from rmqcli.render.table import GROUP, LAG, MAX, QUEUE, QUEUES, TOPIC, Column

if TYPE_CHECKING:
    from rmqcli.store.read.commit_log import Found
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
    topic. --where can use group, topic, queue_id, offset, max_offset and lag.
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
    """Return True if the offset is in the range; -N selects queues that lag by 1 to N messages."""
    if wanted.only_new:
        return False
    if wanted.last is not None:
        return one.lag is not None and 0 < one.lag <= wanted.last
    return wanted.holds_offset(one.offset)


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

    --where can use group, consume_enable, consume_broadcast_enable, retry_queue_nums, retry_max_times and
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

    --where can use topic, read_queue_nums, write_queue_nums, perm, topic_sys_flag and order.
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


ExplainOption = Annotated[bool, Option("--explain", help="Show it field by field, with its bytes.")]


@command(app, "checkpoint", example="rmq inspect checkpoint ~/store")
def checkpoint(settings: Settings, path: TableArgument, explain: ExplainOption = False) -> None:
    """Show the checkpoint: the store times up to which commit log, consume queues and index are flushed.

    The broker of rmq adds the commit-log offsets up to which they are flushed: logOffset, indexOffset.
    """
    from rmqcli.render.store_view import camel, show_facts
    from rmqcli.render.text import local_time
    from rmqcli.store.read.tables import read_checkpoint, read_safe_point

    found = read_checkpoint(path)
    if found is None:
        raise CommandError(f"{path}: no checkpoint", ExitCode.NOT_FOUND)
    if explain:
        _explain_checkpoint(settings, path / "checkpoint" if path.is_dir() else path)
        return
    facts: dict[str, tuple[str, Any]] = {
        camel(name): (local_time(value) or str(value) if name.endswith("timestamp") else str(value), value)
        for name, value in found._asdict().items()
    }
    safe_point = read_safe_point(path)
    if safe_point is not None:
        for name, value in (("logOffset", safe_point.log_offset), ("indexOffset", safe_point.index_offset)):
            facts[name] = str(value), value
    show_facts(settings, facts)


def _explain_checkpoint(settings: Settings, file: Path) -> None:
    from rmqcli.codec.records.reading import explain_fixed
    from rmqcli.codec.store.checkpoint import CHECKPOINT, SAFE_POINT, SAFE_POINT_AT
    from rmqcli.render.inspection import show_fields

    data = file.read_bytes()
    fields = explain_fixed(CHECKPOINT, data)
    if any(data[SAFE_POINT_AT:]):
        added = explain_fixed(SAFE_POINT, data, SAFE_POINT_AT)
        fields += [field._replace(offset=SAFE_POINT_AT + field.offset) for field in added]
    show_fields(settings, file, 0, fields)
