"""`rmq namesrv kv list`, `get`, `set` and `delete`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError, ExitCode
from rmqcli.cli.options import YesOption
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.entries import delete_entry, set_entry, show_entries
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.common.properties import DryRunOption
from rmqcli.commands.namesrv.app import KeyArgument, NamespaceArgument
from rmqcli.commands.namesrv.app import kv as group
from rmqcli.render.output import Output
from rmqcli.render.table import Column

NAME = Column("NAME", "name")
ValueArgument = Annotated[str, Argument(metavar="VALUE", help="Value of the entry.")]


@command(group, "list", example="rmq namesrv kv list ORDER_TOPIC_CONFIG")
def list_entries(namespace: NamespaceArgument, settings: Settings) -> None:
    """List the entries of a namespace on all name servers, and in which they differ.

    Piped output: name, one value for each name server in the order of -n, true if they differ. Name servers
    that do not respond are reported, and the exit code is 3.
    """
    show_entries(settings, namespace, None, NAME, empty=f"no entries in {namespace}")


@command(group, "get", example="rmq namesrv kv get ORDER_TOPIC_CONFIG orders")
def get(namespace: NamespaceArgument, name: KeyArgument, settings: Settings) -> None:
    """Print the value of an entry.

    If the name servers have different values, prints that of the first one that has the entry; the others are
    reported, and the exit code is 3. Exit code 4 if no name server has the entry.
    """
    failures: Failures = {}
    values = with_admin(settings, lambda admin: admin.name_servers.entry(namespace, name, failures=failures))
    first = next((value for value in values.values() if value is not None), None)
    if settings.json:
        Output().json({"namespace": namespace, "name": name, "values": values})
    elif first is not None:
        from rmqcli.render.text import printable

        Output().line(printable(first))
    if first is None and not failures:
        raise CommandError(f"no entry {name} in {namespace}", ExitCode.NOT_FOUND)
    others = {
        server: "no such entry" if value is None else f"has {value}"
        for server, value in values.items()
        if value != first
    }
    end_partly(failures, others)


@command(
    group,
    "set",
    example="rmq namesrv kv set ORDER_TOPIC_CONFIG orders 'broker-a:4;broker-b:4' --yes",
)
def set_value(
    namespace: NamespaceArgument,
    name: KeyArgument,
    value: ValueArgument,
    settings: Settings,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Set an entry on all name servers.

    Shows the old and new values and asks for confirmation; without a terminal, --yes is required. Name
    servers that refuse or do not respond are reported, and the exit code is 3. Piped output: name server,
    name, old value, new value.
    """
    set_entry(settings, namespace, name, value, NAME, dry_run=dry_run, yes=yes)


@command(group, "delete", example="rmq namesrv kv delete ORDER_TOPIC_CONFIG orders --yes")
def delete(
    namespace: NamespaceArgument,
    name: KeyArgument,
    settings: Settings,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Delete an entry on all name servers that have it.

    Asks for confirmation; without a terminal, --yes is required. Exit code 4 if none has it. Name servers
    that refuse or do not respond are reported, and the exit code is 3.
    """
    absent = f"no entry {name} in {namespace}"
    delete_entry(settings, namespace, name, absent=absent, dry_run=dry_run, yes=yes)
