"""Verification of a store folder, shared by several commands."""

from __future__ import annotations

import time
from pathlib import Path

from rmqcli.cli.errors import Ended
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.cli.settings import Settings


def verify_folder(settings: Settings, path: Path, jobs: int | None, *, silent: bool = False) -> None:
    """Verify a store folder and print the report, unless `silent`; raise Ended if it is damaged."""
    from rmqcli.render.progress import progress
    from rmqcli.render.store_view import show_store_report
    from rmqcli.store.read.folder import StoreFolder
    from rmqcli.store.verify.commit_log import workers_for
    from rmqcli.store.verify.store import verify_store

    begin = time.monotonic()
    folder = StoreFolder(path)
    with workers_for(folder.log, jobs) as workers:
        report = verify_store(
            folder, lambda part, size: progress(f"verify {part}", size, sizes=True), workers
        )
    if not silent:
        show_store_report(settings, report, time.monotonic() - begin)
    if not report.sound:
        raise Ended(ExitCode.CORRUPT, summary=f"{path} is damaged")
