"""`rmq profile import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.profiles import check_name, load_profiles
from rmqcli.cli.settings import Settings
from rmqcli.commands.profile.app import NameArgument, ProfileOptions, app, checked_servers, save
from rmqcli.render.output import warn

FileArgument = Annotated[Path, Argument(metavar="FILE", help="mqadmin's conf/tools.yml.")]


@command(
    app, "import", example="rmq -n ns1:9876 profile import prod $ROCKETMQ_HOME/conf/tools.yml --protected"
)
def import_tools(
    name: NameArgument, path: FileArgument, settings: Settings, *, options: ProfileOptions
) -> None:
    """Keep the account of mqadmin's tools.yml in a profile, which is created if there is none.

    A new profile gets the name servers of -n, RMQ_NAMESRV or NAMESRV_ADDR: tools.yml contains none. The keys
    are kept for brokers that check signatures; this version does not sign requests.
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
    access, secret = _account(path)
    save(settings, name, replace(known, access_key=access, secret_key=secret, **options.given(settings)))
    warn(
        f"the keys of {access} are kept in profile {name}, but not used: this version does not sign requests"
    )


def _account(path: Path) -> tuple[str, str]:
    """Return accessKey and secretKey of the file from which mqadmin signs its requests."""
    import yaml

    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: not a YAML file: {error}", ExitCode.USAGE) from error
    keys = [content.get(key) if isinstance(content, dict) else None for key in ("accessKey", "secretKey")]
    if not all(keys):
        raise CommandError(f"{path}: accessKey and secretKey are expected", ExitCode.USAGE)
    return str(keys[0]), str(keys[1])
