"""`rmq inspect salvage`."""

from __future__ import annotations

import time

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.settings import Settings
from rmqcli.commands.inspect.app import OutOption, StoreArgument, app, require_outside


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
