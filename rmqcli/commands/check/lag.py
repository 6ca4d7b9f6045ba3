"""`rmq check lag`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.settings import Settings
from rmqcli.commands.check.app import UNKNOWN, CheckOptions, GroupsArgument, app, run_check

TopicOption = Annotated[str | None, Option("--topic", "-T", metavar="TOPIC", help="Limit to this topic.")]


@command(
    app,
    "lag",
    usage_code=UNKNOWN,
    example="""rmq check lag billing --warn 1000 --crit 10000
rmq check lag --crit 10000 --format prometheus""",
)
def lag(
    settings: Settings, *, groups: GroupsArgument = None, topic: TopicOption = None, options: CheckOptions
) -> None:
    """Check the lag of consumer groups: stored messages that they have not consumed.

    The exit code is that of a monitoring plug-in: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN (a group that does
    not exist, a server that does not answer, a wrong command line).
    """
    from rmqcli.monitor.measures import LAG
    from rmqcli.monitor.measures import lag as measured

    run_check(settings, options, LAG, lambda admin, _: measured(admin, groups or (), topic))
