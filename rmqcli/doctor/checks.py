"""The table of checks, in the order of their lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from rmqcli import __version__, core_form
from rmqcli.doctor import brokers, groups, servers
from rmqcli.doctor.finding import Finding, Status
from rmqcli.doctor.members import detailed
from rmqcli.doctor.progress import progress
from rmqcli.doctor.survey import Survey
from rmqcli.render.text import many

Check = Callable[[Survey], Iterable[Finding]]


def detailed_group(survey: Survey) -> Iterable[Finding]:
    """Return the group of the survey, with its clients and queues."""
    found = None if survey.group is None else survey.group.members
    return () if found is None else detailed(found)


def lagging_groups(survey: Survey) -> Iterator[Finding]:
    """Check that no consumer of another group is stuck while messages wait."""
    wrong = [
        finding
        for found in survey.lagging
        for finding in progress(found)
        if finding.status in (Status.WARN, Status.FAIL)
    ]
    yield from wrong
    if survey.lagging and not wrong:
        text = f"no queue stands still of {many(len(survey.lagging), 'group')} with messages to consume"
        yield Finding(Status.OK, "progress", "", text)


def core(_: Survey) -> Iterator[Finding]:
    """Report whether the core of the codec runs compiled or interpreted. Interpreted, it is slower but
    correct.
    """
    yield Finding(Status.OK, "core", f"rmq {__version__}", core_form())


CHECKS: tuple[Check, ...] = (
    servers.name_servers,
    servers.same_view,
    servers.route,
    brokers.brokers,
    brokers.addresses,
    brokers.permission,
    brokers.masters,
    brokers.versions,
    brokers.disks,
    brokers.keeps_up,
    brokers.slaves,
    brokers.clocks,
    brokers.vip_ports,
    groups.group,
    groups.subscriptions,
    detailed_group,
    lagging_groups,
    core,
)


def judge(survey: Survey) -> list[Finding]:
    """Return the findings of all checks."""
    if not survey.answered:
        return list(servers.name_servers(survey))
    return [finding for check in CHECKS for finding in check(survey)]
