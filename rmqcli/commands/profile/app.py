"""The group `rmq profile`; arguments, options and columns that its commands share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from rmqcli.cli.command import command_group
from rmqcli.cli.endpoints import check_addresses, parse_map
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.option_groups import OptionGroup
from rmqcli.cli.profiles import save_profile
from rmqcli.cli.settings import Settings
from rmqcli.cli.tls import FIELDS as TLS_FIELDS
from rmqcli.cli.tls import SYSTEM, tls_text
from rmqcli.render.output import note

if TYPE_CHECKING:
    from rmqcli.cli.profile import Profile

app = command_group("profile", "Manage named clusters.")

NameArgument = Annotated[str, Argument(metavar="NAME", help="Name of the profile.")]
AddressArgument = Annotated[str, Argument(metavar="HOST:PORT", help="Name servers, separated by ';'.")]
DefaultGroupOption = Annotated[
    str | None, Option("--group", "-g", metavar="GROUP", help="Consumer group of commands that name none.")
]
ProtectedOption = Annotated[
    bool | None,
    Option(
        "--protected/--no-protected",
        help="Ask for the name of the profile before changes.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class ProfileOptions(OptionGroup):
    """The options of a profile beside its name servers; None: not given."""

    group: DefaultGroupOption = None
    protected: ProtectedOption = None

    def given(self, settings: Settings) -> dict[str, Any]:
        """The fields of Profile to change. `--map`, `--timeout`, `--tls…` and the account are those of the
        program."""
        from rmqcli.cli.account import kept

        fields = {
            "map": parse_map(settings.given.map or ()) or None,
            "timeout": settings.given.timeout,
            "group": self.group,
            "protected": self.protected,
            **{name: _absolute(getattr(settings.given, name)) for name in TLS_FIELDS},
        }
        return {name: value for name, value in fields.items() if value is not None} | kept(settings.given)


def _absolute(value: Any) -> Any:
    """Return the absolute path of a path, other values as they are: profiles are used in any folder."""
    return str(Path(value).absolute()) if isinstance(value, str) and value != SYSTEM else value


def checked_servers(addresses: str) -> str:
    """Return the addresses of name servers; raise a usage error for others."""
    if not addresses.strip(" ;,"):
        raise usage_error("HOST:PORT must not be empty")
    check_addresses(addresses, "HOST:PORT")
    return addresses.strip()


def save(settings: Settings, name: str, profile: Profile) -> None:
    """Save a profile whose rules and group are valid; raise a usage error otherwise."""
    from codec.message import check_group
    from rmqcli.client.wire.address_map import AddressMap

    AddressMap(profile.map)  # rejects invalid rules
    if profile.group is not None:
        try:
            check_group(profile.group)
        except ValueError as error:
            raise usage_error(str(error)) from None
    path = save_profile(name, profile)
    if settings.verbose:
        note(f"written to {path}")


def show_profiles(settings: Settings, found: Iterable[tuple[str, Profile]], *, empty: str = "") -> None:
    """Print profiles, one a row. Keys stay secret."""
    from rmqcli.render import Column, show_rows

    columns = [
        Column("NAME", "name"),
        Column("NAME SERVERS", "namesrv"),
        Column("MAP", "map"),
        Column("TIME-OUT", "timeout", number=True),
        Column("GROUP", "group"),
        Column("PROTECTED", "protected", lambda on: "yes" if on else ""),
        Column("ACCESS KEY", "accessKey"),
        Column("TLS", "tls"),
    ]
    show_rows(settings, columns, [_row(name, one) for name, one in found], empty=empty)


def _row(name: str, one: Profile) -> list[Any]:
    rules = [f"{source}={target}" for source, target in one.map.items()]
    fields = {name: getattr(one, name) for name in TLS_FIELDS}
    return [name, one.namesrv, rules, one.timeout, one.group, one.protected, one.access_key, tls_text(fields)]
