"""`rmq dlq show`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError, ExitCode
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.clocks import warn_of_clocks
from rmqcli.commands.common.messages import Conditions, Form
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.dlq.app import Access, Choice, GroupArgument, app, letters

if TYPE_CHECKING:
    from collections.abc import Callable

    from codec.message import MessageExt
    from rmqcli.client import Admin
    from rmqcli.dead_letters.selection import Selection


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
