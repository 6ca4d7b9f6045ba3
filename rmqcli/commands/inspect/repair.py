"""`rmq inspect rebuild` and `rmq inspect salvage`."""

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
from rmqcli.commands.common.outcome import ask
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
rmq inspect rebuild ~/store --out /tmp/new --config broker.conf""",
    panels={"Settings": "--delay-levels --config --set"},
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
    config: Annotated[
        Path | None,
        Option("--config", metavar="FILE", help="The broker.conf that sets the sizes of files."),
    ] = None,
    sets: Annotated[
        list[str] | None,
        Option("--set", metavar="NAME=VALUE", help="A property of the broker that sets a size; repeatable."),
    ] = None,
    yes: YesOption = False,
) -> None:
    """Rebuild consume queues and index from the commit log.

    The commit log must be sound (salvage it first otherwise). --in-place shows the changes and asks for
    confirmation; no broker may be running on the folder. New files get the size of existing ones; where there
    are none, --config or --set specifies it.
    """
    from rmqcli.store import CommitLogFiles
    from rmqcli.store.read.tables import store_folder
    from rmqcli.store.repair.new_folder import require_empty

    if sum((out is not None, in_place, dry_run)) != 1 and not (in_place and dry_run):
        raise usage_error("specify one of --out DIR2, --in-place and --dry-run")
    log = CommitLogFiles(store_folder(path))
    if out is not None:
        require_outside(path, out)
        require_empty(out)
    _require_sound(log)
    shape = _shape(path, config, sets or [])._replace(levels=delays_of(delay_levels))
    if out is not None:
        _rebuild_out(settings, path, out, log, shape)
    elif dry_run:
        _rebuild_dry(settings, path, log, shape)
    else:
        _rebuild_in_place(settings, path, log, shape, yes)


def _shape(path: Path, config: Path | None, sets: list[str]) -> Any:
    """Return the shape of the new files; raise a usage error if a size is unknown or wrong."""
    from rmqcli.codec.bodies.config import load_properties_file
    from rmqcli.codec.errors import BodyError
    from rmqcli.grammar.values import by_name
    from rmqcli.store.repair.rebuild import shape_of

    try:
        given = {} if config is None else load_properties_file(config.read_bytes())
    except BodyError as error:
        raise usage_error(f"--config {config}: {error}") from None
    given |= by_name("--set", ((name, value) for name, _, value in (one.partition("=") for one in sets)))
    try:
        shape = shape_of(path, given)
    except ValueError as error:
        raise usage_error(str(error)) from None
    if shape.unknown:
        names = " and ".join(f"--set {name}=N" for name in shape.unknown)
        raise usage_error(
            f"no file is left that tells its size: name the broker.conf with --config, or {names}"
        )
    return shape


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
    from rmqcli.counts import many
    from rmqcli.render.store_view import show_rebuilt
    from rmqcli.store.read.lock import holding_lock
    from rmqcli.store.repair.rebuild import compare, rebuild_in_place, work_folder

    with holding_lock(path), work_folder(path) as work:
        built = _build(log, work, shape)
        changes = compare(path, work)
        if not changes:
            show_rebuilt(settings, built, [], [], False)
            return
        ask(
            f"replace the consume queues and index of {path} ({many(len(changes), 'differing file')})?",
            yes=yes,
        )
        kept = rebuild_in_place(path, work, time.strftime("%Y%m%d%H%M%S"))
        show_rebuilt(settings, built, changes, [str(folder) for folder in kept], True)


@command(app, "salvage", example="rmq inspect salvage ~/store --out ~/store-salvaged")
def salvage(settings: Settings, path: StoreArgument, out: OutOption = None) -> None:
    """Write a new, sound store from the intact records of a damaged one, and list what is lost.

    Every whole record keeps its position and its queue offset. A message with the property LOST replaces each
    missing one.
    """
    from rmqcli.render.progress import progress
    from rmqcli.render.store_view import show_salvaged
    from rmqcli.store import CommitLogFiles
    from rmqcli.store.read.files import data_size
    from rmqcli.store.read.lock import refuse_locked
    from rmqcli.store.read.tables import store_folder
    from rmqcli.store.repair.salvage import salvage as salvage_store

    if out is None:
        raise usage_error("specify --out DIR2: the damaged store is never written to")
    refuse_locked(store_folder(path))
    require_outside(path, out)
    begin = time.monotonic()
    files = CommitLogFiles(path).files
    size = sum(file.size + data_size(file) for file in files)
    with progress("salvage", size, sizes=True) as advance:
        found = salvage_store(path, out, advance)
    show_salvaged(settings, found, time.monotonic() - begin)
