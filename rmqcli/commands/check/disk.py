"""`rmq check disk`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.settings import Settings
from rmqcli.commands.check.app import UNKNOWN, BrokersOption, CheckOptions, app, run_check


@command(
    app, "disk", usage_code=UNKNOWN, example="rmq check disk\nrmq check disk -b broker-a --warn 70 --crit 85"
)
def disk(settings: Settings, *, broker: BrokersOption = None, options: CheckOptions) -> None:
    """Check the disks of brokers, in percent used; by default 75 warns and 90 is critical.

    At 75 % Java's brokers delete messages early, at 90 % they refuse new ones. The exit code is that of a
    monitoring plug-in: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
    """
    from rmqcli.monitor.measures import DISK
    from rmqcli.monitor.measures import disk as measured

    names = broker or ()
    run_check(
        settings, options, DISK, lambda admin, _: measured(admin, names), names=names, warn="75", crit="90"
    )
