"""`rmq inspect consumequeue` and `rmq inspect delay`: the entries of queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError, ExitCode
from rmqcli.cli.row_options import Rows
from rmqcli.cli.running import now_ms
from rmqcli.cli.settings import Settings
from rmqcli.commands.inspect.app import (
    CountOption,
    DelayLevelsOption,
    JobsOption,
    PathArgument,
    StoreArgument,
    VerifyOption,
    WhereOption,
    app,
    backup_of,
    delays_of,
    range_option,
    show_table_rows,
    show_verified,
    whole_only,
)
from rmqcli.commands.inspect.records import Selection, View, show_records
from rmqcli.commands.inspect.similar_names import note_meant
from rmqcli.grammar.offset_range import OffsetRange, parse_range
from rmqcli.render.output import warn
from rmqcli.render.table import MAX, Column
from rmqcli.render.text import duration, local_seconds

if TYPE_CHECKING:
    from rmqcli.store import Queue, QueueEntry
    from rmqcli.store.read.commit_log import LogReader
    from rmqcli.store.read.pending import DelayedMessage, DelayLevel

_MIN_PARALLEL_BYTES = 16 * 1024 * 1024  # bytes of entries from which several processes are faster than one


@command(
    app,
    "consumequeue",
    example="""rmq inspect consumequeue store/consumequeue/Orders/0 -o -5
rmq inspect consumequeue store --verify""",
    rows=Rows.LIST,
    panels={"Checks": "--commit-log --verify --jobs"},
)
def consumequeue(
    settings: Settings,
    path: PathArgument,
    *,
    range_text: Annotated[str, range_option("Range of queue offsets or store times.")] = "start",
    count: CountOption = None,
    selection: Selection,
    where: WhereOption = None,
    view: View,
    commit_log: Annotated[
        Path | None,
        Option("--commit-log", metavar="PATH", help="Commit log of the entries; default: that of the store."),
    ] = None,
    verify: VerifyOption = False,
    jobs: JobsOption = None,
) -> None:
    """List the entries of consume queues.

    PATH is a file, the folder of a queue or of a topic, or a store folder for all queues. -N selects the last
    N entries of each queue. --where can use topic, queue_id, queue_offset, commit_log_offset, size and
    tags_code; --tag compares hashes. -f prints the messages of the entries in queue order; -f, --key and
    times read the commit log.
    """
    from rmqcli.codec.selector import parse_tags, tag_codes
    from rmqcli.store import queue_folders
    from rmqcli.store.read.consume_queue import batch_topics
    from rmqcli.store.select.entries import EntryChoice, messages_of

    view.require_one(verify=verify)
    if verify:
        whole_only("entry", offset=range_text, count=count, where=where, key=selection.key, tag=selection.tag)
    queues = [
        one
        for one in queue_folders(path)
        if (not selection.topics or one.topic in selection.topics) and selection.queue in (None, one.queue_id)
    ]
    note_meant(path, topics=selection.topics)
    if not queues:
        batches = sorted(batch_topics(path).intersection(selection.topics or ())) if path.is_dir() else []
        if batches:
            remedy = "`rmq inspect commitlog --topic` lists the records"
            text = f"{', '.join(batches)}: batch consume queues of 5.x: {remedy}"
            raise CommandError(f"{path}: {text}", ExitCode.NOT_FOUND)
        raise CommandError(f"{path}: no such queue; see `rmq inspect store`", ExitCode.NOT_FOUND)
    if verify:
        if commit_log is None and queues[0].store is None:
            remedy = "records are not checked; specify their log with --commit-log"
            warn(f"{path} is not in a store folder: {remedy}")
        show_verified(settings, _verified_queues(queues, commit_log, jobs), "entry")
        return
    wanted = parse_range(range_text, now_ms())
    times = wanted.begin_time is not None or wanted.end_time is not None
    with ExitStack() as stack:
        log = None
        if times or selection.key is not None or view.format_text is not None:
            log = stack.enter_context(_log_of(queues[0], commit_log))
        codes = tag_codes(parse_tags(selection.tag))
        entries = EntryChoice(wanted, codes, _row_test(where), selection.key, log)
        found = (entry for one in queues for entry in entries.of(one))
        if view.stats:
            _show_queue_statistics(settings, queues, islice(found, count))
        elif view.explain:
            _explain_entries(settings, islice(found, 1 if count is None else count))
        elif log is not None and view.format_text is not None:
            show_records(settings, messages_of(found, log), view, count)
        else:
            _show_entries(settings, islice(found, count))


def _log_of(queue: Queue, given: Path | None) -> LogReader:
    from rmqcli.store.read.commit_log import LogReader

    source = given or queue.store
    if source is None:
        raise CommandError(
            f"{queue.path} is not in a store folder: specify its commit log with --commit-log",
            ExitCode.NOT_FOUND,
        )
    return LogReader(source)


def _verified_queues(queues: list[Any], commit_log: Path | None, jobs: int | None) -> Any:
    from rmqcli.machine import processes
    from rmqcli.render.progress import progress
    from rmqcli.store import verify_consume_queues
    from rmqcli.store.read.files import data_size
    from rmqcli.store.workers import Workers

    size = sum(data_size(file) for queue in queues for file in queue.files.files)
    jobs = jobs or (processes() if size >= _MIN_PARALLEL_BYTES else 1)
    with Workers(jobs) as workers, progress("verify", size, sizes=True) as advance:
        return verify_consume_queues(queues, commit_log, advance, workers)


def _row_test(where: str | None) -> Callable[[Queue, QueueEntry], bool] | None:
    """Return a test of the condition over the columns."""
    if where is None:
        return None
    from rmqcli.render.inspection import ENTRY_COLUMNS, entry_row
    from rmqcli.store.select.conditions import row_test

    meets = row_test([column.key for column in ENTRY_COLUMNS], where)
    return lambda queue, entry: meets(entry_row(queue, entry))


def _show_entries(settings: Settings, found: Iterator[tuple[Any, Any]]) -> None:
    from rmqcli.render.inspection import ENTRY_COLUMNS, entry_row, stream_rows

    stream_rows(
        settings, ENTRY_COLUMNS, (entry_row(queue, entry) for queue, entry in found), empty="no entries"
    )


def _explain_entries(settings: Settings, found: Iterator[tuple[Any, Any]]) -> None:
    from rmqcli.render.inspection import show_fields
    from rmqcli.store import explain_entry

    for _, entry in found:
        show_fields(settings, entry.file.path, entry.position, explain_entry(entry))


def _show_queue_statistics(
    settings: Settings, queues: list[Queue], found: Iterator[tuple[Queue, QueueEntry]]
) -> None:
    from rmqcli.render.inspection import show_queue_statistics
    from rmqcli.store import QueueStatistics

    rows = {queue: QueueStatistics() for queue in queues}
    for queue, entries in groupby(found, itemgetter(0)):
        for _, entry in entries:
            rows[queue].add(entry)
    show_queue_statistics(settings, list(rows.items()))


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
    is damaged, its .bak is read, as standard error and the column source report.
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
