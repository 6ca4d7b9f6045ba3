"""`rmq import`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from rmqcli.cli.command import command, single_command
from rmqcli.cli.errors import Ended, exit_code_of
from rmqcli.cli.exit_codes import ExitCode, usage_error
from rmqcli.cli.options import ColumnsWhereOption, RateOption
from rmqcli.cli.running import run_async
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.outcome import partial_code, say_done
from rmqcli.extras import require, silence
from rmqcli.render.output import note, warn

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
rmq import orders/ -T paid --where "tags = 'paid' AND price > 100"
rmq import orders/ -T orders-copy --resume
rmq import s3://lake/orders -T orders-copy
rmq import delta:s3://lake/orders -T orders-copy""",
)
def import_(
    settings: Settings,
    path: Annotated[
        str,
        Argument(
            metavar="PATH",
            help="Parquet (.parquet) or JSON lines (.jsonl) file, a folder of them or of a Delta table, here or in a "
            "storage (s3://…), or a table (delta:URI, iceberg:CATALOG.NAMESPACE.NAME).",
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
    where: ColumnsWhereOption = None,
    rate: RateOption = None,
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
            help="File that records what is sent.  [default: PATH.TOPIC.import, beside PATH; of a storage, here]",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Import messages from Parquet files, JSON lines or tables.

    Reads the output of `rmq export` and `rmq pull --json`; of a table, the rows of its current version, for
    which it needs the extra table. Body, keys, tags, properties, flag and message ID are kept; the original
    times become the properties ORIGINAL_BORN_TIMESTAMP and ORIGINAL_STORE_TIMESTAMP (epoch milliseconds).
    Rows of one queue are sent in order. If some rows fail, the others are sent and the exit code is 3;
    --resume retries the failed ones. Rows whose broker did not respond may be stored: the exit code is 7, and
    --resume sends them again. After a kill, --resume may send again only the messages whose acknowledgements
    were pending.
    """
    _check(settings, path, queues)
    from rmqcli.import_.progress import Progress
    from rmqcli.import_.rows import count_rows, row_test
    from rmqcli.import_.sending import Importer, Router
    from rmqcli.import_.sources import read_rows, source_of

    chosen = {} if where is None else {"test": row_test(where)}
    source = source_of(path)
    beside = source.beside.with_name(f"{source.beside.name}.{topic}.import")
    kept = None if dry_run and not resume else progress_file or beside
    done = Progress(kept, source.name, topic, resume=resume, listed=source.listed)

    def rows() -> Iterator[ImportRow]:
        for file in source.files:
            yield from read_rows(file, topic)

    async def main() -> tuple[ImportTally, float]:
        import trio

        from rmqcli.client import Producer
        from rmqcli.render.progress import progress

        async with Producer(**settings.producer_options) as producer:
            router = Router(await producer.message_queues(topic), queues)
            start = trio.current_time()
            with progress(f"import to {topic}", count_rows(source.files)) as advance:
                target = None if dry_run else producer
                importer = Importer(target, router, done, rate=rate, advance=advance, **chosen)
                try:
                    with nullcontext() if dry_run else done:
                        tally = await importer.run(rows())
                except BaseException as error:
                    if importer.tally.is_begun and not dry_run:
                        line = f"interrupted: {_counts(importer.tally)}; continue with --resume"
                        say_done(settings, error, [line])
                    raise
            return tally, trio.current_time() - start

    tally, seconds = run_async(main)
    _show(settings, topic, tally, seconds, dry_run=dry_run)
    code = _report(tally, dry_run=dry_run)
    if code is not ExitCode.DONE:
        raise Ended(code, summary=_counts(tally))


def _check(settings: Settings, path: str, queues: str) -> None:
    if queues not in _CHOICES:
        raise usage_error(f"--queues {queues}: expected keep, hash or round-robin")
    from rmqcli.import_.rows import LINES

    if "://" in path or not path.endswith(LINES):
        require("export", "pyarrow")
    if not settings.verbose:
        silence()


def _show(settings: Settings, topic: str, tally: ImportTally, seconds: float, *, dry_run: bool) -> None:
    from rmqcli.render import Output
    from rmqcli.render.text import duration, many, size, tsv_line

    if settings.json:
        Output().json(_as_json(topic, tally, seconds, dry_run=dry_run))
    elif settings.terminal:
        what = "would be imported" if dry_run else "imported"
        before = f", {tally.skipped:,} skipped" if tally.skipped else ""
        before += f", {tally.filtered:,} filtered" if tally.filtered else ""
        sent = f"{many(tally.sent, 'message')} {what} ({size(tally.size)})"
        note(f"{topic}: {sent}{before} in {duration(seconds)}")
    else:
        Output().line(
            tsv_line(
                [
                    *(topic, tally.sent, len(tally.failed), tally.skipped, tally.size, round(seconds, 3)),
                    len(tally.unknown),
                ]
            )
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
        "unknown": len(tally.unknown),
        "skipped": tally.skipped,
        "filtered": tally.filtered,
        "bytes": tally.size,
        "seconds": round(seconds, 3),
        "queues": queues,
    }


def _report(tally: ImportTally, *, dry_run: bool) -> ExitCode:
    _name_rows("not sent", tally.failed)
    _name_rows("outcome unknown", tally.unknown)
    if tally.stopped:
        warn("stopped: no queue accepts messages; the remaining rows were not attempted")
    if not (tally.failed or tally.unknown):
        return ExitCode.DONE
    if not dry_run:
        twice = "; those of unknown outcome may be stored twice then" if tally.unknown else ""
        unsent = "rows" if tally.unknown else "failed rows"
        warn(f"{_counts(tally)}; --resume retries the {unsent}{twice}")
    if tally.unknown:
        return ExitCode.TIMED_OUT
    return partial_code(done=bool(tally.sent or tally.skipped), code=exit_code_of(tally.failed[0].error))


def _counts(tally: ImportTally) -> str:
    unknown = f", {len(tally.unknown)} unknown" if tally.unknown else ""
    return f"{tally.sent} sent, {len(tally.failed)} failed{unknown}"


def _name_rows(words: str, rows: Sequence[Failure]) -> None:
    from rmqcli.render.text import number_ranges

    reasons: dict[tuple[str, str], list[Failure]] = {}
    for failure in rows:
        reasons.setdefault((failure.file, " ".join(str(failure.error).split())), []).append(failure)
    for (file, reason), failures in reasons.items():
        numbers = number_ranges([failure.number + 1 for failure in failures])
        warn(f"{words}: {file}: row{'' if len(failures) == 1 else 's'} {numbers}: {reason}")
