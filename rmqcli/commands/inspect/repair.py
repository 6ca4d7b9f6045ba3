"""`rmq inspect verify|rebuild|salvage`: whether a store folder is sound, and how to make it so."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.options import Settings, YesOption, command
from rmqcli.commands.common.inspecting import (
    DELAY_LEVELS,
    JobsOption,
    StoreArgument,
    app,
    delays_of,
    verified_log,
)

OutOption = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="DIR2", help="Write into this folder, which must be empty or new."),
]


@command(
    app, "verify", example="rmq inspect verify ~/store\nrmq inspect verify ~/store --json | jq .findings"
)
def verify(settings: Settings, path: StoreArgument, jobs: JobsOption = None) -> None:
    """Check a whole store folder: records, queues, index, checkpoint and tables.

    Exit 0 when it is sound, 8 when it is damaged; what a killed broker leaves and its next start repairs is noted, no damage.
    """
    from rmqcli.render.progress import progress
    from rmqcli.render.store_view import show_store_report
    from rmqcli.store.verify.commit_log import workers_for
    from rmqcli.store.verify.store import log_of, verify_store

    begin = time.monotonic()
    with workers_for(log_of(path), jobs) as workers:
        report = verify_store(path, lambda part, size: progress(f"verify {part}", size, sizes=True), workers)
    show_store_report(settings, report, time.monotonic() - begin)
    if not report.sound:
        raise typer.Exit(ExitCode.CORRUPT)


@command(
    app,
    "rebuild",
    example="rmq inspect rebuild ~/store --dry-run\nrmq inspect rebuild ~/store --in-place\nrmq inspect rebuild ~/store --out /tmp/new",
)
def rebuild(
    settings: Settings,
    path: StoreArgument,
    out: OutOption = None,
    in_place: Annotated[
        bool,
        typer.Option("--in-place", help="Replace those of the folder; the old ones are renamed and kept."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would change.")] = False,
    delay_levels: DELAY_LEVELS = None,
    yes: YesOption = False,
) -> None:
    """Make consume queues and index anew from the commit log.

    The commit log must be sound (else salvage it first). --in-place tells what would change and asks; no broker may run.
    """
    from rmqcli.store import CommitLog
    from rmqcli.store.read.tables import store_folder
    from rmqcli.store.repair.new_folder import require_empty
    from rmqcli.store.repair.rebuild import shape_of

    if sum((out is not None, in_place, dry_run)) != 1 and not (in_place and dry_run):
        raise usage_error("one of --out DIR2, --in-place or --dry-run")
    log = CommitLog(store_folder(path))
    if out is not None:
        _require_outside(path, out)
        require_empty(out)
    _require_sound(log)
    shape = shape_of(path)._replace(levels=delays_of(delay_levels))
    if out is not None:
        _rebuild_out(settings, path, out, log, shape)
    elif dry_run:
        _rebuild_dry(settings, path, log, shape)
    else:
        _rebuild_in_place(settings, path, log, shape, yes)


def _require_outside(store: Path, out: Path) -> None:
    """A store is not written to, whether a broker runs on it or not."""
    if out.resolve().is_relative_to(store.resolve()):
        raise usage_error("--out lies in the store itself: name a folder elsewhere")


def _require_sound(log: Any) -> None:
    finding = next((one for one in verified_log(log).findings if not one.only_properties), None)
    if finding is not None:
        raise CommandError(f"{finding}: salvage the store first", ExitCode.CORRUPT)


def _build(log: Any, out: Path, shape: Any) -> Any:
    from rmqcli.render.progress import progress
    from rmqcli.store.read.files import data_size
    from rmqcli.store.repair.rebuild import build

    with progress("rebuild", sum(map(data_size, log.files)), sizes=True) as advance:
        return build(log, out, shape, advance)


def _rebuild_out(settings: Settings, path: Path, out: Path, log: Any, shape: Any) -> None:
    from rmqcli.render.store_view import show_rebuilt
    from rmqcli.store.repair.new_folder import new_folder
    from rmqcli.store.repair.rebuild import compare

    with new_folder(out) as work:
        built = _build(log, work, shape)
        changes = compare(path, work)
    show_rebuilt(settings, built, changes, [], True)


def _rebuild_dry(settings: Settings, path: Path, log: Any, shape: Any) -> None:
    from rmqcli.render.store_view import show_rebuilt
    from rmqcli.store.read.files import naming_full_disk
    from rmqcli.store.repair.rebuild import compare

    with TemporaryDirectory(prefix="rmq-rebuild-") as folder:
        work = Path(folder)
        with naming_full_disk(work):
            built = _build(log, work, shape)
        show_rebuilt(settings, built, compare(path, work), [], False)


def _rebuild_in_place(settings: Settings, path: Path, log: Any, shape: Any, yes: bool) -> None:
    from rmqcli.render.store_view import show_rebuilt
    from rmqcli.store.read.lock import holding_lock
    from rmqcli.store.repair.rebuild import compare, rebuild_in_place, work_folder

    with holding_lock(path), work_folder(path) as work:
        built = _build(log, work, shape)
        changes = compare(path, work)
        if not changes:
            show_rebuilt(settings, built, [], [], False)
            return
        if not yes:
            typer.confirm(
                f"Replace the consume queues and index of {path} ({len(changes)} files differ)?",
                abort=True,
                err=True,
            )
        kept = rebuild_in_place(path, work, time.strftime("%Y%m%d%H%M%S"))
        show_rebuilt(settings, built, changes, [str(folder) for folder in kept], True)


@command(app, "salvage", example="rmq inspect salvage ~/store --out ~/store-salvaged")
def salvage(settings: Settings, path: StoreArgument, out: OutOption = None) -> None:
    """Write a new, sound store from what is left of a damaged one, and name what is lost.

    Every whole record keeps its place and its queue offset. A message with the property LOST stands for each that is gone.
    """
    from rmqcli.render.progress import progress
    from rmqcli.render.store_view import show_salvaged
    from rmqcli.store import CommitLog
    from rmqcli.store.read.files import data_size
    from rmqcli.store.read.lock import refuse_locked
    from rmqcli.store.read.tables import store_folder
    from rmqcli.store.repair.salvage import salvage as salvage_store

    if out is None:
        raise usage_error("--out DIR2 is missing: the damaged store is never written to")
    refuse_locked(store_folder(path))
    _require_outside(path, out)
    begin = time.monotonic()
    files = CommitLog(path).files
    size = sum(file.size + data_size(file) for file in files)
    with progress("salvage", size, sizes=True) as advance:
        found = salvage_store(path, out, advance)
    show_salvaged(settings, found, time.monotonic() - begin)
