"""The group `rmq topic`, and options that its commands share."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from typer import Option

from rmqcli.cli.command import command_group
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import OptionGroup
from rmqcli.cli.settings import Settings

if TYPE_CHECKING:
    from rmqcli.client import Admin
    from rmqcli.codec.message_queue import MessageQueue

app = command_group("topic", "List, describe, create, update and delete topics.")
order_group = command_group("order", "Show and change the layout of ordered topics.")
static_group = command_group("static", "Show and change static topics of 5.x.")
app.add_typer(order_group)
app.add_typer(static_group)

NewPermOption = Annotated[
    str | None, Option("--perm", metavar="PERM", help="Permission: r, w, rw, or a number (2 w, 4 r, 6 rw).")
]
AllTopicsOption = Annotated[
    bool,
    Option(
        "--all", "-a", help="Include system topics, retry topics (%RETRY%) and dead-letter topics (%DLQ%)."
    ),
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
        """Return the arguments of methods of `Admin`."""
        both = default if self.queues is None else self.queues
        given = {"read_queues": self.read_queues, "write_queues": self.write_queues}
        return {name: both if count is None else count for name, count in given.items()}


def confirm_hidden(
    settings: Settings,
    topic: str,
    hidden: Mapping[MessageQueue, int],
    *,
    yes: bool,
    unreadable: bool = False,
) -> None:
    """Ask before a change that hides stored messages from consumers: they read only the read queues.

    `unreadable`: the permission to read is removed.
    """
    if not hidden:
        return
    from rmqcli.commands.common.admin import with_admin
    from rmqcli.commands.common.outcome import confirm
    from rmqcli.render.output import warn
    from rmqcli.render.text import many, number_ranges

    numbers = {queue.queue_id for queue in hidden}
    queues = f"{'queue' if len(numbers) == 1 else 'queues'} {number_ranges(list(numbers))}"
    lost = f"{many(sum(hidden.values()), 'message')} in {queues}, which consumers will not see"
    first = "--perm r" if unreadable else "--write-queues alone"
    unread = with_admin(settings, lambda admin: _unread(admin, topic, hidden))
    consumed = bool(unread) and not any(unread.values())
    warn(
        f"{lost}; "
        + ("all groups have consumed them" if consumed else f"{first} lets them be consumed first")
    )
    change = f"make topic {topic} unreadable" if unreadable else f"reduce the read queues of topic {topic}"
    readers = [f"{group} ({count} not consumed)" if count else group for group, count in unread.items()]
    confirm(settings, f"{change}?", yes=yes, lost=[lost], readers=readers)


async def _unread(admin: Admin, topic: str, hidden: Mapping[MessageQueue, int]) -> dict[str, int]:
    """Return how many of these messages each group has yet to consume; empty if a broker does not report it."""
    from rmqcli.client import ClientError

    with suppress(ClientError):
        return await admin.offsets.unread(topic, hidden)
    return {}


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
