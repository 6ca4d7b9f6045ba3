"""`rmq export`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from typer import Option

from rmqcli.cli.command import command, single_command
from rmqcli.cli.errors import Ended
from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.running import now_ms, run_async
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.outcome import partial_code
from rmqcli.commands.common.transforming import Transforming
from rmqcli.render.output import note, warn

if TYPE_CHECKING:
    from rmqcli.export import ExportSummary, Layout, QueueEnd, QueueRange, RowFilter, StoreRows, StoreSource
    from rmqcli.grammar.offset_range import OffsetRange
    from rmqcli.store import CommitLogFiles

app = single_command()

_MIN_PARALLEL_BYTES = 1 << 29  # size of the commit log from which several processes are faster than one


@command(
    app,
    "export",
    example="""rmq export --store /data/store --out orders/ --topic orders
rmq export --topic orders -o @-1d --out orders/ --spark
rmq export --topic orders --out orders/ --partition-by day --resume""",
)
def export(
    settings: Settings,
    out: Annotated[Path, Option("--out", metavar="DIR", help="Output folder; must not exist yet.")],
    transforming: Transforming,
    store: Annotated[
        list[str] | None,
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
        str | None,
        Option(
            "--topic", "-T", metavar="TOPIC", help="Topic to export, of the cluster or of the store folder."
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
    spark: Annotated[
        bool, Option("--spark", help="Run as a PySpark job; each task scans its own part.")
    ] = False,
    master: Annotated[
        str | None, Option("--master", metavar="URL", help="Spark master; default: local[*].")
    ] = None,
    conf: Annotated[
        list[str] | None, Option("--conf", metavar="NAME=VALUE", help="Spark setting; repeatable.")
    ] = None,
    partition_by: Annotated[
        list[str] | None,
        Option(
            "--partition-by",
            metavar="KEYS",
            help="Partition folders by topic, day (of the store time, UTC) or queue, e.g. topic,day; "
            "repeatable.",
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        Option("--columns", metavar="NAMES", help="Columns to write, e.g. msg_id,tags,body; repeatable."),
    ] = None,
    body_text: Annotated[
        bool,
        Option("--body-text", help="Add a column body_text: the body as text, or null if it is not UTF-8."),
    ] = False,
    compression: Annotated[
        str,
        Option("--compression", metavar="NAME", help="Compression: zstd, snappy, gzip, lz4, brotli or none."),
    ] = "zstd",
    file_size: Annotated[
        str, Option("--file-size", metavar="SIZE", help="Maximum size of a file before compression.")
    ] = "512M",
    row_group_size: Annotated[
        str,
        Option("--row-group-size", metavar="SIZE", help="Maximum size of a row group before compression."),
    ] = "64M",
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
) -> None:
    """Export messages to Parquet files.

    Every field of a message is a column; the body is bytes (decompressed). The schema is the same for a store
    folder and for a topic, with and without Spark. The source is never changed. _rmq/manifest.json under
    --out lists the files and the offset range of each queue; --resume continues exactly there, and a killed
    export leaves no partial file. A damaged store, or one with fewer records than its consume queues list,
    ends with exit code 8 and leaves nothing under --out; if it is one of several, it is left out, and the
    exit code is 3. `rmq inspect commitlog DIR --verify` lists all damage. With --store and --topic, only the
    records of the topic are read, through its consume queues, if the broker is running or was stopped
    cleanly; rolled-back records are left out. If a queue of a cluster cannot be read after several attempts,
    the others are exported and the exit code is 3.
    """
    from rmqcli.export import Layout, StoreRows, refuse_existing, store_path, store_sources
    from rmqcli.grammar.offset_range import parse_range
    from rmqcli.grammar.sizes import parse_size

    if not store and topic is None:
        raise usage_error("specify what to export: --store DIR, --topic TOPIC, or both")
    if not spark and (master or conf):
        raise usage_error("--master and --conf require --spark")
    if not store and (jobs is not None or queue is not None or tag != "*" or broker_name):
        raise usage_error("--jobs, --queue, --tag and --broker-name require --store")
    if spark and jobs is not None:
        raise usage_error("--jobs cannot be combined with --spark; use --master 'local[N]'")
    session = {"master": master, "conf": _pairs(conf or []), "verbose": settings.verbose}
    _require_packages(spark)
    wanted = parse_range(range_text, now_ms())
    if resume and wanted.last is not None:
        raise usage_error("--resume continues where the last export ended: -o cannot count from the end")
    layout = Layout(
        partition_by=_names("--partition-by", partition_by),
        file_bytes=parse_size("--file-size", file_size),
        row_group_bytes=parse_size("--row-group-size", row_group_size),
        compression=compression,
        columns=_names("--columns", columns) or None,
        body_text=body_text,
        transform=transforming.transform(),
    )
    layout.check()
    refuse_existing(out, resume=resume)
    target = _Target(out, layout, resume, session if spark else None)
    if store:
        sources = store_sources(list(map(store_path, store)), broker_name or ())
        filters = _row_filters(sources, topic, wanted, verify)
        rows = [replace(one, queue_id=queue, tags=_tags(tag)) for one in filters]
        stores = [StoreRows(source.path, one) for source, one in zip(sources, rows, strict=True)]
        summary = _export_stores(stores, target, jobs)
    else:
        assert topic is not None
        summary = _export_topic(settings, topic, wanted, target)
    _show(settings, summary)
    if summary.failed or summary.damaged:
        raise Ended(partial_code(done=True), summary=_remedy(summary))


class _Target(NamedTuple):
    """The output folder and its layout. `session`: the settings of the Spark session; None: without Spark."""

    out: Path
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


def _names(option: str, given: list[str] | None) -> tuple[str, ...]:
    found = tuple(name.strip() for text in given or [] for name in text.split(",") if name.strip())
    if given and not found:
        raise usage_error(f"{option} must not be empty")
    return found


def _tags(expression: str) -> frozenset[str]:
    from codec.errors import SelectorError
    from codec.selector import parse_tags

    try:
        return parse_tags(expression)
    except SelectorError as error:
        raise usage_error(f"--tag: {error}") from error


def _pairs(conf: list[str]) -> dict[str, str]:
    wrong = next((item for item in conf if "=" not in item or item.startswith("=")), None)
    if wrong is not None:
        raise usage_error(f"--conf {wrong}: expected NAME=VALUE")
    return dict(item.split("=", 1) for item in conf)


def _require_packages(spark: bool) -> None:
    from importlib.util import find_spec

    for package in ("numpy", "pyarrow", *(["pyspark"] if spark else [])):
        if find_spec(package) is None:
            extra = "spark" if spark else "export"
            raise usage_error(f"package {package} is not installed: pip install 'rmqcli[{extra}]'")


def _row_filters(
    sources: Sequence[StoreSource], topic: str | None, wanted: OffsetRange, verify: bool
) -> list[RowFilter]:
    from rmqcli.store import CommitLogFiles

    logs = [CommitLogFiles(source.path) for source in sources]
    if topic is not None:
        _require_topic([source.path for source in sources], topic)
    return [
        _row_filter(log, source, topic, wanted, verify) for log, source in zip(logs, sources, strict=True)
    ]


def _row_filter(
    log: CommitLogFiles, source: StoreSource, topic: str | None, wanted: OffsetRange, verify: bool
) -> RowFilter:
    from rmqcli.export import RowFilter
    from rmqcli.export.from_store.queue_check import has_topic

    nothing = wanted.only_new or wanted.last == 0 or (topic is not None and not has_topic(source.path, topic))
    last = None if wanted.last is None else log.last(wanted.last, topic and frozenset([topic]))
    return RowFilter(
        topics=frozenset([topic] if topic else []),
        broker_name=source.broker_name,
        begin=wanted.begin,
        end=0 if nothing else wanted.end,
        begin_time=wanted.begin_time,
        end_time=wanted.end_time,
        begin_commit_log=last or 0,
        check_crc=verify,
    )


def _require_topic(stores: Sequence[Path], topic: str) -> None:
    from rmqcli.export.from_store.queue_check import has_topic
    from rmqcli.store.read.tables import topics

    if not any(has_topic(store, topic) for store in stores):
        names = ", ".join(map(str, stores))
        text = f"topic {topic} not found in {names} (see `rmq inspect store {stores[0]}`)"
        known = {name: config for store in stores for name, config in topics(store).items()}
        raise CommandError(text, ExitCode.NOT_FOUND, missing=("topic", topic), known=known)


def _export_stores(stores: list[StoreRows], target: _Target, jobs: int | None) -> ExportSummary:
    from rmqcli.export import export_stores, export_stores_on_spark
    from rmqcli.render.progress import progress
    from rmqcli.store import CommitLogFiles
    from rmqcli.store.workers import Workers, usable_cores

    if target.session is not None:
        return export_stores_on_spark(stores, target.out, target.tasks_done, **target.options)
    size = sum(file.size for one in stores for file in CommitLogFiles(one.store).files)
    # One process keeps two cores busy: it scans while one of its threads compresses.
    jobs = jobs or (max(usable_cores() // 2, 1) if size >= _MIN_PARALLEL_BYTES else 1)
    with Workers(jobs) as workers, progress("export", size, sizes=True) as advance:
        options = {**target.options, "workers": workers if jobs > 1 else None}
        return export_stores(stores, target.out, advance, **options)


def _export_topic(settings: Settings, topic: str, wanted: OffsetRange, target: _Target) -> ExportSummary:
    from rmqcli.client import PullConsumer
    from rmqcli.export import export_topic, export_topic_on_spark, find_ranges
    from rmqcli.render.progress import progress

    async def main() -> tuple[list[QueueRange], list[QueueEnd], ExportSummary | None]:
        async with PullConsumer(**settings.client_options) as consumer:
            ranges, lost = await find_ranges(consumer, topic, wanted)
            if target.session is not None:
                return ranges, lost, None
            with progress("export", sum(wanted.end - wanted.begin for wanted in ranges)) as advance:
                found = await export_topic(consumer, ranges, target.out, advance, **target.options)
                return ranges, lost, found

    ranges, lost, summary = run_async(main)
    if summary is None:
        summary = export_topic_on_spark(
            settings.client_options, ranges, target.out, target.tasks_done, **target.options
        )
    return summary._replace(failed=(*summary.failed, *lost))


def _show(settings: Settings, summary: ExportSummary) -> None:
    from rmqcli.render import Output
    from rmqcli.render.text import duration, many, size, tsv_line

    out, files, rows, written, seconds, failed, damaged = summary
    if settings.json:
        facts = {
            "out": str(out),
            "files": files,
            "rows": rows,
            "bytes": written,
            "seconds": round(seconds, 3),
            "failed": [_failure(end) for end in failed],
            "damaged": [{"store": str(one.store), "reason": str(one.error)} for one in damaged],
        }
        Output().json(facts)
    elif settings.terminal:
        counts = f"{many(files, 'file')}, {many(rows, 'row')}, {size(written)}"
        note(f"{out}: {counts} in {duration(seconds)}")
    else:
        Output().line(tsv_line([out, files, rows, written, round(seconds, 3)]))
    for end in failed:
        warn(f"queue {end.wanted.queue}: exported up to offset {end.reached}: {end.error}")
    for one in damaged:
        warn(f"{one.store}: nothing exported: {one.error}")
    if failed or damaged:
        warn(_remedy(summary))
    elif not rows:
        warn("no messages in this range")


def _remedy(summary: ExportSummary) -> str:
    if summary.failed:
        return "the export is incomplete; --resume continues where each queue ended"
    return "the export is incomplete; --resume adds a store that has been repaired (`rmq inspect salvage`)"


def _failure(end: QueueEnd) -> dict[str, object]:
    queue = end.wanted.queue
    return {
        "brokerName": queue.broker_name,
        "queueId": queue.queue_id,
        "queueOffset": end.reached,
        "reason": str(end.error),
    }
