"""`rmq inspect consumequeue PATH`: entries of queues, and the messages that they lead to."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from rmqcli.commands._inspecting import (
    CountOption,
    ExplainOption,
    JobsOption,
    KeyOption,
    PathArgument,
    QueueOption,
    StatsOption,
    TopicsOption,
    VerifyOption,
    WhereOption,
    app,
    one_view,
    range_option,
    show_verified,
)
from rmqcli.commands._records import View, show_records
from rmqcli.exit_codes import CommandError, ExitCode
from rmqcli.grammar.offset_range import OffsetRange, parse_range
from rmqcli.options import FormatOption, Settings, TagOption, command
from rmqcli.running import now_ms

if TYPE_CHECKING:
    from rmqcli.store import Queue, QueueEntry, QueueStatistics
    from rmqcli.store.log_reader import Found, LogReader

_GREAT_QUEUES = 16 * 1024 * 1024
"""Bytes of entries that are worth several processes."""

EntryFilter = Callable[[Any, Any], bool]
Entry = tuple["Queue", "QueueEntry"]


class Entries(NamedTuple):
    """Which entries are wanted of each queue; `log` where it takes records to tell."""

    wanted: OffsetRange
    chosen: EntryFilter
    log: LogReader | None

    def of(self, queue: Queue) -> Iterator[Entry]:
        """-N is the last N entries of the queue that are chosen."""
        last = self.wanted.last
        begin, end = self._bounds(queue)
        if last and self.chosen is every_entry:
            begin = max(begin, end - last)
        entries = ((queue, one) for one in queue.files.entries(begin, end) if self.chosen(queue, one))
        return iter(deque(entries, last)) if last else entries

    def _bounds(self, queue: Queue) -> tuple[int, int]:
        first, end = queue.files.bounds()
        times = self.wanted.begin_time, self.wanted.end_time
        if self.log is not None and times != (None, None):
            begin, stop = (_stored_from(queue, self.log, first, end, time) for time in times)
            return (first if begin is None else begin), (end if stop is None else stop)
        return (OffsetRange() if self.wanted.last else self.wanted).offsets(first, end)


def _stored_from(queue: Queue, log: LogReader, first: int, end: int, time: int | None) -> int | None:
    """The first queue offset of a message stored at `time` or later; what retention took was stored before."""
    if time is None:
        return None

    def stored(offset: int) -> int:
        entry = next(queue.files.entries(offset, offset + 1), None)
        message = None if entry is None else log.message(entry.commit_log_offset)
        return 0 if message is None else message.store_timestamp

    return bisect_left(range(end), time, lo=first, key=stored)


@command(
    app,
    "consumequeue",
    example="rmq inspect consumequeue store/consumequeue/Orders/0 -o -5\nrmq inspect consumequeue store --verify",
)
def consumequeue(
    settings: Settings,
    path: PathArgument,
    range_text: Annotated[str, range_option("Queue offsets or store times.")] = "start",
    count: CountOption = None,
    topics: TopicsOption = None,
    queue: QueueOption = None,
    key: KeyOption = None,
    tag: TagOption = "*",
    where: WhereOption = None,
    format_text: FormatOption = None,
    commit_log: Annotated[
        Path | None,
        typer.Option(
            "--commit-log",
            metavar="PATH",
            help="The commit log that the entries lead into. Default: the store's.",
        ),
    ] = None,
    verify: VerifyOption = False,
    stats: StatsOption = False,
    explain: ExplainOption = False,
    jobs: JobsOption = None,
) -> None:
    """List the entries of consume queues.

    PATH is a file, the folder of a queue or of a topic, or a store folder for all of them. -N is the last N of each queue.
    --where knows topic, queue_id, queue_offset, commit_log_offset, size, tags_code; --tag compares hashes. -f prints the
    messages that entries lead to, in the order of the queue; it, --key and times read the commit log.
    """
    from rmqcli.store import queue_folders

    one_view(verify=verify, stats=stats, explain=explain, format=format_text is not None)
    queues = [
        one
        for one in queue_folders(path)
        if (not topics or one.topic in topics) and queue in (None, one.queue_id)
    ]
    if not queues:
        raise CommandError(f"{path}: no such queue is there: see `rmq inspect store`", ExitCode.NOT_FOUND)
    if verify:
        show_verified(settings, _verified_queues(queues, commit_log, jobs), "entry")
        return
    wanted = parse_range(range_text, now_ms())
    times = wanted.begin_time is not None or wanted.end_time is not None
    with ExitStack() as stack:
        log = None
        if times or key is not None or format_text is not None:
            log = stack.enter_context(_log_of(queues[0], commit_log))
        entries = Entries(wanted, _entry_filter(tag, where, key, log), log)
        if stats:
            _show_queue_statistics(settings, queues, entries)
            return
        found = (entry for one in queues for entry in entries.of(one))
        if explain:
            _explain_entries(settings, islice(found, 1 if count is None else count))
        elif format_text is not None and log is not None:
            show_records(settings, _messages(found, log), View(format_text), count)
        else:
            _show_entries(settings, islice(found, count))


def _log_of(queue: Queue, given: Path | None) -> LogReader:
    from rmqcli.store.log_reader import LogReader

    source = given or queue.store
    if source is None:
        raise CommandError(
            f"{queue.path}: lies in no store: name its commit log with --commit-log", ExitCode.NOT_FOUND
        )
    return LogReader(source)


def _messages(found: Iterator[Entry], log: LogReader) -> Iterator[Found]:
    """Those that retention did not take. DamagedFile where no whole record is."""
    records = (log.read(entry.commit_log_offset) for _, entry in found)
    return (record for record in records if record is not None)


def _verified_queues(queues: list[Any], commit_log: Path | None, jobs: int | None) -> Any:
    from rmqcli.render.progress import progress
    from rmqcli.store import verify_consume_queues
    from rmqcli.store.files import data_size
    from rmqcli.store.workers import Workers, usable_cores

    size = sum(data_size(file) for queue in queues for file in queue.files.files)
    jobs = jobs or (usable_cores() if size >= _GREAT_QUEUES else 1)
    with Workers(jobs) as workers, progress("verify", size, sizes=True) as advance:
        return verify_consume_queues(queues, commit_log, advance, workers)


def every_entry(queue: Any, entry: Any) -> bool:
    return True


def _entry_filter(tag: str, where: str | None, key: str | None, log: LogReader | None) -> EntryFilter:
    """Whether an entry has one of the tags, by their hashes, meets the condition, and leads to a message with the key."""
    from codec.selector import parse_tags, tag_codes
    from rmqcli.render.inspection import ENTRY_COLUMNS, entry_row
    from rmqcli.store.log_filter import record_filter
    from rmqcli.store.row_filter import row_test

    codes = tag_codes(parse_tags(tag))
    if not codes and where is None and key is None:
        return every_entry
    has_key = record_filter(key).accepts
    meets = row_test([column.key for column in ENTRY_COLUMNS], where)

    def accepts(queue: Any, entry: Any) -> bool:
        if (codes and entry.tags_code not in codes) or not meets(entry_row(queue, entry)):
            return False
        if key is None or log is None:
            return True
        found = log.read(entry.commit_log_offset)
        return found is not None and has_key(found[1])

    return accepts


def _show_entries(settings: Settings, found: Iterator[tuple[Any, Any]]) -> None:
    from rmqcli.render.inspection import ENTRY_COLUMNS, entry_row, stream_rows

    stream_rows(settings, ENTRY_COLUMNS, (entry_row(queue, entry) for queue, entry in found))


def _explain_entries(settings: Settings, found: Iterator[tuple[Any, Any]]) -> None:
    from rmqcli.render.inspection import show_fields
    from rmqcli.store import explain_entry

    for _, entry in found:
        show_fields(settings, entry.file.path, entry.position, explain_entry(entry))


def _show_queue_statistics(settings: Settings, queues: list[Any], entries: Entries) -> None:
    from rmqcli.render.inspection import show_queue_statistics
    from rmqcli.store import QueueStatistics

    rows: list[tuple[Any, QueueStatistics]] = []
    for queue in queues:
        statistics = QueueStatistics()
        for _, entry in entries.of(queue):
            statistics.add(entry)
        rows.append((queue, statistics))
    show_queue_statistics(settings, rows)
