"""`rmq group mode`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import TopicArgument
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.changing import Change, change_brokers
from rmqcli.commands.group.app import GroupArgument, app

MODES = ("pull", "pop")
ModeArgument = Annotated[str, Argument(metavar="MODE", help="pull or pop.")]
ShareOption = Annotated[
    int,
    Option(
        "--share",
        metavar="N",
        min=0,
        help="pop: so many further clients share each queue; default: all of them.",
    ),
]


@command(
    app,
    "mode",
    example="rmq group mode billing orders pop -b broker-a --yes",
    rows=Rows.DOCUMENT,
)
def mode(
    group: GroupArgument,
    topic: TopicArgument,
    mode: ModeArgument,
    settings: Settings,
    how: Change,
    share: ShareOption = 0,
) -> None:
    """Set whether clients of a group pull a topic, or brokers hand its messages out (POP, 5.x).

    It applies to clients that leave the allocation of queues to brokers. Asks for confirmation; without a
    terminal, --yes is required. Brokers without the topic or the group, those that refuse or do not respond
    are reported, and the exit code is 3.
    """
    if mode.lower() not in MODES:
        raise usage_error(f"{mode}: expected {' or '.join(MODES)}")
    change_brokers(
        settings,
        how,
        "modes of groups",
        (f"let {group} consume {topic} by {mode}", f"{group} consumes {topic} by {mode}"),
        lambda admin, found: admin.groups.set_mode(found, group, topic, mode.upper(), share),
        slaves=False,
    )
