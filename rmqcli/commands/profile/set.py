"""`rmq profile set`, the former spelling of `add` and `edit -n`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.profiles import check_name, load_profiles
from rmqcli.cli.settings import Settings
from rmqcli.commands.profile.app import AddressArgument, NameArgument, app, checked_servers, save


@command(app, "set", example="rmq profile set prod 'ns1:9876;ns2:9876'\nrmq --profile prod topic list")
def set_profile(name: NameArgument, addresses: AddressArgument, settings: Settings) -> None:
    """Add a profile, or change its name servers (an old spelling of `add` and `edit`)."""
    from msgspec.structs import replace

    from rmqcli.cli.profile import Profile

    servers = checked_servers(addresses)
    known = load_profiles().get(check_name(name))
    save(settings, name, Profile(servers) if known is None else replace(known, namesrv=servers))
