"""`rmq dlq list` and `rmq dlq show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError, ExitCode
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import warn_of_clocks, with_admin
from rmqcli.commands.common.messages import Conditions, Form
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.common.watching import watchable
from rmqcli.commands.dlq.app import Access, Choice, GroupArgument, app, letters
from rmqcli.render.table import BROKER, GROUP, MESSAGES, QUEUE, TOPIC, Column
from rmqcli.render.text import age, local_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqcli.client import Admin
    from rmqcli.codec.message import MessageExt
    from rmqcli.dead_letters.letter import Selection

SomeGroupArgument = Annotated[
    str | None, Argument(metavar="[GROUP]", help="Consumer group; default: all groups with their counts.")
]
LETTER_COLUMNS = (
    Column("MESSAGE ID", "msgId", whole=True),
    TOPIC,
    Column("KEYS", "keys", minor=True),
    Column("TAG", "tag", minor=True),
    Column("RETRIES", "retries", number=True, minor=True),
    Column("STORED", "storeTimestamp", local_time, brief=age),
    BROKER,
    QUEUE,
    Column("OFFSET", "queueOffset", number=True),
    Column("STATE", "state"),
)


@command(
    app,
    "list",
    example="""rmq dlq list
rmq dlq list billing -o -20
rmq dlq list billing --where "topic = 'orders' AND price > 5" """,
    rows=Rows.LIST,
)
@watchable
def list_letters(
    settings: Settings,
    *,
    group: SomeGroupArgument = None,
    choice: Choice,
    conditions: Conditions,
    access: Access,
) -> None:
    """List the groups with dead letters, or the dead letters of a group, oldest first.

    Piped output: group and number; or message ID, original topic, keys, tag, retries, store time, broker,
    queue, offset, state (open, sending, sent, dropped). Brokers that do not respond are reported, and the
    exit code is 3.
    """
    if group is None:
        _list_groups(settings)
        return
    from rmqcli.render import show_rows

    access.check(settings, group)
    chosen = choice.selection(conditions)
    warn_of_clocks(settings, choice.offset)
    failures: Failures = {}
    rows = with_admin(settings, lambda admin: _rows(admin, group, chosen, access, failures))
    show_rows(settings, LETTER_COLUMNS, rows, empty=f"no dead letters of group {group} are selected")
    end_partly(failures)


def _list_groups(settings: Settings) -> None:
    from rmqcli.monitor.measures import dlq
    from rmqcli.render import show_rows

    found = with_admin(settings, dlq)
    rows = [[figure.target, int(figure.value)] for figure in found.figures]
    show_rows(settings, [GROUP, MESSAGES], rows, empty="no group has dead letters")
    end_partly(found.lost)


async def _rows(
    admin: Admin, group: str, chosen: Selection, access: Access, failures: Failures
) -> list[list[Any]]:
    journal = access.journal(group)
    async with letters(admin, group, chosen, access, journal, again=True) as reader:
        found = await reader.find()
        failures.update(found.failures)
        async with reader.read(found) as selected:
            return [_row(letter, reader.state(letter)) async for letter in selected]


def _row(letter: MessageExt, state: str) -> list[Any]:
    from rmqcli.dead_letters.letter import origin_topic

    kind = [letter.msg_id, origin_topic(letter), letter.keys, letter.tags, letter.reconsume_times]
    return [
        *kind,
        letter.store_timestamp,
        letter.broker_name,
        letter.queue_id,
        letter.queue_offset,
        str(state),
    ]


@command(
    app,
    "show",
    example="rmq dlq show billing --key 42\nrmq dlq show billing -o -1 --json",
    rows=Rows.LIST,
)
def show(
    group: GroupArgument,
    settings: Settings,
    *,
    choice: Choice,
    conditions: Conditions,
    access: Access,
    form: Form,
) -> None:
    """Show dead letters of a group with their bodies, as `rmq pull` does.

    Exit code 4 if there is none. Brokers that do not respond are reported, and the exit code is 3.
    """
    access.check(settings, group)
    chosen = choice.selection(conditions)
    warn_of_clocks(settings, choice.offset)
    render = form.renderer(settings)
    failures: Failures = {}
    printed = with_admin(settings, lambda admin: _print(admin, group, chosen, access, render, failures))
    end_partly(failures, done=bool(printed))
    if not printed:
        raise CommandError(f"no dead letter of group {group} is selected", ExitCode.NOT_FOUND)


async def _print(
    admin: Admin,
    group: str,
    chosen: Selection,
    access: Access,
    render: Callable[[MessageExt], bytes],
    failures: Failures,
) -> int:
    from rmqcli.render import Output

    output, printed = Output(), 0
    async with letters(admin, group, chosen, access, access.journal(group), again=True) as reader:
        found = await reader.find()
        failures.update(found.failures)
        async with reader.read(found) as selected:
            async for letter in selected:
                output.write(render(letter))
                printed += 1
    output.flush()
    return printed
