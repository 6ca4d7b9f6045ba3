"""`rmq namesrv`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from rmqcli.cli.command import BareGroup, command, command_group
from rmqcli.cli.exit_codes import CommandError, ExitCode
from rmqcli.cli.options import YesOption
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.codec.ids import join_address
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.configuration import (
    NAME,
    Configuration,
    DryRunOption,
    PatternsArgument,
    Servers,
    ValuesArgument,
    change_properties,
    found_properties,
    values_of,
)
from rmqcli.commands.common.entries import delete_entry, set_entry, show_entries
from rmqcli.commands.common.listening import Listening, warn_of_open_server
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.render.output import Output
from rmqcli.render.table import NAME_SERVER, Column

if TYPE_CHECKING:
    from rmqcli.broker.config import NamesrvConfig
    from rmqcli.broker.net.tls.acceptor import TlsAcceptor
    from rmqcli.client import Admin, TopicChange
    from rmqcli.plans.properties import Tables

app = command_group(
    "namesrv",
    "Run a name server; show and change name servers. Without a command, `rmq namesrv` is `rmq namesrv run`.",
    cls=BareGroup,
)
config_group = command_group("config", "Show and change the configuration of name servers.")
kv_group = command_group("kv", "Show and change the key-value entries of name servers.")
app.add_typer(config_group)
app.add_typer(kv_group)

NamespaceArgument = Annotated[
    str, Argument(metavar="NAMESPACE", help="Namespace of the entries, e.g. ORDER_TOPIC_CONFIG.")
]
KeyArgument = Annotated[str, Argument(metavar="NAME", help="Name of the entry.")]


@command(app, "run", example="rmq namesrv run\nrmq namesrv run --config namesrv.conf --host 0.0.0.0")
def run(settings: Settings, configuration: Configuration, listening: Listening) -> None:
    """Run a name server until Ctrl-C or SIGTERM (exit code 0).

    Reads the property names of Java's namesrv.conf; unknown properties are reported and ignored.
    """
    from rmqcli.broker.config import NamesrvConfig
    from rmqcli.commands.common.serving import log_to_stderr, run_until_stopped

    log_to_stderr(settings)
    found = listening.configure(configuration, NamesrvConfig)
    tls = configuration.accepting(settings, found)
    run_until_stopped(lambda stack: _start(stack, settings, found, tls))


async def _start(stack: AsyncExitStack, settings: Settings, config: NamesrvConfig, tls: TlsAcceptor) -> None:
    from rmqcli.broker.namesrv import open_name_server
    from rmqcli.commands.common.serving import announce, opened

    host = config.bind_address
    opening = open_name_server(config, host=host, tls=tls)
    address = join_address(host, config.listen_port)
    server = await opened(stack, opening, "the name server", address, "--port")
    warn_of_open_server(host, server.port)
    announce(settings, {"namesrv": server.address}, f"name server listening on {server.address}")


@command(
    config_group,
    "show",
    example="rmq namesrv config show\nrmq namesrv config show 'order*' --json",
    rows=Rows.LIST,
)
def show(settings: Settings, patterns: PatternsArgument = None) -> None:
    """Show the properties of all name servers, one column each, and where they differ.

    Piped output: property, one value for each name server in the order of -n, true if they differ. Name
    servers that do not respond are reported, and the exit code is 3. Exit code 4 if no property has the name.
    """
    from rmqcli.plans.properties import compared
    from rmqcli.render.table import show_matrix

    failures: Failures = {}
    tables = with_admin(settings, lambda admin: _read(admin, failures))
    found = found_properties(tables, patterns or ())
    show_matrix(settings, NAME, list(found), compared(found))
    end_partly(failures)


@command(
    config_group,
    "set",
    example="""rmq namesrv config set orderMessageEnable=true --dry-run
rmq namesrv config set orderMessageEnable=true --yes""",
    rows=Rows.DOCUMENT,
)
def set_properties(
    settings: Settings, values: ValuesArgument, dry_run: DryRunOption = False, yes: YesOption = False
) -> None:
    """Change properties of all name servers.

    Shows the old and new values and asks for confirmation; without a terminal, --yes is required. The values
    are read again afterwards: a name server that still has the old one is reported, and the exit code is 3,
    as for those that refuse or do not respond.

    Piped output: name server, property, old value, new value.
    """
    wanted = values_of(values)

    async def apply(admin: Admin, values: Mapping[str, str], servers: Sequence[str]) -> TopicChange:
        return await admin.name_servers.set_config(values, servers=servers)

    change_properties(settings, Servers(NAME_SERVER, _read, apply), wanted, dry_run=dry_run, yes=yes)


async def _read(admin: Admin, failures: Failures) -> Tables:
    return await admin.name_servers.configs(failures=failures)


NAME_COLUMN = Column("NAME", "name")
ValueArgument = Annotated[str, Argument(metavar="VALUE", help="Value of the entry.")]


@command(
    kv_group,
    "list",
    example="rmq namesrv kv list ORDER_TOPIC_CONFIG",
    rows=Rows.LIST,
)
def list_entries(namespace: NamespaceArgument, settings: Settings) -> None:
    """List the entries of a namespace on all name servers, and where they differ.

    Piped output: name, one value for each name server in the order of -n, true if they differ. Name servers
    that do not respond are reported, and the exit code is 3.
    """
    show_entries(settings, namespace, None, NAME_COLUMN, empty=f"no entries in {namespace}")


@command(kv_group, "get", example="rmq namesrv kv get ORDER_TOPIC_CONFIG orders")
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
    kv_group,
    "set",
    example="rmq namesrv kv set ORDER_TOPIC_CONFIG orders 'broker-a:4;broker-b:4' --yes",
    rows=Rows.DOCUMENT,
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
    set_entry(settings, namespace, name, value, NAME_COLUMN, dry_run=dry_run, yes=yes)


@command(
    kv_group,
    "delete",
    example="rmq namesrv kv delete ORDER_TOPIC_CONFIG orders --yes",
    rows=Rows.DOCUMENT,
)
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
