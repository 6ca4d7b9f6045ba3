"""Properties of servers on the command line: arguments, and the steps of a change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

from typer import Argument, Option

from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, confirm, end_partly
from rmqcli.grammar.values import by_name
from rmqcli.render.output import Output, note, warn
from rmqcli.render.table import Column, objects, show_rows

if TYPE_CHECKING:
    from rmqcli.client import Admin, TopicChange
    from rmqcli.plans.properties import Change, Tables

PatternsArgument = Annotated[
    list[str] | None,
    Argument(metavar="PROPERTY", help="Names of properties; `*` and `?` stand for any characters."),
]
ValuesArgument = Annotated[
    list[str], Argument(metavar="NAME=VALUE", help="Properties to change, with Java's names.")
]
DryRunOption = Annotated[bool, Option("--dry-run", help="Show what would change; change nothing.")]

NAME = Column("PROPERTY", "property")
Read: TypeAlias = "Callable[[Admin, Failures], Awaitable[Tables]]"
Apply: TypeAlias = "Callable[[Admin, Mapping[str, str], Sequence[str]], Awaitable[TopicChange]]"


def values_of(texts: Sequence[str]) -> dict[str, str]:
    """Return the properties of `NAME=VALUE` arguments; raise a usage error for other texts."""
    entries = [text.partition("=") for text in texts]
    for name, equals, _ in entries:
        if not equals or not name.strip():
            raise usage_error(f"{name!r}: expected NAME=VALUE")
    return by_name("property", ((name.strip(), value) for name, _, value in entries))


class Servers(NamedTuple):
    """The servers whose properties change: the column of their names, and how to read and to write.

    `name` is the column of the properties. `fixed` is True if only names that a server lists are known.
    """

    column: Column
    read: Read
    apply: Apply
    name: Column = NAME
    fixed: bool = True


def change_properties(
    settings: Settings, servers: Servers, values: Mapping[str, str], *, dry_run: bool, yes: bool
) -> None:
    """Show what changes where, ask, change it, and read it again; end as `end_partly` does."""
    from rmqcli.plans.properties import planned

    columns = [servers.column, servers.name, Column("OLD", "old"), Column("NEW", "new")]
    failures: Failures = {}
    changes = planned(_read(settings, servers, values, failures), values)
    if not settings.json:
        show_rows(settings, columns, changes, empty="nothing to change")
    elif dry_run:
        Output().json({"changes": objects(columns, changes), "dryRun": True})
    elif not changes:
        _report(columns, changes, (), failures)
    if dry_run or not changes:
        end_partly(failures)
        return
    confirm(settings, f"change {_of(changes)}?", yes=yes)
    changed, refused = with_admin(settings, lambda admin: _apply(admin, servers, values, changes))
    if settings.json:
        _report(columns, changes, changed, failures | refused)
    elif changed:
        note(f"changed on {', '.join(changed)}")
    end_partly(failures, refused, done=bool(changed))


async def _apply(
    admin: Admin, servers: Servers, values: Mapping[str, str], changes: Sequence[Change]
) -> tuple[list[str], dict[str, Exception | str]]:
    """Return the servers that have the values now, and why others do not."""
    from rmqcli.client import ClientError
    from rmqcli.plans.properties import not_taken

    done = await servers.apply(admin, values, list(dict.fromkeys(change.server for change in changes)))
    after: Tables = {}
    try:
        after = await servers.read(admin, {})
    except ClientError as error:
        warn(f"the values could not be read again: {error}")
    left = not_taken([change for change in changes if change.server in done.brokers], after)
    return [label for label in done.brokers if label not in left], {**done.failures, **left}


def _read(settings: Settings, servers: Servers, values: Mapping[str, str], failures: Failures) -> Tables:
    from rmqcli.plans.properties import unlisted

    tables = with_admin(settings, lambda admin: servers.read(admin, failures))
    for name in unlisted(tables, values) if servers.fixed else ():
        warn(f"no server lists a property {name}: it has no value, or the servers do not know it")
    return tables


def _of(changes: Sequence[Change]) -> str:
    names = list(dict.fromkeys(change.name for change in changes))
    servers = list(dict.fromkeys(change.server for change in changes))
    return f"{', '.join(names)} on {', '.join(servers)}"


def _report(
    columns: Sequence[Column], changes: Sequence[Change], changed: Sequence[str], failures: Mapping[str, Any]
) -> None:
    texts = {name: str(error) for name, error in failures.items()}
    Output().json({"changes": objects(columns, changes), "changed": list(changed), "failures": texts})


def found_properties(tables: Tables, patterns: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the properties that match; CommandError (4) if no server has one."""
    from rmqcli.plans.properties import selected

    found = selected(tables, patterns)
    if patterns and not any(found.values()):
        raise CommandError(f"no property matches {', '.join(patterns)}", ExitCode.NOT_FOUND)
    return found


def show_properties(settings: Settings, server: Column, tables: Tables, patterns: Sequence[str]) -> None:
    """Print the properties that match, a row for each server and property; raises as `found_properties`."""
    rows = [
        [label, name, value]
        for label, table in found_properties(tables, patterns).items()
        for name, value in table.items()
    ]
    show_rows(settings, [server, NAME, Column("VALUE", "value")], rows)
