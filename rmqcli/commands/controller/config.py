"""`rmq controller config show` and `set`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError
from rmqcli.cli.options import YesOption
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.common.properties import (
    DryRunOption,
    PatternsArgument,
    Servers,
    ValuesArgument,
    change_properties,
    show_properties,
    values_of,
)
from rmqcli.commands.controller.app import CONTROLLER, FEATURE, ControllersArgument
from rmqcli.commands.controller.app import config as group

if TYPE_CHECKING:
    from rmqcli.client import Admin, TopicChange


@command(group, "show", example="rmq controller config show 10.0.0.1:9878 'controller*'")
def show(controllers: ControllersArgument, settings: Settings, patterns: PatternsArgument = None) -> None:
    """Show the properties of controllers.

    Piped output: controller, property, value. Controllers that do not respond are reported, and the exit code
    is 3. Exit code 4 if no property has the name.
    """
    failures: Failures = {}
    tables = with_admin(settings, lambda admin: _read(admin, controllers, failures))
    show_properties(settings, CONTROLLER, tables, patterns or ())
    end_partly(failures)


@command(group, "set", example="rmq controller config set 10.0.0.1:9878 enableElectUncleanMaster=true --yes")
def set_properties(
    controllers: ControllersArgument,
    values: ValuesArgument,
    settings: Settings,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Change properties of running controllers.

    Shows the old and new values and asks for confirmation; without a terminal, --yes is required. The values
    are read again afterwards: a controller that still has the old one is reported, and the exit code is 3, as
    for controllers that refuse or do not respond. Piped output: controller, property, old value, new value.
    """

    async def apply(admin: Admin, values: Mapping[str, str], labels: Sequence[str]) -> TopicChange:
        return await admin.controllers.set_config(labels, values)

    servers = Servers(CONTROLLER, lambda admin, failures: _read(admin, controllers, failures), apply)
    change_properties(settings, servers, values_of(values), dry_run=dry_run, yes=yes)


async def _read(admin: Admin, controllers: str, failures: Failures) -> dict[str, dict[str, str]]:
    from rmqcli.client import NotSupported
    from rmqcli.flows.unserved import unserved

    addresses = [one.strip() for one in controllers.split(";") if one.strip()]
    try:
        return await admin.controllers.configs(addresses, failures=failures)
    except NotSupported as error:
        raise CommandError(await unserved(admin, error, FEATURE)) from None
