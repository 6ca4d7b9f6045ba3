"""The group `rmq offsets`, and options that its commands share."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from rmqcli.cli.command import command_group
from rmqcli.cli.exit_codes import usage_error

app = command_group("offsets", "Show, reset and clone consumer offsets.")

GroupArgument = Annotated[str, Argument(metavar="GROUP", help="Name of the consumer group.")]
DryRunOption = Annotated[bool, Option("--dry-run", help="Show the changes without applying them.")]
WaitOption = Annotated[
    float, Option("--wait", metavar="SECONDS", min=0, help="Wait for running clients at most this long.")
]
CreateGroupOption = Annotated[
    bool,
    Option(
        "--create-group", help="Create the group first on brokers that do not know it; 5.x requires that."
    ),
]


def check_group_name(group: str) -> None:
    """Raise a usage error for a name that no consumer can have; brokers keep offsets under any name."""
    from rmqcli.codec.message import check_group

    try:
        check_group(group)
    except ValueError as error:
        raise usage_error(str(error)) from None
