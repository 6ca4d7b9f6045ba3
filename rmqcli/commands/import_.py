"""`rmq import`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option

from rmqcli.cli.command import command, single_command
from rmqcli.cli.errors import exit_code_of
from rmqcli.cli.exit_codes import ExitCode, usage_error
from rmqcli.cli.running import run_async
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.outcome import partial_code
from rmqcli.render.output import warn

if TYPE_CHECKING:
    from rmqcli.import_.rows import ImportRow
    from rmqcli.import_.sending import Failure, ImportTally

app = single_command()

_CHOICES = ("keep", "hash", "round-robin")


@command(
    app,
    "import",
    example="""rmq import orders/ -T orders-copy
rmq import orders.jsonl -T orders --queues hash --rate 500
rmq import orders/ -T orders-copy --resume""",
)
def import_(
    settings: Settings,
    path: Annotated[
        Path,
        Argument(
            metavar="PATH", help="Parquet (.parquet) or JSON lines (.jsonl) file, or a folder of such files."
        ),
    ],
    topic: Annotated[str, Option("--topic", "-T", metavar="TOPIC", help="Topic to send to.")],
    queues: Annotated[
        str,
        Option(
            "--queues",
            metavar="HOW",
            help="Queue selection: keep (same queue ID), hash (of the first key) or round-robin.",
        ),
    ] = "keep",
    rate: Annotated[
        float | None, Option("--rate", metavar="N", min=0.001, help="Maximum messages per second.")
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Read all input and show what would be sent; send nothing.")
    ] = False,
    resume: Annotated[
        bool, Option("--resume", help="Continue a previous import, including its failed rows.")
    ] = False,
    progress_file: Annotated[
        Path | None,
        Option(
            "--progress",
            metavar="FILE",
            help="File that records what is sent.  [default: PATH.TOPIC.import, beside PATH]",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Import messages from Parquet files or JSON lines.

    Reads the output of `rmq export` and `rmq pull --json`. Body, keys, tags, properties, flag and message ID
    are kept; the original times become the properties ORIGINAL_BORN_TIMESTAMP and ORIGINAL_STORE_TIMESTAMP
    (epoch milliseconds). Rows of one queue are sent in order. If some rows fail, the others are sent and the
    exit code is 3; --resume retries the failed ones. After a kill, --resume may send again only the messages
    whose acknowledgements were pending.
    """
    _check(path, queues)
    from rmqcli.import_.progress import Progress
    from rmqcli.import_.rows import count_rows, import_files, read_rows
    from rmqcli.import_.sending import Importer, Router

    files = import_files(path)
    beside = path.resolve().with_name(f"{path.resolve().name}.{topic}.import")
    kept = None if dry_run and not resume else progress_file or beside
    done = Progress(kept, path, topic, resume=resume)

    def rows() -> Iterator[ImportRow]:
        for name, file in files:
            yield from read_rows(name, file, topic)

    async def main() -> tuple[ImportTally, float]:
        import trio

        from rmqcli.client import Producer
        from rmqcli.render.progress import progress

        async with Producer(**settings.producer_options) as producer:
            router = Router(await producer.message_queues(topic), queues)
            start = trio.current_time()
            with progress(f"import to {topic}", count_rows(files)) as advance:
                if dry_run:
                    tally = await Importer(None, router, done, advance=advance).run(rows())
                else:
                    with done:
                        importer = Importer(producer, router, done, rate=rate, advance=advance)
                        tally = await importer.run(rows())
            return tally, trio.current_time() - start

    tally, seconds = run_async(main)
    _show(settings, topic, tally, seconds, dry_run=dry_run)
    code = _report(tally, dry_run=dry_run)
    if code is not ExitCode.DONE:
        raise Exit(code)


def _check(path: Path, queues: str) -> None:
    from importlib.util import find_spec

    if queues not in _CHOICES:
        raise usage_error(f"--queues {queues}: expected keep, hash or round-robin")
    lines_only = path.suffix in (".jsonl", ".ndjson", ".json")
    if not lines_only and find_spec("pyarrow") is None:
        raise usage_error("package pyarrow is not installed: pip install 'rmqcli[export]'")


def _show(settings: Settings, topic: str, tally: ImportTally, seconds: float, *, dry_run: bool) -> None:
    from rmqcli.render import Output
    from rmqcli.render.text import duration, many, size, tsv_line

    if settings.json:
        Output().json(_as_json(topic, tally, seconds, dry_run=dry_run))
    elif settings.terminal:
        what = "would be imported" if dry_run else "imported"
        before = f", {tally.skipped:,} skipped" if tally.skipped else ""
        sent = f"{many(tally.sent, 'message')} {what} ({size(tally.size)})"
        print(f"{topic}: {sent}{before} in {duration(seconds)}")
    else:
        Output().line(
            tsv_line([topic, tally.sent, len(tally.failed), tally.skipped, tally.size, round(seconds, 3)])
        )


def _as_json(topic: str, tally: ImportTally, seconds: float, *, dry_run: bool) -> dict[str, object]:
    queues = [
        {"brokerName": queue.broker_name, "queueId": queue.queue_id, "messages": count}
        for queue, count in sorted(tally.queues.items())
    ]
    return {
        "topic": topic,
        "dryRun": dry_run,
        "sent": 0 if dry_run else tally.sent,
        "messages": tally.sent,
        "failed": len(tally.failed),
        "skipped": tally.skipped,
        "bytes": tally.size,
        "seconds": round(seconds, 3),
        "queues": queues,
    }


def _report(tally: ImportTally, *, dry_run: bool) -> ExitCode:
    from rmqcli.render.text import number_ranges

    if not tally.failed:
        return ExitCode.DONE
    reasons: dict[tuple[str, str], list[Failure]] = {}
    for failure in tally.failed:
        reasons.setdefault((failure.file, " ".join(str(failure.error).split())), []).append(failure)
    for (file, reason), failures in reasons.items():
        rows = number_ranges([failure.number + 1 for failure in failures])
        warn(f"not sent: {file}: row{'' if len(failures) == 1 else 's'} {rows}: {reason}")
    if tally.stopped:
        warn("stopped: no queue accepts messages; the remaining rows were not attempted")
    if not dry_run:
        warn(f"{tally.sent} sent, {len(tally.failed)} failed; --resume retries the failed rows")
    return partial_code(done=bool(tally.sent or tally.skipped), code=exit_code_of(tally.failed[0].error))
