"""`rmq acl policy list`, `show`, `set` and `delete`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError, ExitCode
from rmqcli.cli.options import Seats
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.acl.app import USERS, UserArgument
from rmqcli.commands.acl.app import policy as group
from rmqcli.commands.common.applying import Change, change_brokers, read_brokers
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.render.table import BROKER, USER, Column

if TYPE_CHECKING:
    from rmqcli.codec.bodies.acl import AclInfo

UserTextOption = Annotated[
    str | None, Option("--user", metavar="TEXT", help="Only users whose names contain TEXT.")
]
ResourceTextOption = Annotated[
    str | None, Option("--resource", metavar="TEXT", help="Only resources that contain TEXT.")
]
ResourcesArgument = Annotated[
    list[str],
    Argument(metavar="RESOURCE", help="Topic:NAME, Group:NAME or Cluster:NAME; a * may end a name."),
]
ActionsOption = Annotated[
    list[str] | None,
    Option(
        "--action",
        metavar="ACTION",
        help="All, Pub, Sub, Create, Update, Delete, Get or List; repeatable.",
    ),
]
SourcesOption = Annotated[
    list[str] | None,
    Option("--source", metavar="ADDRESS", help="Only from this address or network; repeatable."),
]
DenyOption = Annotated[bool, Option("--deny", help="Deny the actions instead of allowing them.")]
ResourceOption = Annotated[
    str | None,
    Option("--resource", metavar="RESOURCE", help="Delete only the policy of this resource."),
]
DefaultOption = Annotated[
    bool,
    Option("--default", help="Use policies of the type Default, which apply where no Custom policy does."),
]
_COLUMNS = (
    BROKER,
    USER,
    Column("TYPE", "policyType", minor=True),
    Column("RESOURCE", "resource", whole=True),
    Column("ACTIONS", "actions"),
    Column("SOURCES", "sources"),
    Column("DECISION", "decision"),
)


@command(
    group,
    "list",
    example="rmq acl policy list\nrmq acl policy list --resource Topic:orders",
    rows=Rows.LIST,
)
def list_policies(
    settings: Settings, seats: Seats, user: UserTextOption = None, resource: ResourceTextOption = None
) -> None:
    """List the policies of all users of each broker: every broker has its own.

    Piped output: broker (NAME:ID for a slave), user, type, resource, actions, source addresses, decision.
    Brokers that do not respond are reported, and the exit code is 3.
    """
    found, failures = read_brokers(
        settings,
        seats,
        USERS,
        lambda admin, found, lost: admin.access.policies(found, user or "", resource or "", failures=lost),
    )
    _show(settings, found, failures)


@command(
    group,
    "show",
    example="rmq acl policy show billing",
    rows=Rows.LIST,
)
def show(name: UserArgument, settings: Settings, seats: Seats) -> None:
    """Show the policies of a user on each broker.

    Piped output: as for `rmq acl policy list`. Exit code 4 if the user has none on any broker. Brokers that
    do not have the user, or do not respond, are reported, and the exit code is 3.
    """
    found, failures = read_brokers(
        settings,
        seats,
        USERS,
        lambda admin, found, lost: admin.access.policies_of(found, name, failures=lost),
    )
    policies = {label: [acl] for label, acl in found.items() if acl is not None and acl.policies}
    if not policies and not failures:
        raise CommandError(f"no broker has policies of the user {name}", ExitCode.NOT_FOUND)
    _show(settings, policies, failures)


def _show(settings: Settings, found: dict[str, list[AclInfo]], failures: Failures) -> None:
    from rmqcli.plans.accounts import policy_rows
    from rmqcli.render import show_rows

    rows = [[label, *row] for label, acls in found.items() for acl in acls for row in policy_rows(acl)]
    show_rows(settings, _COLUMNS, rows, empty="no policies")
    end_partly(failures)


@command(
    group,
    "set",
    example="""rmq acl policy set billing Topic:orders --action Pub --action Sub
rmq acl policy set guest 'Topic:*' --action All --deny --yes""",
    rows=Rows.DOCUMENT,
)
def set_policies(
    name: UserArgument,
    resources: ResourcesArgument,
    settings: Settings,
    how: Change,
    action: ActionsOption = None,
    source: SourcesOption = None,
    deny: DenyOption = False,
    default: DefaultOption = False,
) -> None:
    """Allow or deny a user actions on resources, replacing its policies for the same resources.

    Asks for confirmation; without a terminal, --yes is required. Brokers that do not have the user, refuse or
    do not respond are reported, and the exit code is 3.
    """
    from rmqcli.plans.accounts import acl_of

    wanted = acl_of(name, resources, action or (), source or (), deny=deny, default=default)
    change_brokers(
        settings,
        how,
        USERS,
        (f"set {', '.join(resources)} of the user {name}", f"set policies of the user {name}"),
        lambda admin, found: admin.access.put_policies(found, wanted),
    )


@command(
    group,
    "delete",
    example="""rmq acl policy delete billing --resource Topic:orders
rmq acl policy delete billing -b broker-a --yes""",
    rows=Rows.DOCUMENT,
)
def delete(
    name: UserArgument,
    settings: Settings,
    how: Change,
    resource: ResourceOption = None,
    default: DefaultOption = False,
) -> None:
    """Delete all policies of a user, or only that of one resource.

    Asks for confirmation; without a terminal, --yes is required. Brokers that do not have them, refuse or do
    not respond are reported, and the exit code is 3.
    """
    from rmqcli.plans.accounts import type_of

    what = f"the policy of {resource}" if resource else "all policies"
    kind = type_of(default=default) if resource else None
    change_brokers(
        settings,
        how,
        USERS,
        (f"delete {what} of the user {name}", f"deleted {what} of the user {name}"),
        lambda admin, found: admin.access.delete_policies(found, name, resource, kind),
        lost=[f"{what} of the user {name}"],
    )
