"""`rmq check stuck`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.settings import Settings
from rmqcli.commands.check.app import UNKNOWN, CheckOptions, GroupsArgument, app, run_check


@command(
    app, "stuck", usage_code=UNKNOWN, example="rmq check stuck\nrmq check stuck billing --warn 60 --crit 600"
)
def stuck(settings: Settings, *, groups: GroupsArgument = None, options: CheckOptions) -> None:
    """Check that the queues of consumer groups move while messages wait; by default 30 s warn, 120 s are critical.

    Measures the seconds since the owner of a queue consumed, but not longer than its next message waits: a
    quiet topic is not stuck. Without names, looks at groups with running clients. rmq group check names the
    queues and their owners. The exit code is that of a monitoring plug-in: 0 OK, 1 WARNING, 2 CRITICAL,
    3 UNKNOWN.
    """
    from rmqcli.monitor.measures import STUCK
    from rmqcli.monitor.measures import stuck as measured

    run_check(
        settings,
        options,
        STUCK,
        lambda admin, _: measured(admin, groups or ()),
        warn="29",
        crit="119",
    )
