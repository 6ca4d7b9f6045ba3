"""`rmq inspect commitlog|consumequeue PATH`: store files without a broker. Nothing is written, nothing is locked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from rmqcli.exit_codes import ExitCode, usage_error
from rmqcli.offset_range import OffsetRange, parse_range
from rmqcli.options import FormatOption, Settings, command, command_group

app = command_group("inspect", "Read store files: commit log and consume queues, verified and explained.")

PathArgument = Annotated[
    Path, typer.Argument(metavar="PATH", help="A file, or the folder that holds the files.")
]
CountOption = Annotated[int | None, typer.Option("--count", "-c", metavar="N", min=0, help="Show at most N.")]
VerifyOption = Annotated[bool, typer.Option("--verify", help="Check structure and CRC; exit 8 when damaged.")]
StatsOption = Annotated[bool, typer.Option("--stats", help="Counts, bytes and time range instead of rows.")]
ExplainOption = Annotated[bool, typer.Option("--explain", help="One record field by field, with its bytes.")]


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
            "--offsets", "-o", metavar="RANGE", help="Commit-log offsets or store times, as for `rmq pull`."
        ),
    ] = "start",
    count: CountOption = None,
    topics: Annotated[
        list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Only this topic; may be repeated.")
    ] = None,
    format_text: FormatOption = None,
    verify: VerifyOption = False,
    stats: StatsOption = False,
    explain: ExplainOption = False,
) -> None:
    """List the records of a commit log: a file, its folder, or a store folder."""
    from rmqcli.store import CommitLog, verify_commit_log

    _one_view(verify=verify, stats=stats, explain=explain, format=format_text)
    log = CommitLog(path)
    if verify:
        from rmqcli.render.progress import progress

        with progress("verify", sum(file.size for file in log.files)) as advance:
            _show_report(settings, verify_commit_log(log, advance), "records")
        return
    wanted = parse_range(range_text, int(time.time() * 1000))
    found = _records(log, wanted, frozenset(topics or ()))
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
        str, typer.Option("--offsets", "-o", metavar="RANGE", help="Queue offsets: start, N, -N, A:B.")
    ] = "start",
    count: CountOption = None,
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
) -> None:
    """List the entries of consume queues: a file, a queue's folder, a topic's, or all of a store."""
    from rmqcli.store import queue_folders, verify_consume_queues

    _one_view(verify=verify, stats=stats, explain=explain)
    queues = queue_folders(path)
    if verify:
        _show_report(settings, verify_consume_queues(queues, commit_log), "entries")
        return
    wanted = parse_range(range_text, 0)
    if wanted.begin_time is not None or wanted.end_time is not None:
        raise usage_error("consume queues hold no times: use offsets, or `rmq inspect commitlog -o @T`")
    if stats:
        _show_queue_statistics(settings, queues, wanted)
    elif explain:
        _explain_entries(settings, islice(_entries(queues, wanted), 1 if count is None else count))
    else:
        _show_entries(settings, islice(_entries(queues, wanted), count))


def _records(log: Any, wanted: OffsetRange, topics: frozenset[str]) -> Iterator[tuple[Any, Any]]:
    """(place, message) of what is asked for, the body decompressed."""
    from codec.record import decode_record

    if wanted.only_new:
        return
    begin = log.last(wanted.last) if wanted.last is not None else wanted.begin or 0
    start = log.first_file_at(wanted.begin_time) if wanted.begin_time is not None else 0
    for place, data in log.records(from_offset=begin, from_file=start):
        if wanted.end is not None and place.offset >= wanted.end:
            return
        message = decode_record(data, place.position, decompress=True)
        if wanted.holds_time(message.store_timestamp) and (not topics or message.topic in topics):
            yield place, message


def _entries(queues: list[Any], wanted: OffsetRange) -> Iterator[tuple[Any, Any]]:
    for queue in queues:
        begin, end = wanted.offsets(*queue.files.bounds())
        for entry in queue.files.entries(begin, end):
            yield queue, entry


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
    from rmqcli.render.inspection import show_fields
    from rmqcli.store import explain_record

    for place, _ in found:
        show_fields(settings, place.file.path, place.position, explain_record(place.bytes()))


def _explain_entries(settings: Settings, found: Iterator[tuple[Any, Any]]) -> None:
    from rmqcli.render.inspection import show_fields
    from rmqcli.store import explain_entry

    for _, entry in found:
        show_fields(settings, entry.file.path, entry.position, explain_entry(entry))


def _show_log_statistics(settings: Settings, found: Iterator[tuple[Any, Any]]) -> None:
    from rmqcli.render.inspection import show_log_statistics
    from rmqcli.store import LogStatistics

    statistics = LogStatistics()
    for _, message in found:
        statistics.add(message)
    show_log_statistics(settings, statistics)


def _show_queue_statistics(settings: Settings, queues: list[Any], wanted: OffsetRange) -> None:
    from rmqcli.render.inspection import show_queue_statistics
    from rmqcli.store import QueueStatistics

    rows: list[tuple[Any, QueueStatistics]] = []
    for queue in queues:
        statistics = QueueStatistics()
        for _, entry in _entries([queue], wanted):
            statistics.add(entry)
        rows.append((queue, statistics))
    show_queue_statistics(settings, rows)


def _show_report(settings: Settings, report: Any, items: str) -> None:
    from rmqcli.render.inspection import show_report

    show_report(settings, report, items)
    if not report.sound:
        raise typer.Exit(ExitCode.CORRUPT)
