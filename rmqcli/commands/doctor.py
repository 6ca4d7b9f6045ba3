"""`rmq doctor`: diagnoses a cluster, as seen from this machine, and suggests remedies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from rmqcli.cli.command import command, single_command
from rmqcli.cli.errors import Ended
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin

if TYPE_CHECKING:
    from rmqcli.client import Admin
    from rmqcli.doctor.finding import Finding

app = single_command()

SomeTopicArgument = Annotated[str | None, Argument(metavar="[TOPIC]", help="Also examine this topic.")]
SomeGroupOption = Annotated[
    str | None, Option("--group", "-g", metavar="GROUP", help="Also examine this consumer group.")
]
ProbeOption = Annotated[
    bool, Option("--probe", help="Send a message to each master and read it, in a temporary topic.")
]


@command(
    app,
    "doctor",
    example="""rmq doctor
rmq doctor orders -g billing --probe
rmq doctor --map 172.17.0.2:10911=localhost:10911
rmq doctor --json | jq '.checks[] | select(.status == "fail")'""",
    rows=Rows.DOCUMENT,
)
def doctor(
    settings: Settings,
    topic: SomeTopicArgument = None,
    group: SomeGroupOption = None,
    probe: ProbeOption = False,
) -> None:
    """Diagnose a cluster and suggest remedies.

    Prints one line per check: ok, warn, FAIL or skip, the target, the finding, and the remedy. Checks name
    servers, routes, brokers and their addresses, permissions, masters, versions, disks, clocks and VIP ports;
    without --group, also the group of the profile. The exit code is 1 if a check fails, 5 if no name server
    responds. Piped output: status, check, target, text, remedy.
    """
    run(settings, topic, settings.group(group), probe=probe)


def run(
    settings: Settings, topic: str | None = None, group: str | None = None, *, probe: bool = False
) -> None:
    """Examine, print the findings, and end with their exit code."""
    from rmqcli.commands.common.findings import show_findings

    answered, findings = with_admin(settings, lambda admin: _examined(admin, settings, topic, group, probe))
    show_findings(settings, findings)
    _end(answered, findings)


async def _examined(
    admin: Admin, settings: Settings, topic: str | None, group: str | None, probe: bool
) -> tuple[bool, list[Finding]]:
    from rmqcli.commands.common.lost_brokers import looked
    from rmqcli.doctor.checks import judge
    from rmqcli.doctor.finding import Finding, Status
    from rmqcli.doctor.survey import examine

    survey = await examine(admin, topic, group, others=True)
    notes: list[str] = []
    if survey.answered:
        now_ms = admin.instance.now_ms()
        gone, notes = looked(settings, survey.places, now_ms)
        survey = replace(survey, gone=gone, now_ms=now_ms)
    findings = judge(survey) + [Finding(Status.SKIP, "broker", "", note) for note in notes]
    if probe and survey.answered:
        from rmqcli.doctor.servers import probe as probed

        findings += await probed(admin, survey.masters)
    return survey.answered, findings


def _end(answered: bool, findings: list[Finding]) -> None:
    """End with the exit code of the findings."""
    from rmqcli.doctor.finding import Status, worst

    if not answered:
        raise Ended(ExitCode.NO_CONNECTION)
    if worst(findings) is Status.FAIL:
        raise Ended(ExitCode.FAILED, summary="a check failed")
