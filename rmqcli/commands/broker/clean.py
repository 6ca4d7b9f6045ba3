"""`rmq broker clean queues`, `topics` and `log`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqcli.cli.command import command
from rmqcli.cli.options import Seats, YesOption
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.broker.app import clean as group
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import confirm, show_change
from rmqcli.commands.common.properties import DryRunOption

if TYPE_CHECKING:
    from rmqcli.client import Admin
    from rmqcli.client.admin.brokers import Cleaning


@command(
    group,
    "queues",
    example="rmq broker clean queues -b broker-a --yes",
    rows=Rows.DOCUMENT,
)
def queues(settings: Settings, seats: Seats, dry_run: DryRunOption = False, yes: YesOption = False) -> None:
    """Remove the consume queues of topics that no longer exist.

    Asks for confirmation; without a terminal, --yes is required. Brokers that refuse or do not respond are
    reported, and the exit code is 3.
    """
    _clean(settings, seats, "queues", "consume queues of deleted topics", dry_run=dry_run, yes=yes)


@command(
    group,
    "topics",
    example="rmq broker clean topics --cluster DefaultCluster --yes",
    rows=Rows.DOCUMENT,
)
def topics(settings: Settings, seats: Seats, dry_run: DryRunOption = False, yes: YesOption = False) -> None:
    """Remove the consume queues of topics without settings.

    Asks for confirmation; without a terminal, --yes is required. Brokers that refuse or do not respond are
    reported, and the exit code is 3.
    """
    _clean(settings, seats, "topics", "consume queues of topics without settings", dry_run=dry_run, yes=yes)


@command(
    group,
    "log",
    example="rmq broker clean log -b broker-a --dry-run",
    rows=Rows.DOCUMENT,
)
def log(settings: Settings, seats: Seats, dry_run: DryRunOption = False, yes: YesOption = False) -> None:
    """Delete expired files of the commit log now, not at the hour of deleteWhen.

    The messages in files older than fileReservedTime are lost. Asks for confirmation; without a terminal,
    --yes is required. Brokers that refuse or do not respond are reported, and the exit code is 3.
    """
    _clean(settings, seats, "log", "expired files of the commit log", dry_run=dry_run, yes=yes)


def _clean(settings: Settings, seats: Seats, what: Cleaning, text: str, *, dry_run: bool, yes: bool) -> None:
    from rmqcli.render import Column, show_rows
    from rmqcli.render.columns import BROKER

    async def find(admin: Admin) -> dict[str, str]:
        return await admin.brokers.seats(**seats.named)

    found = with_admin(settings, find)
    if dry_run:
        rows: list[Any] = [[label, address] for label, address in found.items()]
        show_rows(settings, [BROKER, Column("ADDRESS", "address", whole=True)], rows)
        return
    confirm(settings, f"remove {text} on {', '.join(found)}?", yes=yes, lost=[text])
    change = with_admin(settings, lambda admin: admin.brokers.clean(found, what))
    show_change(settings, f"removed {text} on", change)
