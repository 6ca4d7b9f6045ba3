"""`rmq bench`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from rmqcli.cli.command import command, command_group
from rmqcli.cli.errors import is_interrupt
from rmqcli.cli.exit_codes import CommandError, usage_error
from rmqcli.cli.options import Masters, OptionGroup
from rmqcli.cli.row_options import Rows
from rmqcli.cli.running import run_until_terminated
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.outcome import Failures, end_partly, report_failures, say_done
from rmqcli.extras import require
from rmqcli.render.output import Output, note
from rmqcli.render.text import many

if TYPE_CHECKING:
    from rmqcli.bench.histogram import Difference
    from rmqcli.bench.measure import Place
    from rmqcli.bench.running import Load, Tally

app = command_group("bench", "Measure sends, pulls and round trips at a fixed rate.")

SECONDS = 10.0
MAX_SIZE = 4 * 1024 * 1024

RateOption = Annotated[
    float, Option("--rate", metavar="N", min=0.01, max=1e6, help="Operations that become due per second.")
]
SecondsOption = Annotated[
    float | None,
    Option(
        "--seconds",
        metavar="SECONDS",
        min=0.01,
        show_default=False,
        help="Start no operation after this time; default: 10, or no limit with --count.",
    ),
]
CountOption = Annotated[
    int | None, Option("--count", "-c", metavar="N", min=1, help="Stop after N operations.")
]
SizeOption = Annotated[
    int, Option("--size", metavar="BYTES", min=1, max=MAX_SIZE, help="Size of each message.")
]
InFlightOption = Annotated[
    int, Option("--in-flight", metavar="N", min=1, max=10_000, help="Maximum operations at a time.")
]
TopicOption = Annotated[
    str | None,
    Option("--topic", "-T", metavar="TOPIC", help="Use TOPIC; default: a new one, removed at the end."),
]
CompareOption = Annotated[
    Path | None,
    Option("--compare", metavar="FILE", help="Compare with an earlier output of --json."),
]
ToleranceOption = Annotated[
    float, Option("--tolerance", metavar="PERCENT", min=0, help="How much worse a figure may be.")
]


@dataclass(frozen=True, slots=True)
class BenchOptions(OptionGroup):
    """The load, and the use of its result."""

    rate: RateOption = 1000.0
    seconds: SecondsOption = None
    count: CountOption = None
    size: SizeOption = 128
    in_flight: InFlightOption = 64
    topic: TopicOption = None
    compare: CompareOption = None
    tolerance: ToleranceOption = 10.0


PROGRESS_S = 0.2
"""Seconds between two updates of the progress bar."""


def run_bench(settings: Settings, kind: str, options: BenchOptions, masters: Masters) -> None:
    """Run a benchmark and show the result. End with exit code 1 if it is worse than the earlier result, or as
    `end_partly` does if operations failed.
    """
    require("bench", "hdrh")
    from rmqcli.bench.histogram import compare
    from rmqcli.bench.measure import Place, document

    load, place = _load(options), Place(options.topic, **masters.named)
    old = None if options.compare is None else _earlier(options.compare, {"bench": kind, **load.document()})
    tally = _measured(settings, kind, place, load)
    found = document(kind, place, load, tally)
    differences = None if old is None else compare(old, found, options.tolerance)
    _show(settings, found, tally, differences)
    _end(tally, place, differences)


def _load(options: BenchOptions) -> Load:
    from rmqcli.bench.running import Load, Pace

    seconds = SECONDS if options.seconds is None and options.count is None else options.seconds
    return Load(Pace(options.rate, options.count, seconds), options.in_flight, options.size)


def _measured(settings: Settings, kind: str, place: Place, load: Load) -> Tally:
    from rmqcli.bench.running import Tally

    tally, found = Tally(), []

    async def main() -> None:
        from rmqcli.bench.measure import measure
        from rmqcli.client import Admin
        from rmqcli.render.progress import progress

        async with Admin(**settings.client_options) as admin:
            with progress(f"bench {kind}", load.pace.total, quiet=settings.json) as advance:
                admin.instance.start(lambda: _show_progress(tally, advance), name="progress")
                found.append(await measure(admin, kind, place, load, tally))

    try:
        run_until_terminated(main)
    except BaseException as error:
        if is_interrupt(error):
            failed = sum(tally.failed.values())
            line = f"interrupted: {many(tally.done, 'operation')} done, {failed} failed; there is no result"
            say_done(settings, error, [line])
        raise
    finally:
        if not found:
            report_failures(place.troubles)
    return found[0]


async def _show_progress(tally: Tally, advance: Callable[[int], None]) -> None:
    import trio

    shown = 0
    while True:
        await trio.sleep(PROGRESS_S)
        now = tally.done + sum(tally.failed.values())
        advance(now - shown)
        shown = now


def _earlier(path: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a file. Raise a usage error if it cannot be compared with the present benchmark."""
    import msgspec

    from rmqcli.bench.histogram import NotComparable, check_load

    try:
        return check_load(msgspec.json.decode(path.read_bytes()), wanted)
    except msgspec.DecodeError as error:
        raise usage_error(f"--compare {path}: no JSON ({error})") from None
    except NotComparable as error:
        raise usage_error(f"--compare {path}: {error}") from None


