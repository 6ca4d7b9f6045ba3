"""The group `rmq topic`: options and values that its commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rmqcli.cli.command import command_group
from rmqcli.cli.exit_codes import usage_error

if TYPE_CHECKING:
    pass


app = command_group("topic", "List, describe, create, change and delete topics.")

NewPermOption = Annotated[
    str | None, typer.Option("--perm", metavar="PERM", help="r, w, rw, or a number (2 w, 4 r, 6 rw).")
]

QueuesOption = Annotated[
    int | None,
    typer.Option("--queues", "-q", metavar="N", min=1, max=65535, help="Queues to read and to write."),
]

ReadQueuesOption = Annotated[
    int | None, typer.Option("--read-queues", metavar="N", min=0, max=65535, help="Queues to read.")
]

WriteQueuesOption = Annotated[
    int | None, typer.Option("--write-queues", metavar="N", min=0, max=65535, help="Queues to write.")
]

_PERMS = {"": 0, "-": 0, "w": 2, "r": 4, "rw": 6, "wr": 6}


def perm_number(text: str) -> int:
    """2 write, 4 read, 6 both; a usage error when it is neither a number nor a word."""
    perm = int(text) if text.isascii() and text.isdigit() else _PERMS.get(text.lower())
    if perm is None or perm > 15:
        raise usage_error(f"--perm {text!r}: r, w, rw, or a number (2 w, 4 r, 6 rw) is expected")
    return perm


def perm_text(perm: int) -> str:
    """`rw`, `r-`, `-w`, `--`."""
    return ("r" if perm & 4 else "-") + ("w" if perm & 2 else "-")
