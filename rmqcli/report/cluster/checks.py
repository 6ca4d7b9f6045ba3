"""The findings about a cluster, and those about the clients of groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rmqcli.client.admin.values import BEYOND_END, BROADCASTING, BrokerLag
from rmqcli.codec.bodies.heartbeat import MessageModel
from rmqcli.doctor.checks import judge
from rmqcli.doctor.finding import Finding, Status
from rmqcli.doctor.members import judged
from rmqcli.plans.properties import Compared, compared, is_of_one_broker
from rmqcli.render.text import many
from rmqcli.report.cluster.reading import ClusterReading, label_of


@dataclass(slots=True)
class Lag:
    """If `lag` is None, `unknown` has the reason. If `clients` is None, they were not queried.

    `oldest` is the store time (ms) of the earliest last consumed message of queues with lag, 0 without one.
    """

    group: str
    topic: str
    lag: int | None = 0
    oldest: int = 0
    clients: int | None = None
    unknown: str = ""

    def add(self, one: BrokerLag) -> None:
        if one.lag is None:
            self.unknown, self.lag = BEYOND_END, None
        elif self.lag is not None:
            self.lag += one.lag
        consumed = one.offsets.last_timestamp
        if one.lag and consumed > 0:
            self.oldest = min(self.oldest or consumed, consumed)


def lags_of(found: ClusterReading) -> list[Lag]:
    """Return the lags, largest first; unknown ones precede zeros."""
    table = _summed(found.lags)
    for one in table:
        members = found.members.get(one.group)
        if members is None:
            continue
        connection = members.connection
        one.clients = 0 if connection is None else len(connection.connection_set)
        if connection is not None and connection.message_model == MessageModel.BROADCASTING:
            one.lag, one.unknown = None, BROADCASTING
    return sorted(table, key=lambda one: (-(one.lag or 0), not one.unknown, one.group, one.topic))


def _summed(lags: Iterable[BrokerLag]) -> Sequence[Lag]:
    table: dict[tuple[str, str], Lag] = {}
    for one in lags:
        key = one.group, one.queue.topic
        table.setdefault(key, Lag(*key)).add(one)
    return list(table.values())


def findings_of(found: ClusterReading, lags: Sequence[Lag], drift: Sequence[Compared]) -> list[Finding]:
    """Return the findings of the doctor, of groups, and those that only a complete view shows."""
    servers = judge(found.survey)
    return [
        *(one for one in servers if one.status is Status.FAIL),
        *_unasked(found),
        *member_findings(found),
        *_dead(found),
        *_lags(lags),
        *_drift(drift),
        *(one for one in servers if one.status is not Status.FAIL),
    ]


def member_findings(found: ClusterReading) -> list[Finding]:
    """Return the problems with the running clients of groups."""
    return [
        one
        for members in found.members.values()
        if members.connection is not None
        for one in judged(members)
        if one.status in (Status.WARN, Status.FAIL)
    ]


def drift_of(found: ClusterReading) -> list[Compared]:
    """Return the properties in which brokers differ, without names, addresses and folders."""
    return [one for one in compared(found.configs) if one.differs and not is_of_one_broker(one.name)]


def _unasked(found: ClusterReading) -> Iterator[Finding]:
    """Yield failures that occurred after the first request; the doctor's findings include the earlier ones."""
    first = {label_of(seat): found.survey.readings.get(seat.address) for seat in found.survey.seats}
    for name, error in found.failures.items():
        if error is not first.get(name):
            yield Finding(Status.FAIL, "answer", name, str(error), "what it would have said is missing here")


def _lags(lags: Sequence[Lag]) -> Iterator[Finding]:
    for one in lags:
        target = f"{one.group} {one.topic}"
        if one.unknown == BEYOND_END:
            text = "an offset is beyond the end: messages up to it will be skipped"
            yield Finding(
                Status.WARN, "offset", target, text, f"rmq offsets reset {one.group} {one.topic} --to start"
            )
        elif one.lag and one.clients == 0:
            yield unattended(target, one.lag)


def unattended(target: str, lag: int) -> Finding:
    """Return the finding that a group has lag and no client."""
    text = f"{many(lag, 'message')} {'waits' if lag == 1 else 'wait'}, and no client runs"
    return Finding(Status.WARN, "lag", target, text, "start a consumer of the group")


def _dead(found: ClusterReading) -> Iterator[Finding]:
    for one in found.dead:
        if one.messages:
            text = f"{many(one.messages, 'dead letter')}: retries are used up"
            yield Finding(Status.WARN, "dead letters", one.group, text, f"rmq dlq list {one.group}")


def _drift(drift: Sequence[Compared]) -> Iterator[Finding]:
    if drift:
        text = f"brokers differ in {len(drift):,} {'property' if len(drift) == 1 else 'properties'}"
        yield Finding(Status.WARN, "configuration", "", text, "rmq broker config diff")
