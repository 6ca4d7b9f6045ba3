"""The load of groups, topics and brokers at a moment, for `rmq top`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from rmqcli.client import Admin, BrokerSummary, ClientError
from rmqcli.flows.topic_names import application_topics
from rmqcli.flows.topic_rates import topic_rates

Failures = dict[str, ClientError]


class Carried(NamedTuple):
    """`name` is that of a group, topic or broker (NAME:ID for a slave), `group` one of a topic's.

    Rates are messages per second, None where unknown. `figure` is watched: the lag, of a broker its rate in.
    `lost`: it did not answer.
    """

    name: str
    group: str | None
    rate_in: float | None
    rate_out: float | None
    figure: int | None
    lost: bool = False


async def of_groups(admin: Admin, failures: Failures) -> list[Carried]:
    found = await admin.groups.summaries(failures=failures)
    return [Carried(one.name, None, None, one.consume_tps, one.lag, one.error is not None) for one in found]


async def of_topics(admin: Admin, failures: Failures) -> list[Carried]:
    topics = application_topics(await admin.topics.names(), await admin.brokers.cluster_info())
    found = await topic_rates(admin, topics, failures)
    return [Carried(one.topic, one.group, one.in_tps, one.out_tps, one.lag) for one in found]


async def of_brokers(admin: Admin, failures: Failures) -> list[Carried]:
    found = await admin.brokers.summaries()
    failures.update({_label(one): one.error for one in found if one.error is not None})
    return [_of_broker(one) for one in found]


def _of_broker(found: BrokerSummary) -> Carried:
    table = found.runtime
    if table is None:
        return Carried(_label(found), None, None, None, None, lost=True)
    came = _first(table.get("putTps"))
    went = _first(table.get("getTransferredTps") or table.get("getTransferedTps"))  # of 5.x, of 4.x
    return Carried(_label(found), None, came, went, None if came is None else round(came))


def _label(found: BrokerSummary) -> str:
    return f"{found.broker_name}:{found.broker_id}" if found.broker_id else found.broker_name


def _first(text: str | None) -> float | None:
    try:
        return float((text or "").split()[0])
    except (IndexError, ValueError):
        return None


KINDS: Mapping[str, Callable[[Admin, Failures], Awaitable[list[Carried]]]] = {
    "groups": of_groups,
    "topics": of_topics,
    "brokers": of_brokers,
}
