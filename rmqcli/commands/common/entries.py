"""Key-value entries of name servers: the steps that `rmq namesrv kv` and `rmq topic order` share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rmqcli.cli.exit_codes import CommandError, ExitCode
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.configuration import Servers, change_properties
from rmqcli.commands.common.outcome import Failures, confirm, end_partly, show_change
from rmqcli.render.table import NAME_SERVER, Column, show_rows

if TYPE_CHECKING:
    from rmqcli.client import Admin, TopicChange


def show_entries(settings: Settings, namespace: str, name: str | None, column: Column, *, empty: str) -> None:
    """Show the entries of a namespace, or one of them, on every name server. Raise CommandError (4) if there
    are none.
    """
    from rmqcli.plans.properties import compared
    from rmqcli.render.table import show_matrix

    failures: Failures = {}
    tables = _tables(settings, namespace, failures)
    lines = [line for line in compared(tables) if name is None or line.name == name]
    if not lines and not failures and name is not None:
        raise CommandError(empty, ExitCode.NOT_FOUND)
    show_matrix(settings, column, list(tables), lines, empty=empty)
    end_partly(failures)


def set_entry(
    settings: Settings, namespace: str, name: str, value: str, column: Column, *, dry_run: bool, yes: bool
) -> None:
    """Set an entry on every name server that has another value, as `change_properties` does."""

    async def read(admin: Admin, failures: Failures) -> dict[str, dict[str, str]]:
        return await admin.name_servers.entries(namespace, failures=failures)

    async def apply(admin: Admin, values: Mapping[str, str], servers: Sequence[str]) -> TopicChange:
        return await admin.name_servers.put_entry(namespace, name, values[name], servers=servers)

    servers = Servers(NAME_SERVER, read, apply, column, fixed=False)
    change_properties(settings, servers, {name: value}, dry_run=dry_run, yes=yes)


def delete_entry(
    settings: Settings, namespace: str, name: str, *, absent: str, dry_run: bool, yes: bool
) -> None:
    """Delete an entry on every name server that has it. Raise CommandError (4, `absent`) if none has."""
    failures: Failures = {}
    tables = _tables(settings, namespace, failures)
    found = {server: table[name] for server, table in tables.items() if name in table}
    if not found:
        end_partly(failures)
        raise CommandError(absent, ExitCode.NOT_FOUND)
    if dry_run:
        rows = [[server, name, value] for server, value in found.items()]
        show_rows(settings, [NAME_SERVER, Column("NAME", "name"), Column("VALUE", "value")], rows)
        end_partly(failures)
        return
    lost = sorted(set(found.values()))
    confirm(settings, f"delete {name} of {namespace} on {', '.join(found)}?", yes=yes, lost=lost)

    async def main(admin: Admin) -> TopicChange:
        return await admin.name_servers.delete_entry(namespace, name, servers=list(found))

    change = with_admin(settings, main)
    show_change(settings, f"{name} deleted on", change._replace(failures={**failures, **change.failures}))


def _tables(settings: Settings, namespace: str, failures: Failures) -> dict[str, dict[str, str]]:
    return with_admin(settings, lambda admin: admin.name_servers.entries(namespace, failures=failures))
