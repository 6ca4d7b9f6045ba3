"""Reads all data that a page shows about a cluster.

A server that does not respond costs one timeout in all, and is named in `failures`: the page shows the data
of the others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from msgspec import structs

from rmqcli.client import Admin, ClientError, NoBrokers
from rmqcli.client.admin.area import gather
from rmqcli.client.admin.values import BrokerLag
from rmqcli.codec.bodies.route import ClusterInfo
from rmqcli.codec.names import DLQ_PREFIX
from rmqcli.doctor.group_facts import Members, members_of
from rmqcli.doctor.survey import Reading, Seat, Survey, examine, seat_label
from rmqcli.plans.topics import application_topics
from rmqcli.report.cluster.topics import DeadLetters, Hours, TopicReading, hours_of, read_topics


def limited(survey: Survey, brokers: Container[str]) -> Survey:
    """Return the survey as if no other brokers were registered."""
    views = {
        server: _only(view, brokers) if isinstance(view, ClusterInfo) else view
        for server, view in survey.views.items()
    }
    found = replace(survey, views=views)
    addresses = {seat.address for seat in found.seats}
    return replace(
        found,
        readings={address: one for address, one in survey.readings.items() if address in addresses},
        vip={address: one for address, one in survey.vip.items() if address in addresses},
    )


def _only(view: ClusterInfo, brokers: Container[str]) -> ClusterInfo:
    clusters = {
        cluster: [name for name in names if name in brokers]
        for cluster, names in view.cluster_addr_table.items()
    }
    return structs.replace(
        view,
        broker_addr_table={name: data for name, data in view.broker_addr_table.items() if name in brokers},
        cluster_addr_table={cluster: names for cluster, names in clusters.items() if names},
    )


MAX_GROUPS = 500
"""The maximum number of groups whose clients are queried, those with the most lag first."""
_GROUP = "group "  # begins the label of the failure of a group
Failures = dict[str, ClientError]
T = TypeVar("T")


@dataclass(slots=True)
class ClusterReading:
    """`configs` are by label of the broker (NAME, or NAME:ID for a slave), `members` by group.

    `failures` are errors by label; `skipped` is the number of groups whose clients were not queried.
    """

    survey: Survey
    failures: Failures = field(default_factory=dict)
    configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    lags: Sequence[BrokerLag] = ()
    topics: Sequence[TopicReading] = ()
    dead: Sequence[DeadLetters] = ()
    hours: Hours = field(default_factory=lambda: Hours(0, {}))
    groups: Sequence[str] = ()
    members: Mapping[str, Members] = field(default_factory=dict)
    skipped: int = 0

    @property
    def labels(self) -> dict[str, Seat]:
        """The addresses that responded, by label."""
        return {
            label_of(seat): seat
            for seat in self.survey.seats
            if isinstance(self.survey.readings.get(seat.address), Reading)
        }


def label_of(seat: Seat) -> str:
    return seat_label(seat.broker_name, seat.broker_id)


async def read_cluster(
    admin: Admin, *, brokers: Collection[str] = (), cluster: str | None = None
) -> ClusterReading:
    """Read everything about the named brokers, those of a cluster, or all.

    Raise the error of a name server if none responds, and NotFound for an unknown name.
    """
    survey = await examine(admin)
    for error in survey.views.values():
        if not survey.answered and isinstance(error, ClientError):
            raise error
    if survey.answered and not survey.seats:
        raise NoBrokers(admin.instance.name_servers.current)
    if not (brokers or cluster):
        return await _read_all(admin, survey)
    seats = await admin.brokers.seats(brokers=brokers, cluster=cluster)
    names = {label.partition(":")[0] for label in seats}
    found = await _read_all(admin, limited(survey, names), names)
    found.failures = {label: error for label, error in found.failures.items() if _is_of(label, names)}
    return found


def _is_of(label: str, brokers: Container[str]) -> bool:
    return label.partition(":")[0] in brokers or label.startswith(_GROUP)


async def _read_all(admin: Admin, survey: Survey, names: Container[str] | None = None) -> ClusterReading:
    """Read everything that the survey lacks. `names` are the brokers to read if not all."""
    found = ClusterReading(survey)
    found.failures = {
        label_of(seat): answer
        for seat in survey.seats
        if isinstance(answer := survey.readings.get(seat.address), ClientError)
    }
    if survey.masters:
        await _read(admin, found, names)
    return found


async def _read(admin: Admin, found: ClusterReading, brokers: Container[str] | None) -> None:
    failures = found.failures
    seats = {label: seat.address for label, seat in found.labels.items()}
    found.configs = await _or(admin.brokers.configs(seats, failures=failures), {})
    found.lags = await _or(admin.brokers.lags(found.survey.masters, failures=failures), [])
    names = await _or(admin.topics.names(), [])
    of_applications = application_topics(names, found.survey.view)
    found.topics = await read_topics(admin, of_applications, failures, brokers=brokers)
    found.hours = await hours_of(admin, found.topics)
    letters = [name for name in names if name.startswith(DLQ_PREFIX)]
    found.dead = [
        DeadLetters(one.name.removeprefix(DLQ_PREFIX), one.messages, one.last_stored)
        for one in await read_topics(admin, letters, failures, with_rates=False, brokers=brokers)
    ]
    if brokers is None:
        found.groups = await _or(admin.groups.names(failures=failures), [])
    else:
        found.groups = sorted({one.group for one in found.lags})
    await _read_members(admin, found)


async def _read_members(admin: Admin, found: ClusterReading) -> None:
    lags: dict[str, int] = {}
    for one in found.lags:
        lags[one.group] = lags.get(one.group, 0) + (one.lag or 0)
    names = sorted(found.groups, key=lambda name: (-lags.get(name, 0), name))
    asked = names[:MAX_GROUPS]
    found.skipped = len(names) - len(asked)
    ask: Callable[[str], Awaitable[Members]] = lambda name: members_of(admin, name, found.failures)  # noqa: E731
    found.members, errors = await gather(asked, ask)
    found.failures.update({f"{_GROUP}{name}": error for name, error in errors.items()})


async def _or(call: Awaitable[T], default: T) -> T:
    """Return the result of `call`, or the default if no broker responds: `failures` has the reasons."""
    with suppress(ClientError):
        return await call
    return default
