"""`rmq namesrv config show` and `set`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rmqcli.cli.command import command
from rmqcli.cli.options import YesOption
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.common.properties import (
    NAME,
    DryRunOption,
    PatternsArgument,
    Servers,
    ValuesArgument,
    change_properties,
    found_properties,
    values_of,
)
from rmqcli.commands.namesrv.app import config as group
from rmqcli.render.columns import NAME_SERVER

if TYPE_CHECKING:
    from rmqcli.client import Admin, TopicChange
    from rmqcli.flows.configuring import Tables


@command(group, "show", example="rmq namesrv config show\nrmq namesrv config show 'order*' --json")
def show(settings: Settings, patterns: PatternsArgument = None) -> None:
    """Show the properties of all name servers, a column each, and in which they differ.

    Piped output: property, one value for each name server in the order of -n, true if they differ. Name
    servers that do not respond are reported, and the exit code is 3. Exit code 4 if no property has the name.
    """
    from rmqcli.flows.configuring import compared
    from rmqcli.render.matrix import show_matrix

    failures: Failures = {}
    tables = with_admin(settings, lambda admin: _read(admin, failures))
    found = found_properties(tables, patterns or ())
    show_matrix(settings, NAME, list(found), compared(found))
    end_partly(failures)


@command(
    group,
    "set",
    example="""rmq namesrv config set orderMessageEnable=true --dry-run
rmq namesrv config set orderMessageEnable=true --yes""",
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
