"""`rmq inspect commitlog`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Annotated

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.row_options import Rows
from rmqcli.cli.running import now_ms
from rmqcli.cli.settings import Settings
from rmqcli.commands.inspect.app import (
    CountOption,
    JobsOption,
    PathArgument,
    VerifyOption,
    app,
    range_option,
    show_verified,
    verified_log,
    whole_only,
)
from rmqcli.commands.inspect.records import Selection, View, damage_report, show_records, show_statistics
from rmqcli.commands.inspect.similar_names import note_meant
from rmqcli.grammar.offset_range import parse_range

if TYPE_CHECKING:
    from rmqcli.store.read.commit_log import Found


@command(
    app,
    "commitlog",
    example="""rmq inspect commitlog store/commitlog/00000000000000000000 -o -5
rmq inspect commitlog store --verify""",
    rows=Rows.LIST,
    panels={"Checks": "--verify --jobs"},
)
def commitlog(
    settings: Settings,
    path: PathArgument,
    *,
    range_text: Annotated[str, range_option("Range of commit-log offsets or store times.")] = "start",
    count: CountOption = None,
    selection: Selection,
    where: Annotated[
        str | None,
        Option(
            "--where",
            metavar="EXPR",
            help="Select records by columns and properties (SQL92), e.g. 'store_size > 4096'.",
        ),
    ] = None,
    view: View,
    verify: VerifyOption = False,
    jobs: JobsOption = None,
) -> None:
    """List the records of a commit log.

    PATH is a file, its folder, or a store folder. -N selects the last N of the selected records. --where can
    use the properties of a record and the columns of an export: topic, queue_id, queue_offset,
    commit_log_offset, msg_id, offset_msg_id, tags, keys, born_timestamp, born_host, store_timestamp (ms),
    store_host, flag, sys_flag, reconsume_times, prepared_transaction_offset, store_size, body_crc, body_size.
    """
    from rmqcli.render.progress import progress
    from rmqcli.store import CommitLogFiles
    from rmqcli.store.read.commit_log import plain_bodies
    from rmqcli.store.read.files import data_size
    from rmqcli.store.read.log_records import log_records
    from rmqcli.store.stats.log_counts import count_chosen

    view.require_one(verify=verify)
    if verify:
        whole_only("record", offset=range_text, count=count, where=where, **selection.given())
    log = CommitLogFiles(path)
    note_meant(path, topics=selection.topics)
    if verify:
        show_verified(settings, verified_log(log, jobs), "record")
        return
    wanted = parse_range(range_text, now_ms())
    records = selection.filter(where)
    size = sum(map(data_size, log.files))
    with damage_report() as on_damage:
        with progress("inspect", size, quiet=settings.tty and not view.stats, sizes=True) as advance:
            found = log_records(log, wanted, records, advance)
            if view.stats:
                counts = count_chosen(log, wanted, records, count, advance, on_damage)
            elif view.is_given or settings.json:
                show_records(settings, found, view, count)
            else:
                _show_rows(settings, plain_bodies(islice(found, count), on_damage))
        if view.stats:
            show_statistics(settings, counts)


def _show_rows(settings: Settings, found: Iterable[Found]) -> None:
    from rmqcli.render.inspection import RECORD_COLUMNS, record_row, stream_rows

    stream_rows(settings, RECORD_COLUMNS, (record_row(message) for _, message in found), empty="no records")
