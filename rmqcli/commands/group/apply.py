"""`rmq group apply`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.options import Masters, YesOption
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.applying import FileOption, apply_file
from rmqcli.commands.common.properties import DryRunOption
from rmqcli.commands.group.app import app


@command(
    app,
    "apply",
    example="rmq group apply --file groups.yaml --dry-run\nrmq group apply --file groups.json --yes",
    rows=Rows.DOCUMENT,
)
def apply(
    settings: Settings,
    file: FileOption,
    masters: Masters,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Create and change consumer groups as a file lists them.

    The file is a JSON or YAML list of objects with Java's names (groupName, retryMaxTimes, consumeEnable …),
    as mqadmin's updateSubGroupList reads it; name works, too. What an entry does not name stays as it is;
    nothing is deleted. Shows the plan and asks for confirmation; without a terminal, --yes is required. Piped
    output: group, broker, create, change or same, changes. Exit code 3 if some brokers did not apply it.
    """
    from rmqcli.flows.desired import GROUPS

    apply_file(settings, GROUPS, file, masters, dry_run=dry_run, yes=yes)
