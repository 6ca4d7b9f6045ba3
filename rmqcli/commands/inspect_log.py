"""`rmq inspect commitlog PATH`: records without a broker. Nothing is written, nothing is locked."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

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
    app,
    range_option,
    show_verified,
    verified_log,
)
from rmqcli.commands._records import View, count_records, show_records, show_statistics
from rmqcli.grammar.offset_range import OffsetRange, parse_range
from rmqcli.options import FormatOption, Settings, TagOption, command
from rmqcli.running import now_ms

if TYPE_CHECKING:
    from rmqcli.store.log_filter import RecordFilter
    from rmqcli.store.log_reader import Found


@command(
    app,
    "commitlog",
    example="rmq inspect commitlog store/commitlog/00000000000000000000 -o -5\nrmq inspect commitlog store --verify",
)
def commitlog(
    settings: Settings,
    path: PathArgument,
    range_text: Annotated[str, range_option("Commit-log offsets or store times.")] = "start",
    count: CountOption = None,
    topics: TopicsOption = None,
    queue: QueueOption = None,
    key: KeyOption = None,
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
    from rmqcli.render.progress import progress
    from rmqcli.store import CommitLog
    from rmqcli.store.files import data_size
    from rmqcli.store.log_counts import Counted, count_log
    from rmqcli.store.log_filter import record_filter

    view = View(format_text, stats, explain)
    view.require_one(verify=verify)
    log = CommitLog(path)
    if verify:
        show_verified(settings, verified_log(log, jobs), "record")
        return
    wanted = parse_range(range_text, now_ms())
    asked = frozenset(topics or ())
    chosen = record_filter(key, tag, queue, where)
    size = sum(map(data_size, log.files))
    with progress("inspect", size, quiet=settings.terminal and not stats, sizes=True) as advance:
        if not stats:
            found = _records(log, wanted, asked, chosen, advance)
            if view.is_given or settings.json:
                show_records(settings, found, view, count)
            else:
                _show_rows(settings, islice(found, count))
            return
        if count is None and wanted.last is None and not wanted.only_new and chosen.only_queue:
            counts = count_log(log, Counted(wanted, asked, queue), advance)
        else:
            counts = count_records(islice(_records(log, wanted, asked, chosen, advance), count))
    show_statistics(settings, counts)


def _show_rows(settings: Settings, found: Iterator[Found]) -> None:
    from rmqcli.render.inspection import RECORD_COLUMNS, record_row, stream_rows

    stream_rows(settings, RECORD_COLUMNS, (record_row(message) for _, message in found))


def _records(
    log: Any,
    wanted: OffsetRange,
    topics: frozenset[str],
    chosen: RecordFilter,
    advance: Callable[[int], None],
) -> Iterator[Found]:
    """(place, message) of what is asked for, the body decompressed."""
    if chosen.is_open:
        return _records_of(log, wanted, topics, advance)
    last = wanted.last
    everything = _records_of(log, OffsetRange() if last else wanted, topics, advance)
    found = ((place, message) for place, message in everything if chosen.accepts(message))
    return iter(deque(found, last)) if last else found


def _records_of(
    log: Any, wanted: OffsetRange, topics: frozenset[str], advance: Callable[[int], None]
) -> Iterator[Found]:
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
        advance(place.size)
        try:
            message = decode_record(data, place.position, decompress=True)
        except CorruptionError as error:
            raise DamagedFile(place.file.path, CorruptionError(str(error), place.position)) from None
        if wanted.holds_time(message.store_timestamp) and (not topics or message.topic in topics):
            yield place, message
