"""`rmq acl user copy` and `rmq acl policy copy`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, TypeAlias

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import YesOption
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.acl.app import USERS, FromOption, ToOption, UsersArgument, policy, user
from rmqcli.commands.common.changing import show_targets, with_feature
from rmqcli.commands.common.outcome import confirm, show_change
from rmqcli.commands.common.properties import DryRunOption

if TYPE_CHECKING:
    from rmqcli.client import Admin, TopicChange

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
    from rmqcli.flows.policies import copy_users as copy

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
    """Copy the policies of users from one broker to another, which must have the users.

    Policies of other resources stay there. Asks for confirmation; without a terminal, --yes is required.
    Users that are refused are reported, and the exit code is 3.
    """
    from rmqcli.flows.policies import copy_policies as copy

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
