"""`rmq acl user`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.options import Seats, YesOption
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.acl.app import (
    USERS,
    FromOption,
    PasswordOption,
    ToOption,
    UserArgument,
    UsersArgument,
    policy,
    user,
)
from rmqcli.commands.acl.app import user as group
from rmqcli.commands.acl.secrets import read_secret
from rmqcli.commands.common.applying import Change, change_brokers, read_brokers, show_targets, with_feature
from rmqcli.commands.common.configuration import DryRunOption
from rmqcli.commands.common.outcome import Failures, confirm, end_partly, show_change
from rmqcli.render.table import BROKER, USER, Column

if TYPE_CHECKING:
    from rmqcli.client import Admin, TopicChange
    from rmqcli.codec.bodies.acl import UserInfo

ContainsOption = Annotated[
    str | None, Option("--contains", metavar="TEXT", help="Only users whose names contain TEXT.")
]
PasswordsOption = Annotated[bool, Option("--passwords", help="Also show the passwords.")]
TypeOption = Annotated[
    str | None,
    Option("--type", metavar="TYPE", help="super or normal; a super user may do everything."),
]
StatusOption = Annotated[
    str | None, Option("--status", metavar="STATUS", help="enable, or disable to lock the user out.")
]
NewPasswordOption = Annotated[
    bool, Option("--password", help="Ask for a new password; --password-file reads it.")
]
TYPES = {"super": "Super", "normal": "Normal"}
STATUSES = ("enable", "disable")
_COLUMNS = (
    BROKER,
    USER,
    Column("TYPE", "userType"),
    Column("STATUS", "userStatus"),
    Column("PASSWORD", "password"),
)


@command(
    group,
    "list",
    example="rmq acl user list\nrmq acl user list -b broker-a --contains bill",
    rows=Rows.LIST,
)
def list_users(
    settings: Settings, seats: Seats, contains: ContainsOption = None, passwords: PasswordsOption = False
) -> None:
    """List the users of each broker: every broker has its own.

    Piped output: broker (NAME:ID for a slave), user, type, status; with --passwords the password. Brokers
    that do not respond are reported, and the exit code is 3.
    """
    found, failures = read_brokers(
        settings,
        seats,
        USERS,
        lambda admin, found, lost: admin.access.users(found, contains or "", failures=lost),
    )
    _show(settings, found, failures, passwords=passwords)


@command(
    group,
    "show",
    example="rmq acl user show billing --passwords",
    rows=Rows.LIST,
)
def show(name: UserArgument, settings: Settings, seats: Seats, passwords: PasswordsOption = False) -> None:
    """Show a user on each broker.

    Piped output: as for `rmq acl user list`. Exit code 4 if no broker has the user. Brokers that do not
    respond are reported, and the exit code is 3.
    """
    found, failures = read_brokers(
        settings, seats, USERS, lambda admin, found, lost: admin.access.user(found, name, failures=lost)
    )
    users = {label: [user] for label, user in found.items() if user is not None}
    if not users and not failures:
        raise CommandError(f"no broker has a user {name}", ExitCode.NOT_FOUND)
    absent = {label: f"no user {name}" for label, user in found.items() if user is None}
    _show(settings, users, failures, absent, passwords=passwords)


def _show(
    settings: Settings,
    found: dict[str, list[UserInfo]],
    failures: Failures,
    absent: dict[str, str] | None = None,
    *,
    passwords: bool,
) -> None:
    from rmqcli.render import show_rows

    columns = _COLUMNS if passwords else _COLUMNS[:-1]
    rows: list[list[Any]] = [
        [label, user.username, user.user_type, user.user_status, user.password][: len(columns)]
        for label, users in found.items()
        for user in users
    ]
    show_rows(settings, columns, rows, empty="no users")
    end_partly(failures, absent or {})


@command(
    group,
    "create",
    example="""rmq acl user create billing --password-file secret.txt
rmq acl user create root --type super -b broker-a --yes""",
    rows=Rows.DOCUMENT,
)
def create(
    name: UserArgument,
    settings: Settings,
    how: Change,
    password_file: PasswordOption = None,
    user_type: TypeOption = None,
) -> None:
    """Create a user on brokers of 5.x and their slaves.

    On a terminal, the command prompts for the password. Brokers keep users even while
    authenticationEnabled=false. Brokers that already have the user, refuse or do not respond are reported,
    and the exit code is 3.
    """
    from rmqcli.codec.bodies.acl import UserInfo

    kind = _type_of(user_type)
    password = read_secret(password_file, "password", "--password-file")
    wanted = UserInfo(username=name, password=password, user_type=kind)
    change_brokers(
        settings,
        how,
        USERS,
        (f"create the user {name}", f"created the user {name}"),
        lambda admin, found: admin.access.create_user(found, wanted),
    )


@command(
    group,
    "update",
    example="""rmq acl user update billing --status disable --yes
