"""The group `rmq offsets`: options that its commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rmqcli.cli.command import command_group
from rmqcli.cli.exit_codes import usage_error

if TYPE_CHECKING:
    pass


app = command_group("offsets", "Show, reset and clone the offsets of a consumer group.")

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")]

WaitOption = Annotated[
    float,
    typer.Option("--wait", metavar="SECONDS", min=0, help="Give running clients so long to move."),
]


def check_group_name(group: str) -> None:
    """A broker keeps offsets under any name, also one that no consumer can have."""
    from codec.message import check_group

    try:
        check_group(group)
    except ValueError as error:
        raise usage_error(str(error)) from None
