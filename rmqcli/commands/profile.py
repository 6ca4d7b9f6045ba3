"""`rmq profile`: named clusters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from rmqcli.cli.account import file_keys
from rmqcli.cli.command import command, command_group
from rmqcli.cli.endpoints import (
    VARIABLES,
    Endpoint,
    check_addresses,
    environment_name_servers,
    parse_map,
    protecting,
)
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import OptionGroup
from rmqcli.cli.profiles import (
    check_name,
    load_file,
    load_profiles,
    profile,
    profile_in,
    profiles_path,
    save_file,
    save_profile,
)
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Given, Settings
from rmqcli.cli.tls import FIELDS, SYSTEM, resolved, tls_source, tls_text
from rmqcli.cli.tls import FIELDS as TLS_FIELDS
from rmqcli.render.output import note, warn

if TYPE_CHECKING:
    from rmqcli.cli.profile_values import Profile

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
    """The options of a profile besides its name servers; None: not given."""

    group: DefaultGroupOption = None
    protected: ProtectedOption = None

    def given(self, settings: Settings) -> dict[str, Any]:
        """Return the fields of Profile to change. `--map`, `--timeout`, `--tls…` and the account come from
        the global options.
        """
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
    """Return a path as an absolute path, because profiles are used in any folder; return other values
    unchanged.
    """
    return str(Path(value).absolute()) if isinstance(value, str) and value != SYSTEM else value


def checked_servers(addresses: str) -> str:
    """Return the addresses of name servers. Raise a usage error if one is invalid."""
    if not addresses.strip(" ;,"):
        raise usage_error("HOST:PORT must not be empty")
    check_addresses(addresses, "HOST:PORT")
    return addresses.strip()


def save(settings: Settings, name: str, profile: Profile) -> None:
    """Save a profile whose rules and group are valid; raise a usage error otherwise."""
    from rmqcli.client.wire.addresses import AddressMap
    from rmqcli.codec.message import check_group

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
    """Print profiles, one per row, without secret keys."""
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

    --map, --timeout, --tls… and the account are also saved: for a key file, only its path; keys from a pipe
    (--secret-key-file /dev/stdin) are stored in the profiles file, which only its owner may read. Changes of
    a protected cluster that ask for confirmation require the name of the profile, typed or as --confirm NAME;
    --yes is not enough, however the name servers are given.
    """
    from rmqcli.cli.profile_values import Profile

    if check_name(name) in load_profiles():
        raise usage_error(f"profile {name} exists; change it with: rmq profile edit {name}")
    save(settings, name, Profile(checked_servers(addresses), **options.given(settings)))


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
    """Change the given fields of a profile; the others are kept."""
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


@command(app, "set", example="rmq profile set prod 'ns1:9876;ns2:9876'\nrmq --profile prod topic list")
def set_profile(name: NameArgument, addresses: AddressArgument, settings: Settings) -> None:
    """Add a profile, or change its name servers (old form of `add` and `edit`)."""
    from msgspec.structs import replace

    from rmqcli.cli.profile_values import Profile

    servers = checked_servers(addresses)
    known = load_profiles().get(check_name(name))
    save(settings, name, Profile(servers) if known is None else replace(known, namesrv=servers))


@command(app, "use", example="rmq profile use prod\nrmq profile current")
def use(name: NameArgument, settings: Settings) -> None:
    """Use a profile from now on, unless an option or an environment variable names another cluster."""
    from msgspec.structs import replace

    file = load_file()
    profile_in(file, name)
    save_file(replace(file, current=name))
    if environment_name_servers() is not None:
        warn(f"{' or '.join(VARIABLES)} is set and wins over the profile: unset it to use {name}")


@command(
    app,
    "current",
    example="rmq profile current\nrmq --profile prod profile current --json",
    rows=Rows.LIST,
)
def current(settings: Settings) -> None:
    """Show the cluster that commands use, and where it is set.

    Piped output: profile (empty without one), name servers, source.
    """
    from rmqcli.render import Column, show_rows

    found = settings.endpoint
    columns = [Column("NAME", "name"), Column("NAME SERVERS", "namesrv"), Column("SOURCE", "source")]
    show_rows(settings, columns, [[found.name, found.namesrv, found.source]])


SomeNameArgument = Annotated[
    str | None, Argument(metavar="[NAME]", help="Name of the profile; default: the one in use.")
]
ResolvedOption = Annotated[
    bool, Option("--resolved", help="Show the values that commands use, and where each is set.")
]


@command(
    app,
    "show",
    example="rmq profile show prod\nrmq profile show --resolved",
    rows=Rows.LIST,
)
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


@command(
    app,
    "test",
    example="rmq profile test prod",
    rows=Rows.LIST,
)
def test(settings: Settings, name: SomeNameArgument = None) -> None:
    """Diagnose the cluster of a profile, as `rmq doctor` does."""
    from rmqcli.commands.doctor import run

    given = settings.given if name is None else settings.given.overlaid({"profile": name})
    run(Settings(given))


@command(
    app,
    "list",
    example="rmq profile list",
    rows=Rows.LIST,
)
def list_profiles(settings: Settings) -> None:
    """List the profiles. The profile `default` is used when nothing else names a cluster."""
    show_profiles(settings, load_profiles().items(), empty=f"no profiles in {profiles_path()}")


FileArgument = Annotated[Path, Argument(metavar="FILE", help="mqadmin's conf/tools.yml.")]


@command(
    app, "import", example="rmq -n ns1:9876 profile import prod $ROCKETMQ_HOME/conf/tools.yml --protected"
)
def import_tools(
    name: NameArgument, path: FileArgument, settings: Settings, *, options: ProfileOptions
) -> None:
    """Save the account of mqadmin's tools.yml in a profile, which is created if it does not exist.

    A new profile gets the name servers of -n, RMQ_NAMESRV or NAMESRV_ADDR: tools.yml contains none. The keys
    are copied to the profiles file, which only its owner may read; to leave them where they are, use rmq
    profile add --secret-key-file. A key file of Java's clients is also accepted.
    """
    from msgspec.structs import replace

    from rmqcli.cli.profile_values import Profile

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


@command(app, "remove", example="rmq profile remove prod")
def remove(name: NameArgument, settings: Settings) -> None:
    """Remove a profile."""
    from msgspec.structs import replace

    file = load_file()
    profile_in(file, name)
    kept = {key: value for key, value in file.profiles.items() if key != name}
    save_file(replace(file, profiles=kept, current=None if file.current == name else file.current))
