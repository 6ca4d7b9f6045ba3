"""`rmq check dlq`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.settings import Settings
from rmqcli.commands.check.app import UNKNOWN, CheckOptions, GroupsArgument, app, run_check


@command(app, "dlq", usage_code=UNKNOWN, example="rmq check dlq\nrmq check dlq billing --warn 10 --crit 1000")
def dlq(settings: Settings, *, groups: GroupsArgument = None, options: CheckOptions) -> None:
    """Check the number of dead letters of consumer groups; by default, one warns.

    The exit code is that of a monitoring plug-in: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
    """
    from rmqcli.monitor.measures import DLQ
    from rmqcli.monitor.measures import dlq as measured

    run_check(settings, options, DLQ, lambda admin, _: measured(admin, groups or ()), warn="0")
