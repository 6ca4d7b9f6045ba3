"""The load of groups, topics and brokers at a moment, for `rmq top`."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import NamedTuple

from rmqcli.client import Admin, BrokerSummary, ClientError
from rmqcli.codec.bodies.route import ClusterInfo
from rmqcli.codec.codes import MASTER_ID
from rmqcli.plans.topics import application_topics, timers_of, topic_rates

Failures = dict[str, ClientError]


class Carried(NamedTuple):
    """`name` is that of a group, topic or broker (NAME:ID for a slave), `group` one of a topic's.

    Rates are messages per second, None if unknown. `figure` is the value whose trend is shown: the lag, or
    for a broker its incoming rate. `brokers` contribute to the figures. `lost`: there are no figures.
    `timers` are waiting timer messages, `clients` the running clients of a group.
    """

    name: str
    group: str | None
    rate_in: float | None
    rate_out: float | None
    figure: int | None
    brokers: frozenset[str] = frozenset()
    lost: bool = False
    timers: int | None = None
    clients: int | None = None


class Reading(NamedTuple):
    """The rows that were found. `registered` brokers are known to the name server; `lost` has those that did
    not respond, with the reason.

    Figures do not include lost brokers.
    """

    found: list[Carried]
    registered: frozenset[str]
    lost: Mapping[str, ClientError]


async def of_groups(admin: Admin) -> Reading:
    failures: Failures = {}
    info = await admin.brokers.cluster_info()
    found = await admin.groups.summaries(failures=failures)
    rows = [
        Carried(
            *(one.name, None, None, round(one.consume_tps, 2), one.lag, one.brokers, one.error is not None),
            clients=one.clients,
        )
        for one in found
    ]
    return Reading(rows, _masters(info), failures)


async def of_topics(admin: Admin) -> Reading:
    failures: Failures = {}
    info = await admin.brokers.cluster_info()
    found = await topic_rates(admin, application_topics(await admin.topics.names(), info), failures)
    waiting = await timers_of(admin, failures)
    rows = [
        Carried(
            *(one.topic, one.group, one.in_tps, one.out_tps, one.lag, one.brokers), timers=waiting(one.topic)
        )
        for one in found
    ]
    return Reading(rows, _masters(info), failures)


async def of_brokers(admin: Admin) -> Reading:
    found = await admin.brokers.summaries()
    failures = {_label(one): one.error for one in found if one.error is not None}
    return Reading([_of_broker(one) for one in found], frozenset(map(_label, found)), failures)


def _masters(info: ClusterInfo) -> frozenset[str]:
    return frozenset(name for name, data in info.broker_addr_table.items() if MASTER_ID in data.broker_addrs)


def _of_broker(found: BrokerSummary) -> Carried:
    name, table = _label(found), found.runtime
    if table is None:
        return Carried(name, None, None, None, None, frozenset({name}), lost=True)
    came = _first(table.get("putTps"))
    went = _first(table.get("getTransferredTps") or table.get("getTransferedTps"))  # of 5.x, of 4.x
    rate, waiting = None if came is None else round(came), _first(table.get("timerCongestNum"))
    timers = None if waiting is None else round(waiting)
    return Carried(name, None, came, went, rate, frozenset({name}), timers=timers)


def _label(found: BrokerSummary) -> str:
    return f"{found.broker_name}:{found.broker_id}" if found.broker_id else found.broker_name


def _first(text: str | None) -> float | None:
    try:
        return float((text or "").split()[0])
    except (IndexError, ValueError):
        return None


KINDS: Mapping[str, Callable[[Admin], Awaitable[Reading]]] = {
    "groups": of_groups,
    "topics": of_topics,
    "brokers": of_brokers,
}


SPAN = 300.0  # seconds of values to keep
WINDOW = 60.0  # seconds over which the change is computed
POINTS = 20


class Trend(NamedTuple):
    """At most POINTS values, the newest last; the change per second, None for fewer than two values; and the
    seconds to zero at this rate, None if the value does not fall.
    """

    values: tuple[int, ...]
    change: float | None
    eta: float | None


class Trends:
    """The values of figures by name."""

    def __init__(self) -> None:
        self._known: dict[Hashable, deque[tuple[float, int]]] = {}

    def note(self, name: Hashable, value: int | None, now: float) -> Trend:
        """Add a value, unless it is unknown, and return the trend."""
        known = self._known.setdefault(name, deque())
        if value is not None:
            known.append((now, value))
        while known and known[0][0] < now - SPAN:
            known.popleft()
        change = _change([one for one in known if one[0] >= now - WINDOW])
        return Trend(_thinned([one for _, one in known]), change, _eta(value, change))

    def drop(self, name: Hashable) -> None:
        """Forget the values of a name."""
        self._known.pop(name, None)


def _change(found: list[tuple[float, int]]) -> float | None:
    if len(found) < 2 or found[-1][0] <= found[0][0]:
        return None
    return (found[-1][1] - found[0][1]) / (found[-1][0] - found[0][0])


def _eta(value: int | None, change: float | None) -> float | None:
    if value == 0:
        return 0.0
    return None if value is None or change is None or change >= 0 else value / -change


def _thinned(values: list[int]) -> tuple[int, ...]:
    if len(values) <= POINTS:
        return tuple(values)
    last = len(values) - 1
    return tuple(values[round(place * last / (POINTS - 1))] for place in range(POINTS))
