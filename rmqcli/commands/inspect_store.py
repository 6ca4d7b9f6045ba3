"""`rmq inspect store|index|checkpoint|offsets|topics|groups|delay|transactions`: a store folder read without a broker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rmqcli.commands._inspecting import (
    DELAY_LEVELS,
    ExplainOption,
    StoreArgument,
    TableArgument,
    WhereOption,
    app,
    delays_of,
)
from rmqcli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.options import FormatOption, Settings, command

GroupOption = Annotated[str | None, typer.Option("--group", metavar="GROUP", help="Only this group.")]
TopicOption = Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="Only this topic.")]


def _columns(*names: tuple[str, str] | tuple[str, str, str]) -> list[Any]:
    """(title, key) or (title, key, how): `n` a number, `d` a duration in ms, `t` a time."""
    from rmqcli.render.inspection import to_seconds
    from rmqcli.render.table import Column

    made = {
        "n": {"number": True},
        "d": {"show": _span, "number": True},
        "t": {"show": to_seconds, "whole": True},
        "": {},
    }
    return [Column(title, key, **made[how[0] if how else ""]) for title, key, *how in names]  # type: ignore[arg-type]


def _require_store(path: Path) -> None:
    """A folder must be a store folder: any other has no tables, which would look like a store without topics."""
    from rmqcli.store.tables import store_folder

    if path.is_dir():
        store_folder(path)


def _span(milliseconds: int | None) -> str:
    from rmqcli.render.text import duration

    return "" if milliseconds is None else duration(milliseconds / 1000)


@command(app, "store", example="rmq inspect store ~/store")
def store(settings: Settings, path: StoreArgument) -> None:
    """Show what is in a store folder: files, topics, groups, what is pending."""
    from rmqcli.render.store_view import show_overview
    from rmqcli.store.overview import overview

    show_overview(settings, overview(path))


@command(app, "index", example="rmq inspect index ~/store\nrmq inspect index ~/store --topic orders --key 42")
def index(
    settings: Settings,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A file, its folder, or a store folder.")],
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="The items of this key, with the chain of their slot."),
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="The topic of --key.")] = None,
    slots: Annotated[
        int | None,
        typer.Option(
            "--slots", metavar="N", min=1, help="maxHashSlotNum; found out by itself when it is not given."
        ),
    ] = None,
    where: WhereOption = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Each header, or each item of --key, field by field with its bytes."),
    ] = False,
) -> None:
    """Show index files: headers, and how full slots and chains are.

    With --key, the chain of the key's slot, newest item first; items of other keys in it say `other`.
    """
    from rmqcli.render.store_view import chain_row, show_chains, show_index
    from rmqcli.store.files import mapped, naming_damage
    from rmqcli.store.index import geometry_of, index_files, key_chain, load_of

    if (key is None) != (topic is None):
        raise usage_error("--key and --topic go together: the index knows keys by their topic")
    if explain and where is not None:
        raise usage_error("--explain and --where exclude each other")
    if explain:
        _explain_index(settings, path, topic, key, slots)
        return
    loads, rows = [], []
    for file in index_files(path):
        with naming_damage(file), mapped(file) as data:
            found = geometry_of(file, data, slots)
            if key is None or topic is None:
                loads.append((found, load_of(data, found)))
                continue
            _, slot, links = key_chain(data, found, topic, key)
            rows += [chain_row(found, slot, link) for link in links]
    if key is None:
        show_index(settings, loads, where)
        return
    show_chains(settings, rows, where)
    if not any(row[-1] for row in rows):
        raise _no_item(topic, key)


def _no_item(topic: str | None, key: str | None) -> CommandError:
    return CommandError(f"no item of the key {key} of {topic}", ExitCode.NOT_FOUND)


def _explain_index(
    settings: Settings, path: Path, topic: str | None, key: str | None, slots: int | None
) -> None:
    from codec.index_file import HEADER, ITEM, item_position
    from codec.record_explain import explain_fixed
    from rmqcli.render.inspection import show_fields
    from rmqcli.store.files import mapped, naming_damage
    from rmqcli.store.index import geometry_of, index_files, key_chain

    shown = 0
    for file in index_files(path):
        with naming_damage(file), mapped(file) as data:
            if key is None or topic is None:
                show_fields(settings, file.path, 0, explain_fixed(HEADER, data))
                continue
            found = geometry_of(file, data, slots)
            for link in key_chain(data, found, topic, key)[2]:
                if link.matches:
                    at = item_position(found.slots, link.number)
                    show_fields(settings, file.path, at, explain_fixed(ITEM, data, at))
                    shown += 1
    if key is not None and not shown:
        raise _no_item(topic, key)


@command(app, "checkpoint", example="rmq inspect checkpoint ~/store")
def checkpoint(settings: Settings, path: TableArgument, explain: ExplainOption = False) -> None:
    """Show the checkpoint: store times up to which log, queues and index were flushed."""
    from rmqcli.render.store_view import show_facts
    from rmqcli.render.text import local_time
    from rmqcli.store.tables import read_checkpoint

    found = read_checkpoint(path)
    if found is None:
        raise CommandError(f"{path}: there is no checkpoint", ExitCode.NOT_FOUND)
    if explain:
        _explain_checkpoint(settings, path / "checkpoint" if path.is_dir() else path)
        return
    names = (
        "physicMsgTimestamp",
        "logicsMsgTimestamp",
        "indexMsgTimestamp",
        "masterFlushedOffset",
        "confirmPhyOffset",
    )
    facts: dict[str, tuple[str, Any]] = {
        name: (local_time(value) or str(value) if name.endswith("Timestamp") else str(value), value)
        for name, value in zip(names, found, strict=True)
    }
    show_facts(settings, facts)


def _explain_checkpoint(settings: Settings, file: Path) -> None:
    from codec.checkpoint import CHECKPOINT
    from codec.record_explain import explain_fixed
    from rmqcli.render.inspection import show_fields

    show_fields(settings, file, 0, explain_fixed(CHECKPOINT, file.read_bytes()))


@command(app, "offsets", example="rmq inspect offsets ~/store --group billing")
def offsets(
    settings: Settings,
    path: TableArgument,
    group: GroupOption = None,
    topic: TopicOption = None,
    where: WhereOption = None,
) -> None:
    """Show how far each group has consumed each queue, and its lag."""
    from rmqcli.render.store_view import show_values
    from rmqcli.store.overview import queue_ranges
    from rmqcli.store.tables import group_offsets

    _require_store(path)
    ends = {(one.topic, one.queue_id): one.max_offset for one in queue_ranges(path)} if path.is_dir() else {}
    rows = []
    for one in group_offsets(path):
        if group in (None, one.group) and topic in (None, one.topic):
            end = ends.get((one.topic, one.queue_id))
            rows.append((*one, end, None if end is None else max(end - one.offset, 0)))
    columns = _columns(
        ("GROUP", "group"),
        ("TOPIC", "topic"),
        ("QUEUE", "queueId", "n"),
        ("OFFSET", "offset", "n"),
        ("MAX", "maxOffset", "n"),
        ("LAG", "lag", "n"),
    )
    show_values(settings, columns, rows, "no offsets", where)


@command(app, "topics", example="rmq inspect topics ~/store")
def topics(
    settings: Settings, path: TableArgument, topic: TopicOption = None, where: WhereOption = None
) -> None:
    """Show the topics that the broker knows, as topics.json has them."""
    from rmqcli.render.store_view import show_values
    from rmqcli.store.tables import topics as read_topics

    _require_store(path)
    rows = [
        (name, one.read_queue_nums, one.write_queue_nums, one.perm, one.topic_sys_flag, one.order)
        for name, one in sorted(read_topics(path).items())
        if topic in (None, name)
    ]
    columns = _columns(
        ("TOPIC", "topic"),
        ("READ", "readQueueNums", "n"),
        ("WRITE", "writeQueueNums", "n"),
        ("PERM", "perm", "n"),
        ("FLAGS", "topicSysFlag", "n"),
        ("ORDER", "order"),
    )
    show_values(settings, columns, rows, "no topics", where)


@command(app, "groups", example="rmq inspect groups ~/store")
def groups(
    settings: Settings, path: TableArgument, group: GroupOption = None, where: WhereOption = None
) -> None:
    """Show the consumer groups that the broker knows, as subscriptionGroup.json has them."""
    from rmqcli.render.store_view import show_values
    from rmqcli.store.tables import groups as read_groups

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
    columns = _columns(
        ("GROUP", "group"),
        ("CONSUME", "consumeEnable"),
        ("BROADCAST", "consumeBroadcastEnable"),
        ("RETRY QUEUES", "retryQueueNums", "n"),
        ("RETRIES", "retryMaxTimes", "n"),
        ("BROKER", "brokerId", "n"),
    )
    show_values(settings, columns, rows, "no groups", where)


@command(app, "delay", example="rmq inspect delay ~/store")
def delay(
    settings: Settings, path: StoreArgument, delay_levels: DELAY_LEVELS = None, where: WhereOption = None
) -> None:
    """Show the delayed messages of each level that are not delivered yet."""
    from rmqcli.render.store_view import show_values
    from rmqcli.store import pending
    from rmqcli.store.tables import store_folder

    rows = [
        (one.level, one.delay, one.pending, one.offset, one.max_offset, one.first_due, one.last_due)
        for one in pending.delay_levels(store_folder(path), delays_of(delay_levels))
    ]
    columns = _columns(
        ("LEVEL", "level", "n"),
        ("DELAY", "delay", "d"),
        ("PENDING", "pending", "n"),
        ("OFFSET", "offset", "n"),
        ("MAX", "maxOffset", "n"),
        ("FIRST DUE", "firstDue", "t"),
        ("LAST DUE", "lastDue", "t"),
    )
    show_values(settings, columns, rows, "no delayed messages", where, ("offset",))


@command(app, "transactions", example="rmq inspect transactions ~/store")
def transactions(
    settings: Settings,
    path: StoreArgument,
    group: GroupOption = None,
    topic: TopicOption = None,
    where: WhereOption = None,
    format_text: FormatOption = None,
) -> None:
    """Show the half messages of transactions that were neither committed nor rolled back."""
    from rmqcli.render.lines import message_renderer
    from rmqcli.render.output import Output
    from rmqcli.render.store_view import show_values
    from rmqcli.store import pending
    from rmqcli.store.row_filter import row_test
    from rmqcli.store.tables import store_folder

    render = None if format_text is None else message_renderer(settings, format_text)
    found = [
        one
        for one in pending.half_messages(store_folder(path))
        if topic in (None, one.topic) and group in (None, one.group)
    ]
    rows = [
        (one.queue_offset, one.topic, one.group, one.checks, one.message.store_timestamp, one.message.msg_id)
        for one in found
    ]
    columns = _columns(
        ("OFFSET", "queueOffset", "n"),
        ("TOPIC", "topic"),
        ("GROUP", "producerGroup"),
        ("CHECKS", "checkTimes", "n"),
        ("STORED", "storeTimestamp", "t"),
        ("ID", "msgId"),
    )
    if render is not None:
        meets, output = row_test([column.key for column in columns], where), Output()
        for one, row in zip(found, rows, strict=True):
            if meets(row):
                output.write(render(one.message))
        return
    show_values(settings, columns, rows, "no pending transactions", where, ("msgId",))
