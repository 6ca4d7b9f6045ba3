"""The lag of groups by topic, over all brokers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from codec.bodies.heartbeat import MessageModel
from rmqcli.client.admin.values import BEYOND_END, BROADCASTING, BrokerLag
from rmqcli.report.cluster.reading import ClusterReading


@dataclass(slots=True)
class Lag:
    """`lag` is None where `unknown` says why; `clients` None: they were not asked.

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
    """Return the longest first; what is unknown comes before what is zero."""
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