def _show(
    settings: Settings, document: dict[str, Any], tally: Tally, differences: list[Difference] | None
) -> None:
    from rmqcli.bench.show import COLUMNS, COMPARED, MISSED, bars, compared, rows
    from rmqcli.render import show_rows
    from rmqcli.render.table import objects

    if settings.json:
        judged = None if differences is None else objects(COMPARED, compared(differences))
        Output().json(document | ({} if judged is None else {"comparison": judged}))
        return
    show_rows(settings, COLUMNS, rows(tally), hidden=MISSED)
    if settings.terminal:
        print("\nlatency")
        print("\n".join(bars(tally.latency.buckets(), shutil.get_terminal_size().columns)))
    if differences is not None:
        print() if settings.terminal else None
        show_rows(settings, COMPARED, compared(differences))
    late = f", {tally.not_started:,} not started in time" if tally.not_started else ""
    note(
        f"{many(tally.done, 'operation')} of {many(tally.messages, 'message')} in {tally.seconds:.3g} s, "
        f"{tally.rate:,.6g} per second; {sum(tally.failed.values()):,} failed{late}"
    )


def _end(tally: Tally, place: Place, differences: list[Difference] | None) -> None:
    failures: Failures = {f"{kind} ({tally.failed[kind]:,})": error for kind, error in tally.errors.items()}
    worse = [one.name for one in differences or () if one.worse]
    if worse:
        report_failures(failures, place.troubles)
        raise CommandError(f"worse than before: {', '.join(worse)}")
    end_partly(failures, place.troubles, done=bool(tally.done))


@command(
    app,
    "send",
    example="""rmq bench send
rmq bench send --rate 5000 --seconds 30 --size 1024 --json > before.json
rmq bench send --seconds 30 --compare before.json --tolerance 20""",
    rows=Rows.DOCUMENT,
)
def send(settings: Settings, *, options: BenchOptions, masters: Masters) -> None:
    """Measure sends: the time until the broker acknowledges a message.

    Messages go to the queues of all chosen brokers in turn, one attempt each, not compressed.

    Operations become due at --rate, whatever the state of earlier ones. Latency is measured from the time at
    which an operation was due, service from its start; both exclude failed operations, which are counted and
    reported (exit code 3). Operations that cannot start before the end are counted as not started.

    With --compare the exit code is 1 if operations per second, failures or a percentile of the latency are
    worse by more than --tolerance. Piped output: times, done, failed, not started, minimum, median, 90th,
    99th and 99.9th percentile, maximum, in milliseconds. JSON has all buckets, in microseconds.
    """
    run_bench(settings, "send", options, masters)


@command(
    app,
    "consume",
    example="""rmq bench consume --rate 200
rmq bench consume -T orders -c 1000""",
    rows=Rows.DOCUMENT,
)
def consume(settings: Settings, *, options: BenchOptions, masters: Masters) -> None:
    """Measure pulls: the time until a request for up to 32 messages returns them.

    The new topic gets up to 1,000 messages first. Queues are read again and again from their first message;
    no group is joined and no offset moves.

    Operations become due at --rate, whatever the state of earlier ones. Latency is measured from the time at
    which an operation was due, service from its start; both exclude failed operations, which are counted and
    reported (exit code 3). Operations that cannot start before the end are counted as not started.

    With --compare the exit code is 1 if operations per second, failures or a percentile of the latency are
    worse by more than --tolerance. Piped output: times, done, failed, not started, minimum, median, 90th,
    99th and 99.9th percentile, maximum, in milliseconds. JSON has all buckets, in microseconds.
    """
    run_bench(settings, "consume", options, masters)


@command(
    app,
    "e2e",
    example="""rmq bench e2e --rate 500
rmq bench e2e --seconds 60 --size 4096 -b broker-a""",
    rows=Rows.DOCUMENT,
)
def e2e(settings: Settings, *, options: BenchOptions, masters: Masters) -> None:
    """Measure round trips: the time from when a message is due to be sent until it arrives.

    Every queue is read by a long poll, without a group. A message that does not arrive within the time limit
    of a request (--timeout) after it was stored counts as failed.

    Operations become due at --rate, whatever the state of earlier ones. Latency is measured from the time at
    which an operation was due, service from its start; both exclude failed operations, which are counted and
    reported (exit code 3). Operations that cannot start before the end are counted as not started.

    With --compare the exit code is 1 if operations per second, failures or a percentile of the latency are
    worse by more than --tolerance. Piped output: times, done, failed, not started, minimum, median, 90th,
    99th and 99.9th percentile, maximum, in milliseconds. JSON has all buckets, in microseconds.
    """
    run_bench(settings, "e2e", options, masters)
