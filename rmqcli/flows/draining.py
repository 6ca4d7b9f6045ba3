"""Takes a broker out of use: topics that only it can store, and the wait until it stores nothing more."""

from __future__ import annotations

from collections.abc import Callable

import trio

from codec.bodies.route import TopicRouteData
from codec.codes import MASTER_ID, Perm
from rmqcli.client import Admin, TopicNotFound
from rmqcli.client.admin.area import gather
from rmqcli.flows.topic_names import application_topics

POLL_SECONDS = 1.0


def writable_brokers(route: TopicRouteData) -> set[str]:
    """Return the brokers with a master that take messages of a topic."""
    masters = {data.broker_name for data in route.broker_datas if MASTER_ID in data.broker_addrs}
    return {
        queues.broker_name
        for queues in route.queue_datas
        if queues.perm & Perm.WRITE and queues.write_queue_nums and queues.broker_name in masters
    }


async def only_writable_on(admin: Admin, broker: str) -> list[str]:
    """Return the topics of applications that no other broker takes messages of, sorted."""
    info = await admin.brokers.cluster_info()
    topics = application_topics(await admin.topics.names(), info)
    routes, failures = await gather(topics, admin.topics.route)
    for error in failures.values():
        if not isinstance(error, TopicNotFound):  # deleted meanwhile
            raise error
    return [topic for topic, route in routes.items() if writable_brokers(route) == {broker}]


def put_rate(runtime: dict[str, str]) -> float | None:
    """Return the messages stored per second in the last 10 s; None while the broker does not know it."""
    try:
        return float(runtime.get("putTps", "").split()[0])
    except (IndexError, ValueError):
        return None


async def wait_until_idle(
    admin: Admin, address: str, report: Callable[[float | None], None], limit: float | None
) -> bool:
    """Wait until the broker has stored nothing for 10 s; False after `limit` seconds.

    Calls `report` with each rate that is not 0.
    """
    with trio.move_on_after(float("inf") if limit is None else limit):
        while (rate := put_rate(await admin.brokers.runtime_info(address))) != 0:
            report(rate)
            await trio.sleep(POLL_SECONDS)
        return True
    return False
