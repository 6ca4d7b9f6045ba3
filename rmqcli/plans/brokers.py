"""Operations on whole brokers: drain a broker, time sends to each, and name a feature that a broker lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, islice
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import trio

from rmqcli.client import UNREACHED, Admin, BrokerRefused, ClientError, TopicNotFound
from rmqcli.client.admin.area import gather
from rmqcli.codec.bodies.route import TopicRouteData
from rmqcli.codec.codes import MASTER_ID, Perm
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.plans.topics import application_topics

if TYPE_CHECKING:
    from rmqcli.client import Producer

POLL_SECONDS = 1.0
RATE_SECONDS = 60.0
"""The time within which a broker reports its first rate: it counts over 10 s."""


def writable_brokers(route: TopicRouteData) -> set[str]:
    """Return the brokers with a master that accept messages for a topic."""
    masters = {data.broker_name for data in route.broker_datas if MASTER_ID in data.broker_addrs}
    return {
        queues.broker_name
        for queues in route.queue_datas
        if queues.perm & Perm.WRITE and queues.write_queue_nums and queues.broker_name in masters
    }


async def only_writable_on(admin: Admin, broker: str) -> list[str]:
    """Return the topics of applications that no other broker accepts messages for, sorted."""
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
) -> bool | None:
    """Wait until the broker has stored nothing for 10 s; False after `limit` seconds.

    Without a limit, returns None if the broker has reported no rate for RATE_SECONDS. Calls `report` with
    each rate that is not 0.
    """
    known = trio.current_time()
    with trio.move_on_after(float("inf") if limit is None else limit):
        while (rate := put_rate(await admin.brokers.runtime_info(address))) != 0:
            report(rate)
            known = known if rate is None else trio.current_time()
            if limit is None and trio.current_time() - known >= RATE_SECONDS:
                return None
            await trio.sleep(POLL_SECONDS)
        return True
    return False


class Ping(NamedTuple):
    """The round trips to one broker in milliseconds, sorted, the number of failed sends, and the last error.

    A broker that does not respond gets no further messages.
    """

    times: tuple[float, ...]
    failed: int
    error: ClientError | None

    def percentile(self, part: float) -> float | None:
        """Return the time that a part (0 to 1) of the sends did not exceed (nearest rank); None without
        sends.
        """
        return self.times[max(0, ceil(part * len(self.times)) - 1)] if self.times else None


async def queues_of(producer: Producer, topic: str) -> dict[str, list[MessageQueue]]:
    """Return the writable queues of a topic by broker."""
    found: dict[str, list[MessageQueue]] = {}
    for queue in await producer.message_queues(topic):
        found.setdefault(queue.broker_name, []).append(queue)
    return found


def own_queues(brokers: Sequence[str]) -> dict[str, list[MessageQueue]]:
    """Return the queue of each broker in the topic that is named after it."""
    return {name: [MessageQueue(name, name, 0)] for name in brokers}


async def ping(
    producer: Producer,
    queues: Mapping[str, Sequence[MessageQueue]],
    *,
    count: int,
    size: int,
    interval: float = 0.0,
) -> dict[str, Ping]:
    """Send `count` messages of `size` bytes to each broker, one after another, `interval` seconds apart.

    A first message, which is not measured, opens the connection.
    """
    found: dict[str, Ping] = {}

    async def one(name: str) -> None:
        found[name] = await _ping(producer, queues[name], count, bytes(size), interval)

    async with trio.open_nursery() as nursery:
        for name in queues:
            nursery.start_soon(one, name)
    return {name: found[name] for name in queues}


async def _ping(
    producer: Producer, queues: Sequence[MessageQueue], count: int, body: bytes, interval: float
) -> Ping:
    times: list[float] = []
    failed, last = 0, None
    for number, queue in enumerate(islice(cycle(queues), count + 1)):
        if number:
            await trio.sleep(interval)
        begun = trio.current_time()
        try:
            await producer.send(Message(topic=queue.topic, body=body), queue=queue)
        except ClientError as error:
            failed, last = failed + 1, error
            if isinstance(error, UNREACHED):
                break
        else:
            if number:
                times.append((trio.current_time() - begun) * 1000)
    return Ping(tuple(sorted(times)), failed, last)


UNKNOWN = "request type"
"""The text with which every server's remark on an unknown request code begins; other remarks are reasons."""
_VERSION = "brokerVersionDesc"


async def unserved(admin: Admin, error: BrokerRefused, feature: str) -> str:
    """Return one line with the server, its version if it has one, and its reason or the feature that it
    lacks.
    """
    server = await _server(admin, error.address)
    if error.remark and not error.remark.lstrip().startswith(UNKNOWN):
        return f"{server}: {error.remark}"
    return f"{server} has no {feature}: it does not serve {error.request}"


async def _server(admin: Admin, address: str) -> str:
    """Return `broker-a (V4_9_8)`, or the address of a server that is not a broker."""
    try:
        table = (await admin.brokers.cluster_info()).broker_addr_table
        name = next((name for name, data in table.items() if address in data.broker_addrs.values()), None)
        if name is None:
            return address
        return f"{name} ({(await admin.brokers.runtime_info(address)).get(_VERSION, 'unknown version')})"
    except ClientError:
        return address