rmq acl user update billing --password-file new-secret.txt""",
    rows=Rows.DOCUMENT,
)
def update(
    name: UserArgument,
    settings: Settings,
    how: Change,
    password: NewPasswordOption = False,
    password_file: PasswordOption = None,
    user_type: TypeOption = None,
    status: StatusOption = None,
) -> None:
    """Change the password, type or status of a user; the others are kept.

    Asks for confirmation; without a terminal, --yes is required. Brokers that do not have the user, refuse or
    do not respond are reported, and the exit code is 3.
    """
    from rmqcli.codec.bodies.acl import UserInfo

    kind = _type_of(user_type)
    if status is not None and status not in STATUSES:
        raise usage_error(f"--status {status}: expected {' or '.join(STATUSES)}")
    asked = password or password_file is not None
    if not asked and kind is None and status is None:
        raise usage_error("nothing to change: use --password, --password-file, --type or --status")
    text = read_secret(password_file, "password", "--password-file") if asked else None
    wanted = UserInfo(username=name, password=text, user_type=kind, user_status=status)
    change_brokers(
        settings,
        how,
        USERS,
        (f"change the user {name}", f"changed the user {name}"),
        lambda admin, found: admin.access.update_user(found, wanted),
    )


@command(
    group,
    "delete",
    example="rmq acl user delete billing --yes",
    rows=Rows.DOCUMENT,
)
def delete(
    name: UserArgument,
    settings: Settings,
    how: Change,
) -> None:
    """Delete a user and its policies. Brokers do not report whether the user existed.

    Asks for confirmation; without a terminal, --yes is required. Brokers that refuse or do not respond are
    reported, and the exit code is 3.
    """
    change_brokers(
        settings,
        how,
        USERS,
        (f"delete the user {name}", f"deleted the user {name}"),
        lambda admin, found: admin.access.delete_user(found, name),
        lost=[f"the user {name} and its policies"],
    )


def _type_of(text: str | None) -> str | None:
    if text is not None and text.lower() not in TYPES:
        raise usage_error(f"--type {text}: expected {' or '.join(TYPES)}")
    return None if text is None else TYPES[text.lower()]


Copy: TypeAlias = "Callable[[Admin, str, dict[str, str], Collection[str]], Awaitable[TopicChange]]"


@command(
    user,
    "copy",
    example="rmq acl user copy --from broker-a --to broker-b\nrmq acl user copy billing --from broker-a --to broker-b --yes",
    rows=Rows.DOCUMENT,
)
def copy_users(
    settings: Settings,
    source: FromOption,
    target: ToOption,
    names: UsersArgument = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Copy users with their passwords from one broker to another, where they are created or replaced.

    Asks for confirmation; without a terminal, --yes is required. Users that are refused are reported, and the
    exit code is 3.
    """
    from rmqcli.plans.accounts import copy_users as copy

    _copy(settings, "users", copy, source, target, names or (), dry_run=dry_run, yes=yes)


@command(
    policy,
    "copy",
    example="rmq acl policy copy --from broker-a --to broker-b\nrmq acl policy copy billing --from broker-a --to broker-b --yes",
    rows=Rows.DOCUMENT,
)
def copy_policies(
    settings: Settings,
    source: FromOption,
    target: ToOption,
    names: UsersArgument = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Copy the policies of users from one broker to another, where the users must exist.

    Its policies for other resources are kept. Asks for confirmation; without a terminal, --yes is required.
    Users that are refused are reported, and the exit code is 3.
    """
    from rmqcli.plans.accounts import copy_policies as copy

    _copy(settings, "policies", copy, source, target, names or (), dry_run=dry_run, yes=yes)


def _copy(
    settings: Settings,
    what: str,
    copy: Copy,
    source: str,
    target: str,
    names: Collection[str],
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    if source == target:
        raise usage_error(f"--from and --to are both {source}")

    async def find(admin: Admin) -> dict[str, str]:
        return await admin.brokers.masters(brokers=[source, target])

    found = with_feature(settings, USERS, find)
    if dry_run:
        show_targets(settings, {target: found[target]})
        return
    of = f" of {', '.join(names)}" if names else ""
    confirm(settings, f"copy {what}{of} from {source} to {target}?", yes=yes)
    change = with_feature(
        settings, USERS, lambda admin: copy(admin, found[source], {target: found[target]}, names)
    )
    show_change(settings, f"copied {what} from {source} to {target}:", change)
