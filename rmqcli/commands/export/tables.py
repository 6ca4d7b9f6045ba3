"""`rmq export --table`: one commit, or repeated ones."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from rmqcli.cli.errors import Ended, is_interrupt
from rmqcli.cli.running import run_async
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.outcome import partial_code, say_done
from rmqcli.commands.export.options import TableOptions
from rmqcli.commands.export.showing import remedy, show
from rmqcli.commands.export.writing import text_of, topics_of_cluster, working
from rmqcli.extras import require
from rmqcli.render.output import Output, warn

if TYPE_CHECKING:
    from rmqcli.client import PullConsumer
    from rmqcli.export import ExportSummary, Layout, StoreRows
    from rmqcli.export.tables.run import TableRun
    from rmqcli.export.tables.table import Table
    from rmqcli.grammar.offset_range import OffsetRange


class Source(NamedTuple):
    """The rows to export: of store folders, by `jobs` processes, or of topics of the cluster, also patterns."""

    topics: list[str]
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
    """Add rows to a table in one commit. Report what was committed, even after Ctrl-C."""
    from rmqcli.export.tables.naming import PACKAGES, format_of, table_of

    assert options.table is not None
    require("table", PACKAGES[format_of(options.table)])
    if not settings.verbose:
        _silence()
    work = _Work(settings, source, table_of(options.table), layout, resume)
    told = _Told(settings, work.table.shown)
    try:
        if options.period is not None:
            _follow(work, told, options.period)
        summary = _add(work, told)
        show(settings, summary)
    except BaseException as error:
        if is_interrupt(error):
            say_done(settings, error, [told.interrupted])
        raise
    if summary.failed or summary.damaged or summary.lost:
        raise Ended(partial_code(done=True), summary=remedy(summary))


def _silence() -> None:
    """Keep the libraries from writing to standard error: their exceptions contain everything that concerns
    the user.
    """
    logging.getLogger("pyiceberg").setLevel(logging.ERROR)
    os.environ.setdefault("RUST_LOG", "error")


def _follow(work: _Work, told: _Told, every: float) -> NoReturn:
    from dataclasses import replace

    from rmqcli.export.tables.run import feed
    from rmqcli.grammar.offset_range import OffsetRange

    # After the first commit, the table has the beginning of the range already.
    stores = work.source.stores and [
        one._replace(rows=replace(one.rows, begin=None, begin_time=None)) for one in work.source.stores
    ]
    rest = work._replace(source=work.source._replace(wanted=OffsetRange(), stores=stores), resume=True)
    feed(lambda goes_on: _add(rest if goes_on else work, told), told.add, told.outage, every=every)


class _Told:
    """The commits so far, and the outages already reported."""

    def __init__(self, settings: Settings, table: str) -> None:
        self._settings = settings
        self._table = table
        self._rows = 0
        self._run: TableRun | None = None
        self._outage = ""

    def begin(self, run: TableRun) -> None:
        self._rows += self._rows_of_run
        self._run = run

    @property
    def _rows_of_run(self) -> int:
        return sum(file.rows for file in (self._run and self._run.added) or ())

    def add(self, summary: ExportSummary) -> None:
        self._outage = ""
        if summary.rows or summary.failed or summary.damaged or summary.lost:
            show(self._settings, summary)
            Output().flush()

    def outage(self, error: Exception) -> None:
        if str(error) != self._outage:
            warn(f"{error}; trying again")
        self._outage = str(error)

    @property
    def interrupted(self) -> str:
        from rmqcli.render.text import many

        rows = self._rows + self._rows_of_run
        done = f"{many(rows, 'row')} committed" if rows else "nothing was committed"
        doubt = ", and it is unknown whether a last commit was" if self._run and self._run.is_in_doubt else ""
        return f"interrupted: {done}{doubt}; continue {self._table} with --resume"


def _add(work: _Work, told: _Told) -> ExportSummary:
    return _add_stores(work, told) if work.source.stores is not None else _add_topic(work, told)


def _add_stores(work: _Work, told: _Told) -> ExportSummary:
    from rmqcli.export.local import write_stores
    from rmqcli.export.run import stores_origin
    from rmqcli.export.tables.run import attempts

    stores = work.source.stores or []
    for run in attempts(work.table, stores_origin(stores), work.layout, resume=work.resume):
        told.begin(run)
        with run, working(stores, work.source.jobs) as (advance, workers):
            return write_stores(stores, run, advance, workers=workers)
    raise AssertionError("attempts end with a result or an error")


def _add_topic(work: _Work, told: _Told) -> ExportSummary:
    from rmqcli.client import PullConsumer

    async def main() -> ExportSummary:
        async with PullConsumer(**work.settings.client_options) as consumer:
            return await _add_new(consumer, work, told)

    return run_async(main)


async def _add_new(consumer: PullConsumer, work: _Work, told: _Told) -> ExportSummary:
    from rmqcli.export import find_ranges
    from rmqcli.export.local import write_topic
    from rmqcli.export.output.manifest import Origin
    from rmqcli.export.tables.run import attempts
    from rmqcli.render.progress import progress

    origin = Origin((), text_of(work.source.topics))
    for run in attempts(work.table, origin, work.layout, resume=work.resume):
        told.begin(run)
        with run:
            # Only after the offsets of the table are read: whatever others add from now on comes after the ranges.
            names = await topics_of_cluster(consumer, work.source.topics)
            ranges, lost = await find_ranges(consumer, names, work.source.wanted)
            with progress("export", sum(wanted.end - wanted.begin for wanted in ranges)) as advance:
                summary = await write_topic(consumer, ranges, run, advance)
            return summary._replace(failed=(*summary.failed, *lost))
    raise AssertionError("attempts end with a result or an error")
