"""`rmq check brokers`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.settings import Settings
from rmqcli.commands.check.app import UNKNOWN, CheckOptions, app, run_check

ExpectOption = Annotated[
    int,
    Option("--expect", metavar="N", min=0, help="Number of brokers, slaves included, that must be there."),
]


@command(
    app,
    "brokers",
    usage_code=UNKNOWN,
    example="rmq check brokers --expect 4\nrmq check brokers --warn 0 --crit 1",
)
def brokers(settings: Settings, *, expect: ExpectOption = 0, options: CheckOptions) -> None:
    """Check that all brokers answer; by default, one that does not is critical.

    A name server forgets a broker that is killed: those of an earlier run count as lost for a day, unless as
    many are there as --expect says. No broker at all is critical. The exit code is that of a monitoring
    plug-in: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
    """
    from rmqcli.monitor.measures import BROKERS
    from rmqcli.monitor.measures import brokers as measured

    run_check(
        settings,
        options,
        BROKERS,
        lambda admin, gone: measured(admin, expect, gone),
        expected=expect,
        crit="0",
    )
