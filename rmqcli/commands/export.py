"""`rmq export`: messages to Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rmqcli.exit_codes import usage_error
from rmqcli.options import Settings, command, single_command
from rmqcli.running import now_ms, run_async

if TYPE_CHECKING:
    from rmqcli.export import ExportSummary, RowFilter
    from rmqcli.offset_range import OffsetRange

app = single_command()


@command(
    app,
    "export",
    example="rmq export --store /data/store --out orders/ --topic orders\nrmq export --topic orders -o @-1d --out orders/ --spark",
)
def export(
    settings: Settings,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Write to this new folder.")],
    store: Annotated[
        Path | None, typer.Option("--store", metavar="DIR", help="Read this store folder, without a broker.")
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC",
            help="This topic: of the cluster, or with --store of the folder.",
        ),
    ] = None,
    range_text: Annotated[
        str,
        typer.Option(
            "--offset", "-o", metavar="RANGE", help="Queue offsets or store times, as for `rmq pull`."
        ),
    ] = "start",
    spark: Annotated[
        bool, typer.Option("--spark", help="As a PySpark job; each task scans its own part.")
    ] = False,
    master: Annotated[
        str | None, typer.Option("--master", metavar="URL", help="Spark master. Default: local[*].")
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="Spark setting; may be repeated.")
    ] = None,
) -> None:
    """Write messages to Parquet files: every column of a message, the body as bytes.

    The same schema from a store folder and from a topic, with and without Spark. The source is never changed.
    """
    from rmqcli.offset_range import parse_range

    if store is None and topic is None:
        raise usage_error("say what to export: --store DIR, --topic TOPIC, or both")
    if not spark and (master or conf):
        raise usage_error("--master and --conf are for --spark")
    settings_of_spark = _pairs(conf or [])
    _require_packages(spark)
    wanted = parse_range(range_text, now_ms())
    if store is not None:
        rows = _row_filter(store, topic, wanted)
        summary = _export_store(settings, store, out, rows, spark, master, settings_of_spark)
    else:
        assert topic is not None
        summary = _export_topic(settings, topic, wanted, out, spark, master, settings_of_spark)
    _show(settings, summary)


def _pairs(conf: list[str]) -> dict[str, str]:
    wrong = next((item for item in conf if "=" not in item or item.startswith("=")), None)
    if wrong is not None:
        raise usage_error(f"--conf {wrong}: NAME=VALUE is expected")
    return dict(item.split("=", 1) for item in conf)


def _require_packages(spark: bool) -> None:
    from importlib.util import find_spec

    for package in ("numpy", "pyarrow", *(["pyspark"] if spark else [])):
        if find_spec(package) is None:
            extra = "spark" if spark else "export"
            raise usage_error(f"this needs {package}: pip install 'rmqcli[{extra}]'")


def _row_filter(store: Path, topic: str | None, wanted: OffsetRange) -> RowFilter:
    from rmqcli.export import RowFilter
    from rmqcli.store import queue_folders

    starts: dict[tuple[str, int], int] = {}
    if wanted.only_new or wanted.last is not None:
        for queue in queue_folders(store):
            if queue.topic is not None and queue.queue_id is not None and topic in (None, queue.topic):
                starts[queue.topic, queue.queue_id] = wanted.offsets(*queue.files.bounds())[0]
    return RowFilter(
        topics=frozenset([topic] if topic else []),
        begin=wanted.begin,
        end=wanted.end,
        begin_time=wanted.begin_time,
        end_time=wanted.end_time,
        starts=starts,
    )


def _export_store(
    settings: Settings,
    store: Path,
    out: Path,
    rows: RowFilter,
    spark: bool,
    master: str | None,
    conf: dict[str, str],
) -> ExportSummary:
    if spark:
        from rmqcli.export import export_store_on_spark

        return export_store_on_spark(store, out, rows, master=master, conf=conf, verbose=settings.verbose)
    from rmqcli.export import export_store
    from rmqcli.render.progress import progress
    from rmqcli.store import CommitLog

    with progress("export", sum(file.size for file in CommitLog(store).files)) as advance:
        return export_store(store, out, rows, advance)


def _export_topic(
    settings: Settings,
    topic: str,
    wanted: OffsetRange,
    out: Path,
    spark: bool,
    master: str | None,
    conf: dict[str, str],
) -> ExportSummary:
    from rmqcli.client import PullConsumer
    from rmqcli.export import QueueRange, export_topic, export_topic_on_spark
    from rmqcli.reading import choose_queues, spans, total
    from rmqcli.render.progress import progress

    async def main() -> tuple[list[QueueRange], ExportSummary | None]:
        async with PullConsumer(**settings.client_options) as consumer:
            found = await spans(consumer, await choose_queues(consumer, topic), wanted)
            ranges = [QueueRange(*span, wanted.begin_time, wanted.end_time) for span in found]
            if spark:
                return ranges, None
            with progress("export", total(found)) as advance:
                return ranges, await export_topic(consumer, ranges, out, advance)

    ranges, summary = run_async(main)
    if summary is not None:
        return summary
    return export_topic_on_spark(
        settings.namesrv, ranges, out, master=master, conf=conf, verbose=settings.verbose
    )


def _show(settings: Settings, summary: ExportSummary) -> None:
    from rmqcli.render import Output
    from rmqcli.render.text import duration, size, tsv_line

    out, files, rows, written, seconds = summary
    if settings.json:
        facts = {
            "out": str(out),
            "files": files,
            "rows": rows,
            "bytes": written,
            "seconds": round(seconds, 3),
        }
        Output().json(facts)
    elif settings.terminal:
        print(f"{out}: {files} files, {rows} rows, {size(written)} in {duration(seconds)}")
    else:
        Output().line(tsv_line([out, files, rows, written, round(seconds, 3)]))
    if not rows:
        from rmqcli.running import warn

        warn("no message was in the range")
