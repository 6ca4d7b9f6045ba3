"""`rmq profile import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument

from rmqcli.cli.account import file_keys
from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.profiles import check_name, load_profiles
from rmqcli.cli.settings import Settings
from rmqcli.commands.profile.app import NameArgument, ProfileOptions, app, checked_servers, save
from rmqcli.commands.profile.edit import UNSET

FileArgument = Annotated[Path, Argument(metavar="FILE", help="mqadmin's conf/tools.yml.")]


@command(
    app, "import", example="rmq -n ns1:9876 profile import prod $ROCKETMQ_HOME/conf/tools.yml --protected"
)
def import_tools(
    name: NameArgument, path: FileArgument, settings: Settings, *, options: ProfileOptions
) -> None:
    """Keep the account of mqadmin's tools.yml in a profile, which is created if there is none.

    A new profile gets the name servers of -n, RMQ_NAMESRV or NAMESRV_ADDR: tools.yml contains none. The keys
    are copied to the file of profiles, which only its owner may read; to leave them where they are, use rmq
    profile add --secret-key-file. A key file of Java's clients is read, too.
    """
    from msgspec.structs import replace

    from rmqcli.cli.profile import Profile

    known = load_profiles().get(check_name(name))
    if known is None or settings.given.namesrv is not None:
        found = settings.endpoint
        if found.profile is not None or found.source == "the default":
            raise usage_error("tools.yml names no name server: specify --namesrv HOST:PORT")
        servers = checked_servers(found.namesrv)
        known = Profile(servers) if known is None else replace(known, namesrv=servers)
    keys = file_keys(str(path))
    if keys.access_key is None:
        raise usage_error(f"{path}: accessKey and secretKey are expected")
    account = {**UNSET["keys"], **keys._asdict()}
    save(settings, name, replace(known, **account | options.given(settings)))
