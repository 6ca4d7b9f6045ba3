"""`rmq export`: messages to Parquet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqcli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.options import Settings, command, single_command
from rmqcli.running import now_ms, run_async

if TYPE_CHECKING:
    from rmqcli.client import PullConsumer
    from rmqcli.export import ExportSummary, QueueRange, RowFilter
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
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="With --store: check the CRC of every body.")
    ] = True,
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
    """Write messages to Parquet files.

    Every field of a message is a column, the body is bytes (decompressed). The schema is the same from a store folder and
    from a topic, with and without Spark. The source is never changed. A damaged store is exit 8, and nothing is left under
    --out; `rmq inspect commitlog DIR --verify` lists all damage.
    """
    from rmqcli.export import refuse_existing
    from rmqcli.offset_range import parse_range

    if store is None and topic is None:
        raise usage_error("say what to export: --store DIR, --topic TOPIC, or both")
    if not spark and (master or conf):
        raise usage_error("--master and --conf are for --spark")
    session = {"master": master, "conf": _pairs(conf or []), "verbose": settings.verbose}
    _require_packages(spark)
    wanted = parse_range(range_text, now_ms())
    refuse_existing(out)
    if store is not None:
        rows = _row_filter(store, topic, wanted, verify)
        summary = _export_store(store, out, rows, session if spark else None)
    else:
        assert topic is not None
        summary = _export_topic(settings, topic, wanted, out, session if spark else None)
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


def _row_filter(store: Path, topic: str | None, wanted: OffsetRange, verify: bool) -> RowFilter:
    from rmqcli.export import RowFilter
    from rmqcli.store import CommitLog

    log = CommitLog(store)
    if topic is not None:
        _require_topic(store, topic)
    last = None if wanted.last is None else log.last(wanted.last, topic and frozenset([topic]))
    return RowFilter(
        topic=topic,
        begin=wanted.begin,
        end=0 if wanted.only_new or wanted.last == 0 else wanted.end,
        begin_time=wanted.begin_time,
        end_time=wanted.end_time,
        begin_commit_log=last or 0,
        check_crc=verify,
    )


def _require_topic(store: Path, topic: str) -> None:
    """Without consume queues (a commit log folder alone) nobody knows the topics before everything is read."""
    queues = store / "consumequeue"
    if queues.is_dir() and not (queues / topic).is_dir():
        raise CommandError(
            f"{store} has no topic {topic} (`rmq inspect consumequeue {store} --stats` lists them)",
            ExitCode.NOT_FOUND,
        )


def _export_store(
    store: Path, out: Path, rows: RowFilter, session: Mapping[str, Any] | None
) -> ExportSummary:
    if session is not None:
        from rmqcli.export import export_store_on_spark

        return export_store_on_spark(store, out, rows, **session)
    from rmqcli.export import export_store
    from rmqcli.render.progress import progress
    from rmqcli.store import CommitLog

    with progress("export", sum(file.size for file in CommitLog(store).files), sizes=True) as advance:
        return export_store(store, out, rows, advance)


def _export_topic(
    settings: Settings, topic: str, wanted: OffsetRange, out: Path, session: Mapping[str, Any] | None
) -> ExportSummary:
    from rmqcli.client import PullConsumer
    from rmqcli.export import export_topic, export_topic_on_spark
    from rmqcli.render.progress import progress

    async def main() -> tuple[list[QueueRange], ExportSummary | None]:
        async with PullConsumer(**settings.client_options) as consumer:
            ranges = await _ranges(consumer, topic, wanted)
            if session is not None:
                return ranges, None
            with progress("export", sum(wanted.end - wanted.begin for wanted in ranges)) as advance:
                return ranges, await export_topic(consumer, ranges, out, advance)

    ranges, summary = run_async(main)
    if summary is not None:
        return summary
    return export_topic_on_spark(settings.client_options, ranges, out, **(session or {}))


async def _ranges(consumer: PullConsumer, topic: str, wanted: OffsetRange) -> list[QueueRange]:
    from rmqcli.export import QueueRange
    from rmqcli.reading import choose_queues, open_range, spans

    found = await spans(consumer, await choose_queues(consumer, topic), wanted)
    ranges = [QueueRange(*span, wanted.begin_time, wanted.end_time) for span in found]
    if wanted.last is None or len(found) == 1:
        return ranges
    # The last N of all queues together, as `rmq pull` reads them: it takes the messages to know which these are.
    starts: dict[tuple[str, int], int] = {}
    async with open_range(consumer, found, wanted) as messages:
        async for message in messages:
            starts.setdefault((message.broker_name, message.queue_id), message.queue_offset)
    return [
        wanted._replace(begin=starts.get((wanted.queue.broker_name, wanted.queue.queue_id), wanted.end))
        for wanted in ranges
    ]


def _show(settings: Settings, summary: ExportSummary) -> None:
    from rmqcli.render import Output
    from rmqcli.render.text import duration, many, size, tsv_line

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
        counts = f"{many(files, 'file')}, {many(rows, 'row')}, {size(written)}"
        print(f"{out}: {counts} in {duration(seconds)}")
    else:
        Output().line(tsv_line([out, files, rows, written, round(seconds, 3)]))
    if not rows:
        from rmqcli.running import warn

        warn("no message was in the range")
