"""The group `rmq topic`, and options that its commands share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from typer import Option

from rmqcli.cli.command import command_group
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.option_groups import OptionGroup

app = command_group("topic", "List, describe, create, update and delete topics.")

NewPermOption = Annotated[
    str | None, Option("--perm", metavar="PERM", help="Permission: r, w, rw, or a number (2 w, 4 r, 6 rw).")
]
QueuesOption = Annotated[
    int | None,
    Option("--queues", metavar="N", min=1, max=65535, help="Number of read and write queues."),
]
ReadQueuesOption = Annotated[
    int | None, Option("--read-queues", metavar="N", min=0, max=65535, help="Number of read queues.")
]
WriteQueuesOption = Annotated[
    int | None, Option("--write-queues", metavar="N", min=0, max=65535, help="Number of write queues.")
]


@dataclass(frozen=True, slots=True)
class QueueCounts(OptionGroup):
    """The numbers of queues of a topic."""

    queues: QueuesOption = None
    read_queues: ReadQueuesOption = None
    write_queues: WriteQueuesOption = None

    def named(self, default: int | None = None) -> dict[str, int | None]:
        """The arguments of methods of `Admin`."""
        both = default if self.queues is None else self.queues
        given = {"read_queues": self.read_queues, "write_queues": self.write_queues}
        return {name: both if count is None else count for name, count in given.items()}


_PERMS = {"": 0, "-": 0, "w": 2, "r": 4, "rw": 6, "wr": 6}


def perm_number(text: str) -> int:
    """Return 2 (write), 4 (read) or 6 (both); raise a usage error for other texts."""
    perm = int(text) if text.isascii() and text.isdigit() else _PERMS.get(text.lower())
    if perm is None or perm > 15:
        raise usage_error(f"--perm {text!r}: expected r, w, rw, or a number (2 w, 4 r, 6 rw)")
    return perm


def perm_text(perm: int) -> str:
    """Return `rw`, `r-`, `-w` or `--`."""
    return ("r" if perm & 4 else "-") + ("w" if perm & 2 else "-")
