"""`rmq export`: the options, and Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from typer import Option

from rmqcli.cli.command import command, single_command
from rmqcli.cli.errors import Ended
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.running import now_ms, run_async
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import warn_of_clocks
from rmqcli.commands.common.outcome import partial_code
from rmqcli.commands.export.options import LayoutOptions, SparkOptions, TableOptions, Transforming
from rmqcli.commands.export.showing import remedy, show
from rmqcli.commands.export.tables import Source, export_to_table
from rmqcli.commands.export.writing import (
    Selection,
    is_pattern,
    rows_of_stores,
    text_of,
    topics_of_cluster,
    topics_of_stores,
    working,
)
from rmqcli.extras import require

if TYPE_CHECKING:
    from rmqcli.export import ExportSummary, Layout, QueueEnd, QueueRange, StoreRows
    from rmqcli.export.output.storage import Location
    from rmqcli.grammar.offset_range import OffsetRange

app = single_command()


@command(
    app,
    "export",
    example="""rmq export --store /data/store --out orders/ --topic orders
rmq export --topic orders -o @-1d --out orders/ --spark
rmq export --topic 'order*' --topic payments --out lake/
rmq export --topic orders --table delta:s3://lake/orders --follow --every 60
rmq export --topic '*' --table 'delta:s3://lake/{topic}' --follow
rmq export --topic orders --out orders/ --partition-by day --resume""",
    panels={
        "Selection": "--queue --tag --verify",
        "Content": "--decode --schema --registry --registry-auth --on-error --sample --mask --mask-key-file",
        "Tables": "--table --quarantine --follow --every",
        "Spark": "--spark --master --conf",
        "Layout": "--partition-by --columns --body-text --compression --file-size --row-group-size "
        "--sort --bloom-filter",
        "Work": "--jobs --resume",
    },
)
def export(
    settings: Settings,
    out: Annotated[
        str | None,
        Option(
            "--out",
            metavar="DIR",
            help="Output folder; must not exist yet. Also a URI: s3://BUCKET/DIR, gs://, abfss:// or hdfs://.",
        ),
    ] = None,
    store: Annotated[
        list[Path] | None,
        Option(
            "--store",
            metavar="DIR",
            help="Read a store folder instead of a cluster; repeatable, for the stores of several brokers.",
        ),
    ] = None,
    broker_name: Annotated[
        list[str] | None,
        Option(
            "--broker-name",
            metavar="NAME",
            help="With --store: the broker that wrote it, for each --store in order. Default: what broker.conf in "
            "or beside the folder, or the broker's own topic says.",
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        Option(
            "--topic",
            "-T",
            metavar="TOPIC",
            help="Topic to export, or a pattern such as 'order*'; repeatable.",
        ),
    ] = None,
    range_text: Annotated[
        str,
        Option(
            "--offset",
            "-o",
            metavar="RANGE",
            help="Range of queue offsets or store times: `rmq help ranges`.",
        ),
    ] = "start",
    queue: Annotated[
        int | None,
        Option(
            "--queue", "-q", metavar="N", min=0, help="With --store: export only this queue of each topic."
        ),
    ] = None,
    tag: Annotated[
        str,
        Option("--tag", "-t", metavar="EXPR", help="With --store: select messages by tag, e.g. 'A || B'."),
    ] = "*",
    verify: Annotated[
        bool, Option("--verify/--no-verify", help="With --store: check the CRC of every body.")
    ] = True,
    jobs: Annotated[
        int | None,
        Option(
            "--jobs",
            "-j",
            metavar="N",
            min=1,
            help="With --store: number of writing processes; "
            "default: one per two cores if the store is large.",
        ),
    ] = None,
    resume: Annotated[
        bool, Option("--resume", help="Add new messages to a previous export, or finish one that was killed.")
    ] = False,
    *,
    transforming: Transforming,
    spark: SparkOptions,
    layout: LayoutOptions,
    table: TableOptions,
) -> None:
    """Export messages to Parquet files, or to a table of Delta Lake or Iceberg.

    Every field of a message is a column; the body is bytes (decompressed). The schema is the same for a store
    folder and for a topic, with and without Spark. The source is never changed. manifest.json in the folder
    _DIR.rmq beside --out lists the files and the offset range of each queue; --resume continues exactly
    there, and a killed export leaves no partial file. A damaged store, or one with fewer records than its
    consume queues list, ends with exit code 8 and leaves nothing under --out; if it is one of several, it is
    skipped, and the exit code is 3. `rmq inspect commitlog DIR --verify` lists all damage. With --store and
    --topic, only the records of the topic are read, through its consume queues, if the broker is running or
    was stopped cleanly; rolled-back records are skipped. If a queue of a cluster cannot be read after several
    attempts, the others are exported and the exit code is 3.

    With --table, a run is one commit, which also holds the offsets where --resume continues; the table is
    partitioned by day and topic. If retention deleted messages after those offsets, the exit code is 3.
    --follow makes it a change feed, until Ctrl-C. Needs the extra table.
    """
    from rmqcli.export import refuse_existing
    from rmqcli.export.output.storage import location
    from rmqcli.grammar.offset_range import parse_range

    topics = topic or []
    if not store and not topics:
        raise usage_error("specify what to export: --store DIR, --topic TOPIC, or both")
    spark.check()
    place = None if out is None else location("--out", out)
    if not store and (jobs is not None or queue is not None or tag != "*" or broker_name):
        raise usage_error("--jobs, --queue, --tag and --broker-name require --store")
    if spark.spark and jobs is not None:
        raise usage_error("--jobs cannot be combined with --spark; use --master 'local[N]'")
    table.check(out, topics, layout.partitions, spark=spark.spark)
    session = spark.session(verbose=settings.verbose)
    require(*(["spark", "numpy", "pyarrow", "pyspark"] if spark.spark else ["export", "numpy", "pyarrow"]))
    jobs = transforming.jobs(jobs, store, spark=spark.spark, again=resume and out is not None)
    wanted = parse_range(range_text, now_ms())
    warn_of_clocks(settings, None if store else range_text)
    if resume and wanted.last is not None:
        raise usage_error("--resume continues where the last export ended: -o cannot count from the end")
    if table.follow and (wanted.last, wanted.end, wanted.end_time) != (None, None, None):
        raise usage_error(f"--follow has no end: -o {range_text} has one")
    if table.follow and store and wanted.only_new:
        raise usage_error("--follow of a store begins at an offset or a time, not at the end")
    files = layout.layout(transforming.transform(quarantine=table.quarantine is not None))
    if place is not None:
        refuse_existing(place, resume=resume)
    if table.follow and store and any(map(is_pattern, topics)):
        raise usage_error("--follow of a store needs the names of topics: a pattern would miss new ones")
    chosen = Selection(topics, wanted, queue, tag, verify, only_queued=table.table is not None)
    rows = rows_of_stores(store, broker_name or (), chosen) if store else None
    if table.table is not None:
        own = _rows_by_topic(store, broker_name or (), chosen) if store and table.is_for_each_topic else None
        export_to_table(settings, Source(topics, wanted, rows, jobs, own), table, files, resume=resume)
        return
    assert place is not None
    target = _Target(place, files, resume, session)
    if rows is not None:
        summary = _export_stores(rows, target, jobs)
    else:
        summary = _export_topics(settings, topics, wanted, target)
    show(settings, summary)
    if summary.failed or summary.damaged:
        raise Ended(partial_code(done=True), summary=remedy(summary))


def _rows_by_topic(stores: list[Path], names: Sequence[str], chosen: Selection) -> dict[str, list[StoreRows]]:
    topics = topics_of_stores(stores, chosen.topics)
    return {topic: rows_of_stores(stores, names, chosen._replace(topics=[topic])) for topic in topics}


class _Target(NamedTuple):
    """The output folder and its layout. `session`: the settings of the Spark session; None: without Spark."""

    out: Location
    layout: Layout
    resume: bool
    session: Mapping[str, Any] | None

    @property
    def options(self) -> dict[str, Any]:
        return {"layout": self.layout, "resume": self.resume, **(self.session or {})}

    def tasks_done(self, tasks: int) -> AbstractContextManager[Callable[[int], None]]:
        """Return a progress bar; with `-v`, Spark shows its own."""
        from rmqcli.render.progress import progress

        return progress("export", tasks, quiet=bool(self.session and self.session["verbose"]))


def _export_stores(stores: list[StoreRows], target: _Target, jobs: int | None) -> ExportSummary:
    from rmqcli.export import export_stores, export_stores_on_spark

    if target.session is not None:
        return export_stores_on_spark(stores, target.out, target.tasks_done, **target.options)
    with working(stores, jobs) as (advance, workers):
        return export_stores(stores, target.out, advance, workers=workers, **target.options)


def _export_topics(
    settings: Settings, topics: list[str], wanted: OffsetRange, target: _Target
) -> ExportSummary:
    from rmqcli.client import PullConsumer
    from rmqcli.export import export_topic, export_topic_on_spark, find_ranges
    from rmqcli.render.progress import progress

    asked = text_of(topics)

    async def main() -> tuple[list[QueueRange], list[QueueEnd], ExportSummary | None]:
        async with PullConsumer(**settings.client_options) as consumer:
            ranges, lost = await find_ranges(consumer, await topics_of_cluster(consumer, topics), wanted)
            if target.session is not None:
                return ranges, lost, None
            with progress("export", sum(wanted.end - wanted.begin for wanted in ranges)) as advance:
                found = await export_topic(
                    consumer, ranges, target.out, advance, asked=asked, **target.options
                )
                return ranges, lost, found

    ranges, lost, summary = run_async(main)
    if summary is None:
        summary = export_topic_on_spark(
            settings.client_options, ranges, target.out, target.tasks_done, asked=asked, **target.options
        )
    return summary._replace(failed=(*summary.failed, *lost))
