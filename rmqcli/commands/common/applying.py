"""Applies changes: the plan, the question, the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from typer import Option

from rmqcli.cli.exit_codes import CommandError
from rmqcli.cli.options import BrokersOption, Masters, OptionGroup, Seats, SeatsOption, YesOption
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.configuration import DryRunOption
from rmqcli.commands.common.outcome import Failures, confirm, end_partly, show_change
from rmqcli.render.output import Output, note, warn
from rmqcli.render.table import BROKER, GROUP, TOPIC, Column, objects, show_rows
from rmqcli.render.text import many

if TYPE_CHECKING:
    from rmqcli.client import Admin, ClientError, TopicChange
    from rmqcli.commands.common.outcome import Failures
    from rmqcli.plans.settings import Kind, Step, Tables

FileOption = Annotated[
    Path,
    Option("--file", metavar="FILE", help="JSON or YAML file with a list of settings.", show_default=False),
]


def apply_file(
    settings: Settings, kind: Kind, path: Path, masters: Masters, *, dry_run: bool, yes: bool
) -> None:
    """Show the differences from the file, ask for confirmation and apply them. End as `end_partly` does."""
    from rmqcli.plans.settings import planned, read_entries

    entries = read_entries(path, kind)
    failures: Failures = {}
    tables = with_admin(settings, lambda admin: _tables(admin, kind, masters, failures))
    steps = planned(entries, kind, tables)
    columns = (
        TOPIC if kind.word == "topic" else GROUP,
        BROKER,
        Column("ACTION", "action"),
        Column("CHANGES", "changes"),
    )
    rows = [[step.name, step.broker_name, step.action, list(step.changes)] for step in steps]
    if not settings.json:
        show_rows(settings, columns, rows)
        Output().flush()
    elif dry_run:
        Output().json({"steps": objects(columns, rows), "dryRun": True})
    counts = Counter(step.action for step in steps)
    wanted = [step for step in steps if step.action != "same"]
    if not settings.json:
        note(f"{counts['create']} to create, {counts['change']} to change, {counts['same']} as wanted")
    if dry_run:
        end_partly(failures)
        return
    applied = _apply(settings, kind, wanted, tables, failures, yes=yes) if wanted else 0
    if settings.json:
        texts = {name: str(error) for name, error in failures.items()}
        Output().json({"steps": objects(columns, rows), "applied": applied, "failures": texts})
    elif wanted:
        note(f"applied {applied} of {len(wanted)}")
    end_partly(failures, done=bool(applied) or not wanted)


async def _tables(admin: Admin, kind: Kind, masters: Masters, failures: Failures) -> Tables:
    """Return the settings of the chosen masters; add the errors of those that do not respond to `failures`."""
    chosen = await admin.brokers.masters(**masters.named)
    area: Any = admin.topics if kind.word == "topic" else admin.groups
    found = await area.all_settings(failures=failures)
    for name in failures.keys() - chosen.keys():
        del failures[name]
    return {name: table for name, table in found.items() if name in chosen}


def _apply(
    settings: Settings, kind: Kind, steps: Sequence[Step], tables: Tables, failures: Failures, *, yes: bool
) -> int:
    """Ask for confirmation and carry out the steps. Return how many succeeded; add the errors of the others
    to `failures`, by name and broker.
    """
    from rmqcli.plans.settings import hidden

    lost = with_admin(settings, lambda admin: hidden(admin, steps, tables)) if kind.word == "topic" else []
    for line in lost:
        warn(line)
    confirm(settings, f"apply {many(len(steps), 'change')} to {kind.word}s?", yes=yes, lost=lost)

    async def main(admin: Admin) -> int:
        from rmqcli.client.admin.area import gather
        from rmqcli.plans.settings import carry_out

        _, failed = await gather(range(len(steps)), lambda place: carry_out(admin, steps[place]))
        ordered = {step.name for step in steps if getattr(step.config, "order", False)}
        _, unstored = await gather(ordered, admin.topics.put_layout)
        failures.update({f"{name} in the name servers": error for name, error in unstored.items()})
        failures.update({f"{steps[p].name} on {steps[p].broker_name}": error for p, error in failed.items()})
        return len(steps) - len(failed)

    return with_admin(settings, main)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Change(OptionGroup):
    """Options of commands that change brokers and their slaves."""

    broker: BrokersOption = None
    cluster: SeatsOption = None
    dry_run: DryRunOption = False
    yes: YesOption = False


def with_feature(settings: Settings, feature: str, work: Callable[[Admin], Awaitable[T]]) -> T:
    """Return the result of `work`. Raise CommandError, which names `feature`, if a server does not support a
    request.
    """

    async def main(admin: Admin) -> T:
        from rmqcli.client import NotSupported
        from rmqcli.doctor.reaching import remedy_of
        from rmqcli.plans.brokers import unserved

        try:
            return await work(admin)
        except NotSupported as error:
            if remedy_of(
                error, ()
            ):  # a broker that is addressed as a name server lacks more than the feature
                raise
            raise CommandError(await unserved(admin, error, feature)) from None

    return with_admin(settings, main)


def read_brokers(
    settings: Settings,
    seats: Seats,
    feature: str,
    read: Callable[[Admin, Mapping[str, str], Failures], Awaitable[T]],
) -> tuple[T, Failures]:
    """Return the result of `read` for the chosen brokers and their slaves, and the errors of those that
    failed.
    """
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
    """Ask for confirmation, change the brokers and report; in a dry run, only show the brokers. `words` are
    the question and the text of the report.

    `explain` may replace an error by a more specific one. Without `slaves`, only masters are changed.
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
    from rmqcli.render.table import BROKER

    rows: list[Any] = [[label, address] for label, address in found.items()]
    show_rows(settings, [BROKER, Column("ADDRESS", "address", whole=True)], rows)
