"""`rmq inspect consumequeue PATH`: entries of queues, and the messages that they lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError, ExitCode
from rmqcli.cli.running import now_ms
from rmqcli.cli.settings import Settings
from rmqcli.commands.inspect.app import (
    CountOption,
    JobsOption,
    PathArgument,
    VerifyOption,
    WhereOption,
    app,
    range_option,
    show_verified,
    whole_only,
)
from rmqcli.commands.inspect.records import Chosen, View, show_records
from rmqcli.grammar.offset_range import parse_range
from rmqcli.render.output import warn

if TYPE_CHECKING:
    from rmqcli.store import Queue, QueueEntry, QueueStatistics
    from rmqcli.store.read.log_reader import LogReader
    from rmqcli.store.select.entries import EntryChoice

_GREAT_QUEUES = 16 * 1024 * 1024
"""Bytes of entries that are worth several processes."""


@command(
    app,
    "consumequeue",
    example="rmq inspect consumequeue store/consumequeue/Orders/0 -o -5\nrmq inspect consumequeue store --verify",
)
def consumequeue(
    settings: Settings,
    path: PathArgument,
    *,
    range_text: Annotated[str, range_option("Queue offsets or store times.")] = "start",
    count: CountOption = None,
    chosen: Chosen,
    where: WhereOption = None,
    view: View,
    commit_log: Annotated[
        Path | None,
        typer.Option(
            "--commit-log",
            metavar="PATH",
            help="The commit log that the entries lead into. Default: the store's.",
        ),
    ] = None,
    verify: VerifyOption = False,
    jobs: JobsOption = None,
) -> None:
    """List the entries of consume queues.

    PATH is a file, the folder of a queue or of a topic, or a store folder for all of them. -N is the last N of each queue.
    --where knows topic, queue_id, queue_offset, commit_log_offset, size, tags_code; --tag compares hashes. -f prints the
    messages that entries lead to, in the order of the queue; it, --key and times read the commit log.
    """
    from codec.selector import parse_tags, tag_codes
    from rmqcli.store import queue_folders
    from rmqcli.store.select.entries import EntryChoice, messages_of

    view.require_one(verify=verify)
    if verify:
        whole_only("entry", offset=range_text, count=count, where=where, key=chosen.key, tag=chosen.tag)
    queues = [
        one
        for one in queue_folders(path)
        if (not chosen.topics or one.topic in chosen.topics) and chosen.queue in (None, one.queue_id)
    ]
    if not queues:
        raise CommandError(f"{path}: no such queue is there: see `rmq inspect store`", ExitCode.NOT_FOUND)
    if verify:
        if commit_log is None and queues[0].store is None:
            warn(f"{path}: lies in no store, its records are not looked at: name their log with --commit-log")
        show_verified(settings, _verified_queues(queues, commit_log, jobs), "entry")
        return
    wanted = parse_range(range_text, now_ms())
    times = wanted.begin_time is not None or wanted.end_time is not None
    with ExitStack() as stack:
        log = None
        if times or chosen.key is not None or view.format_text is not None:
            log = stack.enter_context(_log_of(queues[0], commit_log))
        codes = tag_codes(parse_tags(chosen.tag))
        entries = EntryChoice(wanted, codes, _row_test(where), chosen.key, log)
        if view.stats:
            _show_queue_statistics(settings, queues, entries)
            return
        found = (entry for one in queues for entry in entries.of(one))
        if view.explain:
            _explain_entries(settings, islice(found, 1 if count is None else count))
        elif log is not None and view.format_text is not None:
            show_records(settings, messages_of(found, log), view, count)
        else:
            _show_entries(settings, islice(found, count))


def _log_of(queue: Queue, given: Path | None) -> LogReader:
    from rmqcli.store.read.log_reader import LogReader

    source = given or queue.store
    if source is None:
        raise CommandError(
            f"{queue.path}: lies in no store: name its commit log with --commit-log", ExitCode.NOT_FOUND
        )
    return LogReader(source)


def _verified_queues(queues: list[Any], commit_log: Path | None, jobs: int | None) -> Any:
    from rmqcli.render.progress import progress
    from rmqcli.store import verify_consume_queues
    from rmqcli.store.read.files import data_size
    from rmqcli.store.workers import Workers, usable_cores

    size = sum(data_size(file) for queue in queues for file in queue.files.files)
    jobs = jobs or (usable_cores() if size >= _GREAT_QUEUES else 1)
    with Workers(jobs) as workers, progress("verify", size, sizes=True) as advance:
        return verify_consume_queues(queues, commit_log, advance, workers)


def _row_test(where: str | None) -> Callable[[Queue, QueueEntry], bool] | None:
    """The condition over the columns that are shown."""
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


def _show_queue_statistics(settings: Settings, queues: list[Any], entries: EntryChoice) -> None:
    from rmqcli.render.inspection import show_queue_statistics
    from rmqcli.store import QueueStatistics

    rows: list[tuple[Any, QueueStatistics]] = []
    for queue in queues:
        statistics = QueueStatistics()
        for _, entry in entries.of(queue):
            statistics.add(entry)
        rows.append((queue, statistics))
    show_queue_statistics(settings, rows)
