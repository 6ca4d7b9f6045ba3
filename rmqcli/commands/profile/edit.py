"""`rmq profile edit`."""

from __future__ import annotations

from typing import Annotated, Any

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.profiles import profile
from rmqcli.cli.settings import Settings
from rmqcli.cli.tls import FIELDS
from rmqcli.commands.profile.app import NameArgument, ProfileOptions, app, checked_servers, save

UNSET: dict[str, dict[str, Any]] = {
    "map": {"map": {}},
    "timeout": {"timeout": None},
    "group": {"group": None},
    "keys": dict.fromkeys(
        ("access_key", "secret_key", "secret_key_file", "secret_command", "security_token")
    ),
    "tls": dict.fromkeys(FIELDS),
}
UnsetOption = Annotated[
    list[str] | None,
    Option("--unset", metavar="FIELD", help="Forget a field: map, timeout, group, keys or tls; repeatable."),
]


@command(
    app,
    "edit",
    example="""rmq profile edit prod -n 'ns1:9876;ns3:9876'
rmq profile edit prod --timeout 10 --group billing
rmq profile edit prod --unset map --no-protected
rmq profile edit prod --access-key billing-app --secret-command 'pass rmq'""",
)
def edit(
    name: NameArgument, settings: Settings, *, options: ProfileOptions, unset: UnsetOption = None
) -> None:
    """Change a profile: what is given replaces what it held, the rest is kept."""
    from msgspec.structs import replace

    unknown = [field for field in unset or () if field not in UNSET]
    if unknown:
        raise usage_error(f"--unset {unknown[0]}: expected one of {', '.join(UNSET)}")
    changes = options.given(settings)
    if settings.given.namesrv is not None:
        changes["namesrv"] = checked_servers(settings.given.namesrv)
    for field in unset or ():
        changes |= UNSET[field]
    if not changes:
        raise usage_error(
            "nothing to change: specify --namesrv, --map, --timeout, --group, --protected, --tls, --unset "
            "or the options of an account"
        )
    save(settings, name, replace(profile(name), **changes))
