"""`rmq export --table`: one commit, or one again and again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from rmqcli.cli.errors import Ended, is_interrupt
from rmqcli.cli.running import run_async
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.outcome import partial_code, say_done
from rmqcli.commands.export.options import TableOptions, require_packages
from rmqcli.commands.export.showing import remedy, show
from rmqcli.commands.export.working import working

if TYPE_CHECKING:
    from rmqcli.client import PullConsumer
    from rmqcli.export import ExportSummary, Layout, StoreRows
    from rmqcli.export.tables.table import Table
    from rmqcli.grammar.offset_range import OffsetRange


class Source(NamedTuple):
    """The rows to export: of store folders, by `jobs` processes, or of a topic of the cluster."""

    topic: str | None
    wanted: OffsetRange
    stores: list[StoreRows] | None
    jobs: int | None


class _Work(NamedTuple):
    settings: Settings
    source: Source
    table: Table
    layout: Layout
    resume: bool


def export_to_table(
    settings: Settings, source: Source, options: TableOptions, layout: Layout, *, resume: bool
) -> None:
    """Add rows to a table in one commit. Say what was committed, also after Ctrl-C."""
    from rmqcli.export.tables.naming import PACKAGES, format_of, table_of

    assert options.table is not None
    require_packages("table", PACKAGES[format_of(options.table)])
    if not settings.verbose:
        logging.getLogger("pyiceberg").setLevel(logging.ERROR)  # it warns of columns without statistics
    work = _Work(settings, source, table_of(options.table), layout, resume)
    told = _Told(settings, work.table.shown)
    try:
        summary = _add_stores(work) if source.stores is not None else _add_topic(work)
        told.add(summary)
    except BaseException as error:
        if is_interrupt(error):
            say_done(settings, error, [told.interrupted])
        raise
    if summary.failed or summary.damaged or summary.lost:
        raise Ended(partial_code(done=True), summary=remedy(summary))


class _Told:
    """The commits so far."""

    def __init__(self, settings: Settings, table: str) -> None:
        self._settings = settings
        self._table = table
        self._rows: list[int] = []

    def add(self, summary: ExportSummary) -> None:
        show(self._settings, summary)
        self._rows.append(summary.rows)

    @property
    def interrupted(self) -> str:
        from rmqcli.render.text import many

        done = f"{many(sum(self._rows), 'row')} committed" if self._rows else "nothing was committed"
        return f"interrupted: {done}; continue {self._table} with --resume"


def _add_stores(work: _Work) -> ExportSummary:
    from rmqcli.export.local import write_stores
    from rmqcli.export.run import stores_origin
    from rmqcli.export.tables.run import attempts

    stores = work.source.stores or []
    for run in attempts(work.table, stores_origin(stores), work.layout, resume=work.resume):
        with run, working(stores, work.source.jobs) as (advance, workers):
            return write_stores(stores, run, advance, workers=workers)
    raise AssertionError("attempts end with a result or an error")


def _add_topic(work: _Work) -> ExportSummary:
    from rmqcli.client import PullConsumer

    async def main() -> ExportSummary:
        async with PullConsumer(**work.settings.client_options) as consumer:
            return await _add_new(consumer, work)

    return run_async(main)


async def _add_new(consumer: PullConsumer, work: _Work) -> ExportSummary:
    from rmqcli.export import find_ranges
    from rmqcli.export.local import write_topic
    from rmqcli.export.run import topic_origin
    from rmqcli.export.tables.run import attempts
    from rmqcli.render.progress import progress

    assert work.source.topic is not None
    ranges, lost = await find_ranges(consumer, work.source.topic, work.source.wanted)
    count = sum(wanted.end - wanted.begin for wanted in ranges)
    for run in attempts(work.table, topic_origin(ranges), work.layout, resume=work.resume):
        with run, progress("export", count) as advance:
            summary = await write_topic(consumer, ranges, run, advance)
            return summary._replace(failed=(*summary.failed, *lost))
    raise AssertionError("attempts end with a result or an error")
