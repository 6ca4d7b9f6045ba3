"""`rmq profile`: named clusters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from typer import Argument

from rmqcli.cli.command import command, command_group
from rmqcli.cli.endpoints import check_name, load_profiles, profile, profiles_path, save_profiles
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.settings import Settings
from rmqcli.render.output import note

app = command_group("profile", "Manage named clusters.")

NameArgument = Annotated[str, Argument(metavar="NAME", help="Name of the profile.")]
AddressArgument = Annotated[str, Argument(metavar="HOST:PORT", help="Name servers, separated by ';'.")]


def _show(settings: Settings, found: Mapping[str, str]) -> None:
    from rmqcli.render import Column, show_rows

    columns = [Column("NAME", "name"), Column("NAME SERVERS", "namesrv")]
    show_rows(settings, columns, list(found.items()), empty=f"no profiles in {profiles_path()}")


@command(app, "list", example="rmq profile list")
def list_profiles(settings: Settings) -> None:
    """List the profiles. The profile `default` is used when no name server is given."""
    _show(settings, load_profiles())


@command(app, "show", example="rmq profile show prod")
def show(name: NameArgument, settings: Settings) -> None:
    """Show a profile."""
    _show(settings, {name: profile(name)})


@command(app, "set", example="rmq profile set prod 'ns1:9876;ns2:9876'\nrmq --profile prod topic list")
def set_profile(name: NameArgument, addresses: AddressArgument, settings: Settings) -> None:
    """Create or update a profile."""
    if not addresses.strip():
        raise usage_error("HOST:PORT must not be empty")
    from rmqcli.client.wire.addresses import name_servers

    name_servers(addresses)  # rejects invalid addresses
    path = save_profiles(load_profiles() | {check_name(name): addresses.strip()})
    if settings.verbose:
        note(f"written to {path}")


@command(app, "remove", example="rmq profile remove prod")
def remove(name: NameArgument, settings: Settings) -> None:
    """Remove a profile."""
    profile(name)
    save_profiles({key: value for key, value in load_profiles().items() if key != name})
