"""The group `rmq inspect`: options and checks that its commands share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from rmqcli.cli.command import command_group
from rmqcli.cli.errors import Ended
from rmqcli.cli.exit_codes import ExitCode, usage_error
from rmqcli.cli.settings import Settings
from rmqcli.render.text import listed, many

if TYPE_CHECKING:
    from rmqcli.codec.store.delay_levels import DelayLevels
    from rmqcli.render.table import Column

app = command_group("inspect", "Read, verify, rebuild and salvage store files.")

PathArgument = Annotated[Path, Argument(metavar="PATH", help="File, or folder of the files.")]
TopicsOption = Annotated[
    list[str] | None, Option("--topic", "-T", metavar="TOPIC", help="Limit to this topic; repeatable.")
]
QueueOption = Annotated[
    int | None, Option("--queue", "-q", metavar="N", min=0, help="Limit to this queue ID.")
]
WhereOption = Annotated[
    str | None,
    Option("--where", metavar="EXPR", help="Select rows by a condition over their columns (SQL92)."),
]
CountOption = Annotated[int | None, Option("--count", "-c", metavar="N", min=0, help="Show at most N items.")]
VerifyOption = Annotated[bool, Option("--verify", help="Check structure and CRC; exit code 8 if damaged.")]
JobsOption = Annotated[
    int | None,
    Option("--jobs", "-j", metavar="N", min=1, help="Number of verifying processes; default: one per core."),
]
StatsOption = Annotated[bool, Option("--stats", help="Show counts, bytes and time range instead of rows.")]
ExplainOption = Annotated[
    bool, Option("--explain", help="Show one record (or -c N records) field by field, with its bytes.")
]
KeyOption = Annotated[
    str | None, Option("--key", "-k", metavar="KEY", help="Select messages by key or message ID.")
]
GroupOption = Annotated[str | None, Option("--group", "-g", metavar="GROUP", help="Limit to this group.")]
StoreArgument = Annotated[Path, Argument(metavar="DIR", help="Store folder.")]
TableArgument = Annotated[Path, Argument(metavar="PATH", help="Store folder, or the file itself.")]
OutOption = Annotated[
    Path | None, Option("--out", metavar="DIR2", help="Output folder; must be new or empty.")
]
DelayLevelsOption = Annotated[
    str | None,
    Option(
        "--delay-levels", metavar="TEXT", help="The broker's messageDelayLevel, if not RocketMQ's default."
    ),
]


def range_option(what: str) -> Any:
    """Return the option `-o RANGE`; `what` explains its numbers and times."""
    return Option("--offset", "-o", metavar="RANGE", help=f"{what} See `rmq help ranges`.")


def one_view(**views: object) -> None:
    """Raise a usage error if several views were given."""
    chosen = [f"--{name}" for name, given in views.items() if given]
    if len(chosen) > 1:
        raise usage_error(f"{listed(chosen)} cannot be combined")


def whole_only(what: str, **choices: object) -> None:
    """Raise a usage error if --verify, which checks every `what`, is combined with a selection."""
    given = [f"--{name}" for name, choice in choices.items() if choice not in (None, [], "*", "start")]
    if given:
        raise usage_error(f"--verify checks every {what}: remove {listed(given)}")


def matching(columns: Sequence[Column], rows: Iterable[Any], where: str | None) -> list[Any]:
    """Return the rows that meet a condition over the columns."""
    from rmqcli.store.select.conditions import row_test

    return list(filter(row_test([column.key for column in columns], where), rows))


def show_table_rows(
    settings: Settings,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Any]],
    source: str | None,
    empty: str,
    hidden: Collection[str] = (),
) -> None:
    """Show rows of a table; if they come from its `.bak`, a column `source` names that file."""
    from rmqcli.render.table import Column, show_rows

    if source is not None:
        columns, rows = (*columns, Column("SOURCE", "source")), [[*row, source] for row in rows]
    show_rows(settings, columns, rows, empty=empty, hidden=hidden)


def backup_of(store: Path, name: str) -> str | None:
    """Return the name of the `.bak` that is read for a table of a store, or for a table file, and warn of
    it; None if the table itself is read.
    """
    from rmqcli.render.output import warn
    from rmqcli.store.read.tables import backup_in_use

    file = backup_in_use(store, name)
    if file is None:
        return None
    source = f"{file.path.name}.bak"
    warn(f"{file.path} cannot be used ({file.problem}): the rows are those of {source}, an older version")
    return source


def delays_of(text: str | None) -> DelayLevels:
    """Return the levels of --delay-levels, or RocketMQ's own."""
    from rmqcli.codec.store.delay_levels import DEFAULT_LEVELS, DelayLevels

    try:
        return DEFAULT_LEVELS if text is None else DelayLevels(text)
    except ValueError as error:
        raise usage_error(f"--delay-levels: {error}") from None


def verified_log(log: Any, jobs: int | None = None) -> Any:
    """Verify a commit log with a progress bar and return the report."""
    from rmqcli.render.progress import progress
    from rmqcli.store import verify_commit_log
    from rmqcli.store.read.files import data_size
    from rmqcli.store.verify.commit_log import workers_for

    size = sum(map(data_size, log.files))
    with workers_for(log, jobs) as workers, progress("verify", size, sizes=True) as advance:
        return verify_commit_log(log, advance, workers)


def show_verified(settings: Settings, report: Any, items: str) -> None:
    """Show the report; end with exit code 8 if it has damage."""
    from rmqcli.render.inspection import show_report

    show_report(settings, report, items)
    if not report.sound:
        raise Ended(ExitCode.CORRUPT, summary=f"damaged in {many(report.damaged, 'place')}")


def require_store(path: Path) -> None:
    """Raise an error if a folder is not a store folder: it would look like a store without topics."""
    from rmqcli.store.read.tables import store_folder

    if path.is_dir():
        store_folder(path)


def require_outside(store: Path, out: Path) -> None:
    """Raise a usage error if `out` is inside the store, which must not be written to."""
    if out.resolve().is_relative_to(store.resolve()):
        raise usage_error("--out is inside the store: specify a folder elsewhere")
