"""`rmq inspect commitlog|consumequeue PATH`: store files without a broker. Nothing is written, nothing is locked."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqcli.commands._inspecting import (
    CountOption,
    ExplainOption,
    JobsOption,
    PathArgument,
    QueueOption,
    StatsOption,
    TopicsOption,
    VerifyOption,
    WhereOption,
    app,
    verified_log,
)
from rmqcli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.grammar.offset_range import OffsetRange, parse_range
from rmqcli.options import FormatOption, Settings, TagOption, command

if TYPE_CHECKING:
    from rmqcli.store import DamagedFile
    from rmqcli.store.log_filter import RecordFilter

_GREAT_QUEUES = 16 * 1024 * 1024
"""Bytes of entries that are worth several processes."""
_LONGEST_EXPLAINED = 16 * 1024 * 1024

EntryFilter = Callable[[Any, Any], bool]


def _one_view(**views: object) -> None:
    chosen = [f"--{name}" for name, given in views.items() if given]
    if len(chosen) > 1:
        raise usage_error(f"{' and '.join(chosen)} exclude each other")


@command(
    app,
    "commitlog",
    example="rmq inspect commitlog store/commitlog/00000000000000000000 -o -5\nrmq inspect commitlog store --verify",
)
def commitlog(
    settings: Settings,
    path: PathArgument,
    range_text: Annotated[
        str,
        typer.Option(
            "--offset", "-o", metavar="RANGE", help="Commit-log offsets or store times, as for `rmq pull`."
        ),
    ] = "start",
    count: CountOption = None,
    topics: TopicsOption = None,
    queue: QueueOption = None,
    key: Annotated[
        str | None, typer.Option("--key", "-k", metavar="KEY", help="Only this key, or message id.")
    ] = None,
    tag: TagOption = "*",
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="EXPR",
            help="Only records that meet EXPR (SQL92) over columns and properties: store_size > 4096 AND region = 'eu'.",
        ),
    ] = None,
    format_text: FormatOption = None,
    verify: VerifyOption = False,
    stats: StatsOption = False,
    explain: ExplainOption = False,
    jobs: JobsOption = None,
) -> None:
    """List the records of a commit log.

    PATH is a file, its folder, or a store folder. -N is the last N records of those that are chosen. --where knows the
    properties of a record and the columns of an export: topic, queue_id, queue_offset, commit_log_offset, msg_id,
    offset_msg_id, tags, keys, born_timestamp, born_host, store_timestamp (ms), store_host, flag, sys_flag, reconsume_times,
    prepared_transaction_offset, store_size, body_crc, body_size.
    """
    from rmqcli.store import CommitLog
    from rmqcli.store.log_filter import record_filter

    _one_view(verify=verify, stats=stats, explain=explain, format=format_text)
    log = CommitLog(path)
    if verify:
        _show_report(settings, verified_log(log, jobs), "record")
        return
    wanted = parse_range(range_text, int(time.time() * 1000))
    chosen = record_filter(key, tag, queue, where)
    found = _records(log, wanted, frozenset(topics or ()), chosen)
    if explain:
        _explain_records(settings, islice(found, 1 if count is None else count))
    elif stats:
        _show_log_statistics(settings, islice(found, count))
    else:
        _show_messages(settings, islice(found, count), format_text)


@command(
    app,
    "consumequeue",
    example="rmq inspect consumequeue store/consumequeue/Orders/0 -o -5\nrmq inspect consumequeue store --verify",
)
def consumequeue(
    settings: Settings,
    path: PathArgument,
    range_text: Annotated[
        str, typer.Option("--offset", "-o", metavar="RANGE", help="Queue offsets: start, N, -N, A:B.")
    ] = "start",
    count: CountOption = None,
    topics: TopicsOption = None,
    queue: QueueOption = None,
    tag: TagOption = "*",
    where: WhereOption = None,
    commit_log: Annotated[
        Path | None,
        typer.Option(
            "--commit-log",
            metavar="PATH",
            help="With --verify: check against this commit log. Default: the store's.",
        ),
    ] = None,
    verify: VerifyOption = False,
    stats: StatsOption = False,
    explain: ExplainOption = False,
    jobs: JobsOption = None,
) -> None:
    """List the entries of consume queues.

    PATH is a file, the folder of a queue or of a topic, or a store folder for all of them. -N is the last N of each queue.
    --where knows topic, queue_id, queue_offset, commit_log_offset, size, tags_code; --tag compares hashes. Entries hold no
    keys and no bodies: `rmq inspect commitlog` has --key and --format.
    """
    from rmqcli.store import queue_folders

    _one_view(verify=verify, stats=stats, explain=explain)
    queues = [
        one
        for one in queue_folders(path)
        if (not topics or one.topic in topics) and queue in (None, one.queue_id)
    ]
    if not queues:
        raise CommandError(f"{path}: no such queue is there: see `rmq inspect store`", ExitCode.NOT_FOUND)
    if verify:
        _show_report(settings, _verified_queues(queues, commit_log, jobs), "entry")
        return
    wanted = parse_range(range_text, 0)
    if wanted.begin_time is not None or wanted.end_time is not None:
        raise usage_error("consume queues hold no times: use offsets, or `rmq inspect commitlog -o @T`")
    chosen = _entry_filter(tag, where)
    if stats:
        _show_queue_statistics(settings, queues, wanted, chosen)
    elif explain:
        found = _entries(queues, wanted, chosen)
        _explain_entries(settings, islice(found, 1 if count is None else count))
    else:
        _show_entries(settings, islice(_entries(queues, wanted, chosen), count))


def _verified_queues(queues: list[Any], commit_log: Path | None, jobs: int | None) -> Any:
    from rmqcli.render.progress import progress
    from rmqcli.store import verify_consume_queues
    from rmqcli.store.files import data_size
    from rmqcli.store.workers import Workers, usable_cores

    size = sum(data_size(file) for queue in queues for file in queue.files.files)
    jobs = jobs or (usable_cores() if size >= _GREAT_QUEUES else 1)
    with Workers(jobs) as workers, progress("verify", size, sizes=True) as advance:
        return verify_consume_queues(queues, commit_log, advance, workers)


def _records(
    log: Any, wanted: OffsetRange, topics: frozenset[str], chosen: RecordFilter
) -> Iterator[tuple[Any, Any]]:
    """(place, message) of what is asked for, the body decompressed."""
    if chosen.is_open:
        return _records_of(log, wanted, topics)
    last = wanted.last
    everything = _records_of(log, OffsetRange() if last else wanted, topics)
    found = ((place, message) for place, message in everything if chosen.accepts(message))
    return iter(deque(found, last)) if last else found


def _records_of(log: Any, wanted: OffsetRange, topics: frozenset[str]) -> Iterator[tuple[Any, Any]]:
    from codec.errors import CorruptionError
    from codec.record import decode_record
    from rmqcli.store import DamagedFile

    if wanted.only_new or wanted.last == 0:
        return
    begin = wanted.begin or 0
    if wanted.last is not None:
        begin = log.last(wanted.last, topics or None)
    start = log.first_file_at(wanted.begin_time) if wanted.begin_time is not None else 0
    for place, data in log.records(from_offset=begin, from_file=start):
        if wanted.end is not None and place.offset >= wanted.end:
            return
        try:
            message = decode_record(data, place.position, decompress=True)
        except CorruptionError as error:
            raise DamagedFile(place.file.path, CorruptionError(str(error), place.position)) from None
        if wanted.holds_time(message.store_timestamp) and (not topics or message.topic in topics):
            yield place, message


def every_entry(queue: Any, entry: Any) -> bool:
    return True


def _entry_filter(tag: str, where: str | None) -> EntryFilter:
    """Whether an entry has one of the tags, by their hashes, and meets the condition."""
    from codec.selector import parse_tags, tag_codes
    from rmqcli.render.inspection import ENTRY_COLUMNS, entry_row
    from rmqcli.store.row_filter import row_test

    codes = tag_codes(parse_tags(tag))
    if not codes and where is None:
        return every_entry
    meets = row_test([column.key for column in ENTRY_COLUMNS], where)
    return lambda queue, entry: (not codes or entry.tags_code in codes) and meets(entry_row(queue, entry))


def _entries(queues: list[Any], wanted: OffsetRange, chosen: EntryFilter) -> Iterator[tuple[Any, Any]]:
    """-N is the last N entries of each queue that are chosen."""
    last = wanted.last
    for queue in queues:
        begin, end = (OffsetRange() if last else wanted).offsets(*queue.files.bounds())
        if last and chosen is every_entry:
            begin = max(begin, end - last)
        entries = ((queue, entry) for entry in queue.files.entries(begin, end) if chosen(queue, entry))
        yield from deque(entries, last) if last else entries


def _show_messages(settings: Settings, found: Iterator[tuple[Any, Any]], format_text: str | None) -> None:
    from rmqcli.render.inspection import RECORD_COLUMNS, record_row, stream_rows

    if settings.json or format_text is not None:
        from rmqcli.render.lines import message_renderer
        from rmqcli.render.output import Output

        render, output = message_renderer(settings, format_text), Output()
        for _, message in found:
            output.write(render(message))
        return
    stream_rows(settings, RECORD_COLUMNS, (record_row(message) for _, message in found))


def _show_entries(settings: Settings, found: Iterator[tuple[Any, Any]]) -> None:
    from rmqcli.render.inspection import ENTRY_COLUMNS, entry_row, stream_rows

    stream_rows(settings, ENTRY_COLUMNS, (entry_row(queue, entry) for queue, entry in found))


def _explain_records(settings: Settings, found: Iterator[tuple[Any, Any]]) -> None:
    from codec.record_explain import explain_record
    from rmqcli.render.inspection import show_fields
    from rmqcli.store import DamagedFile

    try:
        for place, _ in found:
            show_fields(settings, place.file.path, place.position, explain_record(place.bytes()).fields)
    except DamagedFile as damage:
        _explain_damage(settings, damage)
        raise


def _explain_damage(settings: Settings, damage: DamagedFile) -> None:
    """What a damaged record says as far as it makes sense."""
    from codec.record_explain import explain_record
    from rmqcli.render.inspection import show_fields
    from rmqcli.running import warn

    if damage.position is None:
        return
    with damage.path.open("rb") as file:
        file.seek(damage.position)
        explanation = explain_record(file.read(_LONGEST_EXPLAINED))
    show_fields(settings, damage.path, damage.position, explanation.fields)
    if explanation.problem:
        warn(explanation.problem)


def _explain_entries(settings: Settings, found: Iterator[tuple[Any, Any]]) -> None:
    from rmqcli.render.inspection import show_fields
    from rmqcli.store import explain_entry

    for _, entry in found:
        show_fields(settings, entry.file.path, entry.position, explain_entry(entry))


def _show_log_statistics(settings: Settings, found: Iterator[tuple[Any, Any]]) -> None:
    from rmqcli.render.distribution import distribution_document, show_distribution
    from rmqcli.render.inspection import show_log_statistics
    from rmqcli.store import LogStatistics
    from rmqcli.store.distribution import Distribution

    statistics, distribution = LogStatistics(), Distribution()
    for _, message in found:
        statistics.add(message)
        distribution.add(message)
    show_log_statistics(settings, statistics, distribution_document(distribution))
    if settings.terminal and not settings.json and statistics.topics:
        show_distribution(distribution)


def _show_queue_statistics(
    settings: Settings, queues: list[Any], wanted: OffsetRange, chosen: EntryFilter
) -> None:
    from rmqcli.render.inspection import show_queue_statistics
    from rmqcli.store import QueueStatistics

    rows: list[tuple[Any, QueueStatistics]] = []
    for queue in queues:
        statistics = QueueStatistics()
        for _, entry in _entries([queue], wanted, chosen):
            statistics.add(entry)
        rows.append((queue, statistics))
    show_queue_statistics(settings, rows)


def _show_report(settings: Settings, report: Any, items: str) -> None:
    from rmqcli.render.inspection import show_report

    show_report(settings, report, items)
    if not report.sound:
        raise typer.Exit(ExitCode.CORRUPT)
