"""The topic of a run: one that is made for it and removed, or an existing one, which is only used."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import trio

from codec.codes import Perm
from codec.message_queue import MessageQueue
from rmqcli.client import Admin, ClientError, ConnectionLost, InvalidRequest, RequestTimeout

PREFIX = "RMQ_BENCH_"
QUEUES = 8
CLEAN_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Place:
    """The topic that is measured: an existing one or, without a name, one of its own, on these masters; all
    if empty.

    `troubles` gets why a broker did not take the topic, or why it could not be removed.
    """

    topic: str | None = None
    brokers: Collection[str] = ()
    cluster: str | None = None
    troubles: dict[str, ClientError | str] = field(default_factory=dict)

    @property
    def is_own(self) -> bool:
        """True if the topic is made for the run."""
        return self.topic is None


@asynccontextmanager
async def opened(admin: Admin, place: Place, perm: Perm = Perm.WRITE) -> AsyncIterator[list[MessageQueue]]:
    """Return the queues that have a permission; an own topic is removed at the end, even when cancelled.

    Raises ClientError; NoRoute if the topic does not exist, InvalidRequest if it has no queue there.
    """
    if place.topic is not None:
        yield await _existing(admin, place.topic, place, perm)
        return
    topic = f"{PREFIX}{admin.instance.random.getrandbits(48):012x}"
    try:
        change = await admin.topics.create(
            topic,
            brokers=place.brokers,
            cluster=place.cluster,
            read_queues=QUEUES,
            write_queues=QUEUES,
        )
        place.troubles.update({name: of_creation(topic, why) for name, why in change.failures.items()})
        yield [MessageQueue(topic, name, number) for number in range(QUEUES) for name in change.brokers]
    finally:
        with trio.move_on_after(CLEAN_SECONDS, shield=True):
            await _remove(admin, topic, place)


def of_creation(topic: str, error: ClientError) -> ClientError | str:
    """Return a broker that did not answer may still make the topic."""
    if not isinstance(error, (ConnectionLost, RequestTimeout)):
        return error
    return f"{error}; it may still make the topic: rmq topic delete {topic}"


async def _existing(admin: Admin, topic: str, place: Place, perm: Perm) -> list[MessageQueue]:
    masters = await admin.brokers.masters(brokers=place.brokers, cluster=place.cluster)
    route = await admin.topics.route(topic)
    queues = [
        MessageQueue(topic, data.broker_name, number)
        for data in route.queue_datas
        if data.broker_name in masters and data.perm & perm
        for number in range(data.read_queue_nums if perm == Perm.READ else data.write_queue_nums)
    ]
    if not queues:
        verb = "read" if perm == Perm.READ else "written"
        raise InvalidRequest(f"topic {topic} has no queue on the chosen brokers that may be {verb}")
    return sorted(queues, key=lambda queue: (queue.queue_id, queue.broker_name))


async def _remove(admin: Admin, topic: str, place: Place) -> None:
    try:
        failures = (await admin.topics.delete(topic)).failures
    except ClientError as error:
        with suppress(ClientError):
            await admin.topics.route(topic)
            place.troubles[topic] = f"could not be removed: {error}"
        return
    for name, failure in failures.items():
        place.troubles[topic] = f"could not be removed from {name}: {failure}; use: rmq topic delete {topic}"
