"""`rmq profile show`."""

from __future__ import annotations

from typing import Annotated, Any

from typer import Argument, Option

from rmqcli.cli.command import command
from rmqcli.cli.endpoints import Endpoint, protecting
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.profiles import load_file, profile_in
from rmqcli.cli.settings import Given, Settings
from rmqcli.cli.tls import resolved, tls_source, tls_text
from rmqcli.commands.profile.app import app, show_profiles

SomeNameArgument = Annotated[
    str | None, Argument(metavar="[NAME]", help="Name of the profile; default: the one in use.")
]
ResolvedOption = Annotated[
    bool, Option("--resolved", help="Show the values that commands use, with what set each.")
]


@command(app, "show", example="rmq profile show prod\nrmq profile show --resolved")
def show(settings: Settings, name: SomeNameArgument = None, resolved: ResolvedOption = False) -> None:
    """Show a profile, or with --resolved the values that a command would use.

    Piped output of --resolved: field, value, source. The secret key is never shown.
    """
    if resolved:
        _show_resolved(settings, name)
        return
    name = name or settings.endpoint.name
    if name is None:
        raise usage_error("no profile is in use; specify NAME, or choose one with: rmq profile use NAME")
    show_profiles(settings, [(name, profile_in(load_file(), name))])


def _show_resolved(settings: Settings, name: str | None) -> None:
    from rmqcli.render import Column, show_rows

    given = settings.given if name is None else settings.given.overlaid({"profile": name})
    columns = [Column("FIELD", "field"), Column("VALUE", "value"), Column("SOURCE", "source")]
    show_rows(settings, columns, list(_fields(given, Settings(given).endpoint)))


def _account(given: Given, endpoint: Endpoint) -> tuple[str | None, str]:
    from rmqcli.cli.account import access_key

    key, source = access_key(given, endpoint)
    return key, source or "not set"


def _fields(given: Given, endpoint: Endpoint) -> list[list[Any]]:
    """Return field, value and source of everything that a profile can set."""
    settings, profile = Settings(given), endpoint.profile
    from_profile = f"profile {endpoint.name}"
    rules = [f"{source}={target}" for source, target in settings.address_map(endpoint).items()]
    timeout = settings.timeout(endpoint)
    tls = resolved(given, profile)
    guard = protecting(endpoint)
    group = None if profile is None else profile.group
    return [
        ["namesrv", endpoint.namesrv, endpoint.source],
        ["map", rules, "--map" if given.map else from_profile if rules else "not set"],
        ["timeout", timeout, "--timeout" if given.timeout else from_profile if timeout else "the command"],
        ["group", group, from_profile if group else "not set"],
        ["tls", tls_text(tls), tls_source(given, profile, from_profile)],
        ["accessKey", *_account(given, endpoint)],
        ["protected", guard is not None, f"profile {guard}" if guard else "not set"],
    ]
