"""`rmq check send`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.settings import Settings
from rmqcli.commands.check.app import UNKNOWN, BrokersOption, CheckOptions, app, run_check

TopicOption = Annotated[
    str | None, Option("--topic", "-T", metavar="TOPIC", help="Send to TOPIC, where consumers see it.")
]


@command(
    app, "send", usage_code=UNKNOWN, example="rmq check send --warn 100 --crit 1000\nrmq check send -T pings"
)
def send(
    settings: Settings, *, topic: TopicOption = None, broker: BrokersOption = None, options: CheckOptions
) -> None:
    """Check that every master takes a message, and the time that takes, in milliseconds.

    The messages go to the topic that every broker has of its own, named after it, unless --topic names one. A
    broker that refuses or does not respond is critical. The exit code is that of a monitoring plug-in: 0 OK,
    1 WARNING, 2 CRITICAL, 3 UNKNOWN.
    """
    from rmqcli.monitor.measures import SEND
    from rmqcli.monitor.measures import send as measured

    names = broker or ()
    run_check(settings, options, SEND, lambda admin, _: measured(admin, names, topic), names=names)
