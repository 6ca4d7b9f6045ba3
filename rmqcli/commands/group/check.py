"""`rmq group check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Argument

from rmqcli.cli.command import command
from rmqcli.cli.errors import Ended
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.group.app import app
from rmqcli.render.output import note

if TYPE_CHECKING:
    from rmqcli.client import Admin
    from rmqcli.doctor.finding import Finding

GroupsArgument = Annotated[
    list[str] | None,
    Argument(metavar="[GROUP]...", help="Names of groups; default: all with running clients."),
]


@command(
    app,
    "check",
    example="rmq group check\nrmq group check billing\nrmq group check | grep -v ^ok",
    rows=Rows.DOCUMENT,
)
def check(settings: Settings, groups: GroupsArgument = None) -> None:
    """Check the running clients of groups: subscriptions, owners of queues, progress, settings.

    One line for each check: ok, warn, FAIL or skip. A check fails if clients are unlike, if a queue has
    no owner or stands still while messages wait, or if what is sent cannot be read, and the exit code is
    1. Piped output: status, check, target, text, remedy. Brokers that do not respond are reported, and
    the exit code is 3.
    """
    from rmqcli.commands.common.findings import show_findings
    from rmqcli.doctor.finding import Status, worst

    failures: Failures = {}
    findings = with_admin(settings, lambda admin: _findings(admin, groups or [], failures))
    show_findings(settings, findings)
    if not findings and not settings.json:
        note("no running clients")
    if worst(findings) is Status.FAIL:
        lost = {name: str(error) for name, error in failures.items()}
        lines = [f"{name}: {text}" for name, text in lost.items()]
        raise Ended(ExitCode.FAILED, lines, lost, summary="a check failed")
    end_partly(failures)


async def _findings(admin: Admin, groups: list[str], failures: Failures) -> list[Finding]:
    from rmqcli.client.admin.area import gather_all
    from rmqcli.doctor.group_facts import members_of
    from rmqcli.doctor.members import judged

    names = groups or await admin.groups.names(failures=failures)
    tables = await admin.groups.all_settings(failures=failures)
    found = await gather_all(names, lambda group: members_of(admin, group, failures, tables))
    for group in groups:
        if found[group].connection is None:
            await admin.groups.check_known(group, failures)
    chosen = [members for members in found.values() if groups or members.connection is not None]
    return [finding for members in chosen for finding in judged(members)]
