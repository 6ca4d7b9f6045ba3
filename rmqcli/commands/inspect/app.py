"""What the inspections share: their group of commands, options, and the check of a commit log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqcli.cli.command import command_group
from rmqcli.cli.exit_codes import ExitCode, usage_error
from rmqcli.cli.settings import Settings

if TYPE_CHECKING:
    from codec.store.delay_levels import DelayLevels

app = command_group("inspect", "Read store files without a broker.")

PathArgument = Annotated[
    Path, typer.Argument(metavar="PATH", help="A file, or the folder that holds the files.")
]
TopicsOption = Annotated[
    list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Only this topic; may be repeated.")
]
QueueOption = Annotated[
    int | None, typer.Option("--queue", "-q", metavar="N", min=0, help="Only this queue number.")
]
WhereOption = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="EXPR",
        help="Only rows that meet EXPR (SQL92) over the columns, e.g. 'size > 4096'.",
    ),
]
CountOption = Annotated[int | None, typer.Option("--count", "-c", metavar="N", min=0, help="Show at most N.")]
VerifyOption = Annotated[bool, typer.Option("--verify", help="Check structure and CRC; exit 8 when damaged.")]
JobsOption = Annotated[
    int | None,
    typer.Option("--jobs", metavar="N", min=1, help="Processes that verify; default: one for each core."),
]
StatsOption = Annotated[bool, typer.Option("--stats", help="Counts, bytes and time range instead of rows.")]
ExplainOption = Annotated[
    bool, typer.Option("--explain", help="One record field by field, with its bytes; -c N: so many.")
]
KeyOption = Annotated[
    str | None, typer.Option("--key", "-k", metavar="KEY", help="Only this key, or message id.")
]
GroupOption = Annotated[str | None, typer.Option("--group", metavar="GROUP", help="Only this group.")]
StoreArgument = Annotated[Path, typer.Argument(metavar="DIR", help="A store folder.")]
TableArgument = Annotated[Path, typer.Argument(metavar="PATH", help="A store folder, or the file itself.")]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="DIR2", help="Write into this folder, which must be empty or new."),
]
DelayLevelsOption = Annotated[
    str | None,
    typer.Option(
        "--delay-levels",
        metavar="TEXT",
        help="messageDelayLevel of the broker, when it is not RocketMQ's own.",
    ),
]


def range_option(what: str) -> Any:
    """`-o RANGE`; `what` says what its numbers and times are."""
    return typer.Option("--offset", "-o", metavar="RANGE", help=f"{what} The grammar is that of `rmq pull`.")


def one_view(**views: object) -> None:
    """A usage error when several were given."""
    chosen = [f"--{name}" for name, given in views.items() if given]
    if len(chosen) > 1:
        raise usage_error(f"{' and '.join(chosen)} exclude each other")


def whole_only(what: str, **choices: object) -> None:
    """A usage error when --verify, which looks at every `what`, is to look at some."""
    given = [f"--{name}" for name, choice in choices.items() if choice not in (None, [], "*", "start")]
    if given:
        raise usage_error(f"--verify looks at every {what}: leave {' and '.join(given)} out")


def delays_of(text: str | None) -> DelayLevels:
    """The levels of --delay-levels, or RocketMQ's own."""
    from codec.store.delay_levels import DEFAULT_LEVELS, DelayLevels

    try:
        return DEFAULT_LEVELS if text is None else DelayLevels(text)
    except ValueError as error:
        raise usage_error(f"--delay-levels: {error}") from None


def verified_log(log: Any, jobs: int | None = None) -> Any:
    """The report of a commit log, with a bar while it is made."""
    from rmqcli.render.progress import progress
    from rmqcli.store import verify_commit_log
    from rmqcli.store.read.files import data_size
    from rmqcli.store.verify.commit_log import workers_for

    size = sum(map(data_size, log.files))
    with workers_for(log, jobs) as workers, progress("verify", size, sizes=True) as advance:
        return verify_commit_log(log, advance, workers)


def show_verified(settings: Settings, report: Any, items: str) -> None:
    """The report; ends with exit code 8 when it is of damage."""
    from rmqcli.render.inspection import show_report

    show_report(settings, report, items)
    if not report.sound:
        raise typer.Exit(ExitCode.CORRUPT)


def require_store(path: Path) -> None:
    """A folder must be a store folder: any other has no tables, which would look like a store without topics."""
    from rmqcli.store.read.tables import store_folder

    if path.is_dir():
        store_folder(path)


def require_outside(store: Path, out: Path) -> None:
    """A store is not written to, whether a broker runs on it or not."""
    if out.resolve().is_relative_to(store.resolve()):
        raise usage_error("--out lies in the store itself: name a folder elsewhere")
