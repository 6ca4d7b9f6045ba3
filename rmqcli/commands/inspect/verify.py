"""`rmq inspect verify`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.verifying import verify_folder
from rmqcli.commands.inspect.app import JobsOption, StoreArgument, app


@command(
    app, "verify", example="rmq inspect verify ~/store\nrmq inspect verify ~/store --json | jq .findings"
)
def verify(settings: Settings, path: StoreArgument, jobs: JobsOption = None) -> None:
    """Verify a store folder: records, consume queues, index, checkpoint and tables.

    Exit code 0 if it is sound, 8 if it is damaged. What a killed broker leaves and its next start repairs is
    a note, not damage.
    """
    verify_folder(settings, path, jobs)
