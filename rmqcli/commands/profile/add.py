"""`rmq profile add`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.profiles import check_name, load_profiles
from rmqcli.cli.settings import Settings
from rmqcli.commands.profile.app import (
    AddressArgument,
    NameArgument,
    ProfileOptions,
    app,
    checked_servers,
    save,
)


@command(
    app,
    "add",
    example="""rmq profile add prod 'ns1:9876;ns2:9876' --protected
rmq profile add docker localhost:9876 --map 172.17.0.2:10911=localhost:10911""",
)
def add(
    name: NameArgument, addresses: AddressArgument, settings: Settings, *, options: ProfileOptions
) -> None:
    """Add a profile.

    --map, --timeout, --tls… and the account are saved, too: a file of keys by its path, what comes from a
    pipe (--secret-key-file /dev/stdin) in the file of profiles, which only its owner may read. Changes of a
    protected cluster that ask for confirmation want the name of the profile, typed or as --confirm NAME;
    --yes is not enough, however the name servers are given.
    """
    from rmqcli.cli.profile import Profile

    if check_name(name) in load_profiles():
        raise usage_error(f"profile {name} exists; change it with: rmq profile edit {name}")
    save(settings, name, Profile(checked_servers(addresses), **options.given(settings)))
