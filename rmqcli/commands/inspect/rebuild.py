"""`rmq inspect rebuild`."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.options import YesOption
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.outcome import confirm
from rmqcli.commands.inspect.app import (
    DelayLevelsOption,
    OutOption,
    StoreArgument,
    app,
    delays_of,
    require_outside,
    verified_log,
)


@command(
    app,
    "rebuild",
    example="""rmq inspect rebuild ~/store --dry-run
rmq inspect rebuild ~/store --in-place
rmq inspect rebuild ~/store --out /tmp/new""",
)
def rebuild(
    settings: Settings,
    path: StoreArgument,
    out: OutOption = None,
    in_place: Annotated[
        bool, Option("--in-place", help="Replace the files in the folder; the old ones are renamed and kept.")
    ] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Show the changes without applying them.")] = False,
    delay_levels: DelayLevelsOption = None,
    yes: YesOption = False,
) -> None:
    """Rebuild consume queues and index from the commit log.

    The commit log must be sound (salvage it first otherwise). --in-place shows the changes and asks for
    confirmation; no broker may be running on the folder.
    """
    from rmqcli.store import CommitLogFiles
    from rmqcli.store.read.tables import store_folder
    from rmqcli.store.repair.new_folder import require_empty
    from rmqcli.store.repair.rebuild import shape_of

    if sum((out is not None, in_place, dry_run)) != 1 and not (in_place and dry_run):
        raise usage_error("specify one of --out DIR2, --in-place and --dry-run")
    log = CommitLogFiles(store_folder(path))
    if out is not None:
        require_outside(path, out)
        require_empty(out)
    _require_sound(log)
    shape = shape_of(path)._replace(levels=delays_of(delay_levels))
    if out is not None:
        _rebuild_out(settings, path, out, log, shape)
    elif dry_run:
        _rebuild_dry(settings, path, log, shape)
    else:
        _rebuild_in_place(settings, path, log, shape, yes)


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
        confirm(f"replace the consume queues and index of {path} ({len(changes)} files differ)?", yes=yes)
        kept = rebuild_in_place(path, work, time.strftime("%Y%m%d%H%M%S"))
        show_rebuilt(settings, built, changes, [str(folder) for folder in kept], True)
