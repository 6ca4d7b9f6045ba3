"""The table of checks, in the order of their lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rmqcli.doctor import brokers, groups, servers
from rmqcli.doctor.finding import Finding
from rmqcli.doctor.survey import Survey

Check = Callable[[Survey], Iterable[Finding]]

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
    brokers.clocks,
    brokers.vip_ports,
    groups.group,
    groups.subscriptions,
)


def judge(survey: Survey) -> list[Finding]:
    """Return the findings of all checks."""
    if not survey.answered:
        return list(servers.name_servers(survey))
    return [finding for check in CHECKS for finding in check(survey)]
