"""`rmq export --table`: one commit, or repeated ones, to one table or to one for each topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from rmqcli.cli.errors import Ended, is_interrupt
from rmqcli.cli.running import run_async
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.outcome import end_partly, partial_code, say_done
from rmqcli.commands.export.options import TableOptions
from rmqcli.commands.export.showing import remedy, show
from rmqcli.commands.export.writing import text_of, topics_of_cluster, working
from rmqcli.extras import require, silence
from rmqcli.render.output import Output, warn

if TYPE_CHECKING:
    from rmqcli.client import PullConsumer
    from rmqcli.export import ExportSummary, Layout, StoreRows
    from rmqcli.export.tables.quarantine import Quarantine
    from rmqcli.export.tables.run import TableRun
    from rmqcli.export.tables.table import Table
    from rmqcli.grammar.offset_range import OffsetRange


class Source(NamedTuple):
    """The rows to export: of store folders, by `jobs` processes, or of topics of the cluster, also patterns.

    `by_topic` are the rows of store folders for tables of their own.
    """

    topics: list[str]
    wanted: OffsetRange
    stores: list[StoreRows] | None
    jobs: int | None
    by_topic: Mapping[str, list[StoreRows]] | None = None

    @property
    def rest(self) -> Source:
        """The rows to add to a table that has the beginning of the range already."""
        from dataclasses import replace

        from rmqcli.grammar.offset_range import OffsetRange

        stores = self.stores and [
            one._replace(rows=replace(one.rows, begin=None, begin_time=None)) for one in self.stores
        ]
        return self._replace(wanted=OffsetRange(), stores=stores)

    def of(self, topic: str) -> Source:
        return self._replace(topics=[topic], stores=None if self.by_topic is None else self.by_topic[topic])


class _Work(NamedTuple):
    settings: Settings
    source: Source
    table: Table
    layout: Layout
    resume: bool
    quarantine: Quarantine | None


def export_to_table(
    settings: Settings, source: Source, options: TableOptions, layout: Layout, *, resume: bool
) -> None:
    """Add rows to each table in one commit. Report what was committed, even after Ctrl-C."""
    from rmqcli.export.tables.naming import PACKAGES, format_of, name_for, quarantine_of, table_of

    name, aside = options.table, options.quarantine
    assert name is not None
    by = "hour" if "hour" in layout.partition_by else "day"
    require("table", PACKAGES[format_of(name)])
    if aside is not None and aside.partition(":")[0] in PACKAGES:
        require("table", PACKAGES[format_of(aside, "--quarantine")])
    if not settings.verbose:
        silence()
    is_one = not options.is_for_each_topic
    told = _Told(settings, table_of(name, by).shown if is_one else name)
    try:
        if is_one:
            quarantine = None if aside is None else quarantine_of(aside)
            work = _Work(settings, source, table_of(name, by), layout, resume, quarantine)
            _export_to_one(work, told, options.period)
        else:

            def work_of(topic: str) -> _Work:
                quarantine = None if aside is None else quarantine_of(name_for(aside, topic))
                table = table_of(name_for(name, topic), by)
                return _Work(settings, source.of(topic), table, layout, resume, quarantine)

            _export_to_each(_Tables(settings, source, work_of, told), told, options.period)
    except BaseException as error:
        if is_interrupt(error):
            say_done(settings, error, [told.interrupted])
        raise


def _export_to_one(work: _Work, told: _Told, period: float | None) -> None:
    if period is not None:
        _follow(work, told, period)
    summary = _add(work, told)
    show(work.settings, summary)
    if summary.failed or summary.damaged or summary.lost:
        raise Ended(partial_code(done=True), summary=remedy(summary))


def _export_to_each(tables: _Tables, told: _Told, period: float | None) -> None:
    """Add rows to the tables, once or repeatedly. A table that fails does not stop the others."""
    from rmqcli.export.tables.run import feed

    if period is not None:
        feed(lambda _: tables.add_new(), lambda _: None, told.outage, every=period)
    tables.add()
    end_partly(tables.failed, done=True)
    if tables.incomplete:
        raise Ended(partial_code(done=True), summary=remedy(tables.incomplete[0]))


def _follow(work: _Work, told: _Told, every: float) -> NoReturn:
    from rmqcli.export.tables.run import feed

    rest = work._replace(source=work.source.rest, resume=True)
    feed(lambda goes_on: _add(rest if goes_on else work, told), told.add, told.outage, every=every)


class _Tables:
    """A table for each topic. They are added to one after the other, so memory is that of one export.

    `failed` are the errors of the last round by table, `incomplete` what it could not export as a whole.
    """

    def __init__(
        self, settings: Settings, source: Source, work_of: Callable[[str], _Work], told: _Told
    ) -> None:
        self.failed: dict[str, Exception] = {}
        self.incomplete: list[ExportSummary] = []
        self._settings = settings
        self._source = source
        self._work_of = work_of
        self._told = told
        self._first: set[str] | None = None
        self._begun: set[str] = set()

    def add_new(self) -> ExportSummary:
        """Add what is new, and report tables that failed. Raises the error of the first round if all failed."""
        from rmqcli.export import ExportSummary

        self.add()
        for name, error in self.failed.items():
            self._told.outage(error, name)
        return ExportSummary("", 0, 0, 0, 0.0)

    def add(self) -> None:
        """Add to each table. Raises the first error if the tables of the first round all failed."""
        self.failed, self.incomplete = {}, []
        topics = self._add_stores() if self._source.by_topic is not None else run_async(self._add_topics)
        if self._first is None:
            if topics and len(self.failed) == len(topics):
                raise next(iter(self.failed.values()))
            self._first = set(topics)

    def _add_stores(self) -> list[str]:
        topics = list(self._source.by_topic or ())
        for topic in topics:
            with self._attempt(topic) as work:
                self._tell(_add_stores(work, self._told))
        return topics

    async def _add_topics(self) -> list[str]:
        from rmqcli.client import PullConsumer

        async with PullConsumer(**self._settings.client_options) as consumer:
            topics = await topics_of_cluster(consumer, self._source.topics)
            for topic in topics:
                with self._attempt(topic) as work:
                    self._tell(await _add_new(consumer, work, self._told))
        return topics

    @contextmanager
    def _attempt(self, topic: str) -> Iterator[_Work]:
        """Yield what to add to the table of a topic, and note its error.

        For topics of the first round, the range begins as the user said, until their first commit.
        All messages of a topic that came later are new.
        """
        from rmqcli.client import ClientError
        from rmqcli.codec.errors import CodecError
        from rmqcli.export import ExportError
        from rmqcli.export.from_topic.batches import first_error

        work = self._work_of(topic)
        if topic in self._begun or not (self._first is None or topic in self._first):
            work = work._replace(source=work.source.rest)
        if topic in self._begun:
            work = work._replace(resume=True)
        self._told.begin(None)
        try:
            yield work
        except Exception as error:
            reason = first_error(error)
            if not isinstance(reason, (ClientError, CodecError, ExportError, OSError)):
                raise
            self.failed[work.table.shown] = reason
        finally:
            if self._told.may_have_committed:
                self._begun.add(topic)

    def _tell(self, summary: ExportSummary) -> None:
        if summary.failed or summary.damaged or summary.lost:
            self.incomplete.append(summary)
        self._told.add(summary)


class _Told:
    """The commits so far, and the outages already reported."""

    def __init__(self, settings: Settings, table: str) -> None:
        self._settings = settings
        self._table = table
        self._rows = 0
        self._run: TableRun | None = None
        self._outages: dict[str, str] = {}

    def begin(self, run: TableRun | None) -> None:
        self._rows += self._rows_of_run
        self._run = run

    @property
    def _rows_of_run(self) -> int:
        return sum(file.rows for file in (self._run and self._run.added) or ())

    @property
    def may_have_committed(self) -> bool:
        """True if the current run has committed, or if it is not known that it has not."""
        return self._run is not None and (self._run.is_in_doubt or self._run.added is not None)

    def add(self, summary: ExportSummary) -> None:
        for table in (self._table, summary.out):
            self._outages.pop(table, None)
        if summary.rows or summary.quarantined or summary.failed or summary.damaged or summary.lost:
            show(self._settings, summary)
            Output().flush()

    def outage(self, error: Exception, table: str | None = None) -> None:
        """Report an error, of one table among several if that is given, unless it is the same as before."""
        text = str(error)
        if text != self._outages.get(table or self._table):
            shown = "" if table is None or text.startswith(table) else f"{table}: "
            warn(f"{shown}{text}; trying again")
        self._outages[table or self._table] = text

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
    origin = stores_origin(stores)
    for run in attempts(work.table, origin, work.layout, resume=work.resume, quarantine=work.quarantine):
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
    for run in attempts(work.table, origin, work.layout, resume=work.resume, quarantine=work.quarantine):
        told.begin(run)
        with run:
            # Only after the offsets of the table are read: whatever others add from now on comes after the ranges.
            names = await topics_of_cluster(consumer, work.source.topics)
            ranges, lost = await find_ranges(consumer, names, work.source.wanted)
            with progress("export", sum(wanted.end - wanted.begin for wanted in ranges)) as advance:
                summary = await write_topic(consumer, ranges, run, advance)
            return summary._replace(failed=(*summary.failed, *lost))
    raise AssertionError("attempts end with a result or an error")
