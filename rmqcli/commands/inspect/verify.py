"""`rmq inspect verify`."""

from __future__ import annotations

import time

from rmqcli.cli.command import command
from rmqcli.cli.errors import Ended
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.cli.settings import Settings
from rmqcli.commands.inspect.app import JobsOption, StoreArgument, app


@command(
    app, "verify", example="rmq inspect verify ~/store\nrmq inspect verify ~/store --json | jq .findings"
)
def verify(settings: Settings, path: StoreArgument, jobs: JobsOption = None) -> None:
    """Verify a store folder: records, consume queues, index, checkpoint and tables.

    Exit code 0 if it is sound, 8 if it is damaged. What a killed broker leaves and its next start repairs is
    a note, not damage.
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
        raise Ended(ExitCode.CORRUPT, summary=f"{path} is damaged")
