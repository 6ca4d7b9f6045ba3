"""Changes of several brokers at once: find them, ask, change, report."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rmqcli.cli.exit_codes import CommandError
from rmqcli.cli.option_groups import OptionGroup
from rmqcli.cli.options import BrokersOption, Seats, SeatsOption, YesOption
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import confirm, show_change
from rmqcli.commands.common.properties import DryRunOption

if TYPE_CHECKING:
    from rmqcli.client import Admin, ClientError, TopicChange
    from rmqcli.commands.common.outcome import Failures

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Change(OptionGroup):
    """The options of a change of brokers and their slaves."""

    broker: BrokersOption = None
    cluster: SeatsOption = None
    dry_run: DryRunOption = False
    yes: YesOption = False


def with_feature(settings: Settings, feature: str, work: Callable[[Admin], Awaitable[T]]) -> T:
    """Return what `work` returns. A server that does not serve its requests has no `feature`: CommandError."""

    async def main(admin: Admin) -> T:
        from rmqcli.client import NotSupported
        from rmqcli.doctor.reaching import remedy_of
        from rmqcli.flows.unserved import unserved

        try:
            return await work(admin)
        except NotSupported as error:
            if remedy_of(error, ()):  # a broker in the place of a name server lacks more than the feature
                raise
            raise CommandError(await unserved(admin, error, feature)) from None

    return with_admin(settings, main)


def read_brokers(
    settings: Settings,
    seats: Seats,
    feature: str,
    read: Callable[[Admin, Mapping[str, str], Failures], Awaitable[T]],
) -> tuple[T, Failures]:
    """Return what `read` returns for the chosen brokers and their slaves, and the errors of the others."""
    failures: Failures = {}

    async def main(admin: Admin) -> T:
        return await read(admin, await admin.brokers.seats(**seats.named), failures)

    return with_feature(settings, feature, main), failures


def change_brokers(
    settings: Settings,
    how: Change,
    feature: str,
    words: tuple[str, str],
    apply: Callable[[Admin, Mapping[str, str]], Awaitable[TopicChange]],
    *,
    lost: Sequence[str] = (),
    explain: Callable[[ClientError], ClientError] | None = None,
    slaves: bool = True,
) -> None:
    """Show the brokers, or ask, change them and report; `words` are the question and what is done after it.

    `explain` may replace an error by one that says more. Without `slaves`, only masters are changed.
    """

    async def find(admin: Admin) -> dict[str, str]:
        return await (admin.brokers.seats if slaves else admin.brokers.masters)(
            brokers=how.broker or (), cluster=how.cluster
        )

    found = with_admin(settings, find)
    if how.dry_run:
        show_targets(settings, found)
        return
    question, done = words
    confirm(settings, f"{question} on {', '.join(found)}?", yes=how.yes, lost=lost)

    async def main(admin: Admin) -> TopicChange:
        from rmqcli.client import ClientError

        try:
            change = await apply(admin, found)
        except ClientError as error:
            raise error if explain is None else explain(error) from None
        failures = {label: explain(error) if explain else error for label, error in change.failures.items()}
        return change._replace(failures=failures)

    show_change(settings, f"{done} on", with_feature(settings, feature, main))


def show_targets(settings: Settings, found: Mapping[str, str]) -> None:
    """Print what a dry run would have changed: brokers and their addresses."""
    from rmqcli.render import Column, show_rows
    from rmqcli.render.columns import BROKER

    rows: list[Any] = [[label, address] for label, address in found.items()]
    show_rows(settings, [BROKER, Column("ADDRESS", "address", whole=True)], rows)
