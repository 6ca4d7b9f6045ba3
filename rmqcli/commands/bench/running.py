"""Runs a benchmark and shows its result."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqcli.cli.errors import is_interrupt
from rmqcli.cli.exit_codes import CommandError, usage_error
from rmqcli.cli.options import Masters
from rmqcli.cli.running import run_until_terminated
from rmqcli.cli.settings import Settings
from rmqcli.commands.bench.app import SECONDS, BenchOptions
from rmqcli.commands.common.outcome import Failures, end_partly, report_failures, say_done
from rmqcli.extras import require
from rmqcli.render.output import Output, note
from rmqcli.render.text import many

if TYPE_CHECKING:
    from rmqcli.bench.comparison import Difference
    from rmqcli.bench.load import Load
    from rmqcli.bench.running import Tally
    from rmqcli.bench.topic import Place

PROGRESS_S = 0.2
"""The time between two looks at what is done."""


def run_bench(settings: Settings, kind: str, options: BenchOptions, masters: Masters) -> None:
    """Carry out a benchmark, show it, and end with exit code 1 if it is worse than what it is compared with,
    or as `end_partly` does if operations failed.
    """
    require("bench", "hdrh")
    from rmqcli.bench.comparison import compare
    from rmqcli.bench.measure import document
    from rmqcli.bench.topic import Place

    load, place = _load(options), Place(options.topic, **masters.named)
    old = None if options.compare is None else _earlier(options.compare, {"bench": kind, **load.document()})
    tally = _measured(settings, kind, place, load)
    found = document(kind, place, load, tally)
    differences = None if old is None else compare(old, found, options.tolerance)
    _show(settings, found, tally, differences)
    _end(tally, place, differences)


def _load(options: BenchOptions) -> Load:
    from rmqcli.bench.load import Load
    from rmqcli.bench.pacing import Pace

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
    """Return the document of a file; a usage error if it cannot be compared with what is wanted now."""
    import msgspec

    from rmqcli.bench.comparison import NotComparable, check_load

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
