"""The destination of a message: the route of its topic, a queue, the master of its broker."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Collection, Sequence

import trio

from rmqcli.client.errors import InvalidRequest, NotFound, NotPermitted
from rmqcli.client.group.allocation import room_of
from rmqcli.client.instance import ClientInstance
from rmqcli.client.routing.latency_fault_tolerance import LatencyFaults
from rmqcli.client.routing.routes import Route
from rmqcli.codec.codes import MASTER_ID, RequestCode, ResponseCode
from rmqcli.codec.core.hashing import java_string_hash
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue

QueueSelector = Callable[[Sequence[MessageQueue], Message], MessageQueue]
"""Selects one of the writable queues, of which there is at least one.

A failed send is not retried elsewhere.
"""


class RoundRobin:
    """The default choice (Java `TopicPublishInfo.selectOneMessageQueue`)."""

    def __init__(self, rng: random.Random) -> None:
        self._index = rng.randrange(1 << 31)

    def choose(self, queues: Sequence[MessageQueue], avoid: str | None = None) -> MessageQueue:
        """Return the next queue, if possible on a broker other than `avoid`, which failed before."""
        count = len(queues)
        if avoid is not None:
            for _ in range(count):
                self._index += 1
                queue = queues[self._index % count]
                if queue.broker_name != avoid:
                    return queue
        self._index += 1
        return queues[self._index % count]


def by_hash(key: str) -> QueueSelector:
    """Return a selector of the same queue for the same key (Java `SelectMessageQueueByHash` with a
    String).

    ```python
    for step in ("ordered", "paid", "sent"):
        await producer.send(Message.of("orders", step), selector=by_hash("customer-7"))
    ```
    """
    number = java_string_hash(key)

    def select(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        # Java's % keeps the sign, which its selector then drops.
        return queues[abs(number) % len(queues)]

    return select


def by_queue_id(queue_id: int, broker_name: str | None = None) -> QueueSelector:
    """Return a selector of the queue with this number, on the given broker or the first that has it.

    The selector raises ValueError if there is none.

    ```python
    result = await producer.send(Message.of("orders", b"hello"), selector=by_queue_id(0))
    assert result.message_queue.queue_id == 0
    ```
    """

    def select(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        for queue in queues:
            if queue.queue_id == queue_id and broker_name in (None, queue.broker_name):
                return queue
        where = f" on broker {broker_name}" if broker_name else ""
        raise ValueError(f"topic {message.topic} has no writable queue {queue_id}{where}")

    return select


def by_random(rng: random.Random | None = None) -> QueueSelector:
    """Return a selector of a random queue (Java `SelectMessageQueueByRandom`).

    ```python
    await producer.send(Message.of("orders", b"hello"), selector=by_random())
    ```
    """
    source = rng or random.Random()
    return lambda queues, message: source.choice(queues)


def by_machine_room(rooms: Collection[str]) -> QueueSelector:
    """Return a selector that takes turns among the queues of brokers named `room@name` in one of these rooms.

    The selector raises ValueError if there is none.

    ```python
    queues = [MessageQueue("orders", f"{room}@broker", 0) for room in ("berlin", "paris")]
    choose = by_machine_room({"paris"})
    assert choose(queues, Message.of("orders", b"hello")).broker_name == "paris@broker"
    ```
    """
    turn = itertools.count()

    def select(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        near = [queue for queue in queues if room_of(queue) in rooms]
        if not near:
            raise ValueError(f"topic {message.topic} has no queue in {', '.join(sorted(rooms)) or 'no room'}")
        return near[next(turn) % len(near)]

    return select


_ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC.name


class Targets:
    """The destinations of one producer.

    With `faults`, brokers that are slow or do not respond are avoided.
    """

    def __init__(self, instance: ClientInstance, faults: LatencyFaults | None) -> None:
        self._instance = instance
        self._faults = faults
        self._round_robin = RoundRobin(instance.random)

    async def route(self, topic: str, deadline: float) -> Route:
        """Return the route of a topic, or of TBW102 for a new topic.

        Raises NoRoute, and errors of name servers.
        """
        routes = self._instance.routes
        return routes.cached(topic) or await routes.find(
            topic, max(0.0, deadline - trio.current_time()), create=True
        )

    def queue(
        self, route: Route, message: Message, selector: QueueSelector | None, avoid: str | None
    ) -> MessageQueue:
        """Return the queue from the selector, or the next in turn, if possible not on broker `avoid`.

        Raises NotPermitted if no queue is writable, InvalidRequest if the selector fails.
        """
        if not route.publish:
            remark = (
                f"topic {route.topic} has no writable queue on a broker with a master; "
                f"see: rmq topic route {route.topic}"
            )
            current = self._instance.name_servers.current
            raise NotPermitted(ResponseCode.NO_PERMISSION, remark, current, _ROUTE, concluded=True)
        if selector is None and self._faults is not None:
            return self._faults.choose(route.publish, self._round_robin.choose)
        if selector is None:
            return self._round_robin.choose(route.publish, avoid)
        try:
            return selector(route.publish, message)
        except (ValueError, LookupError) as error:
            raise InvalidRequest(f"the queue selector failed: {error}") from error

    def master(self, route: Route, queue: MessageQueue) -> str:
        """Return the address of the master of the queue. Raises NotFound if its broker has none."""
        address = route.brokers.get(queue.broker_name, {}).get(MASTER_ID)
        if address is None:
            remark = f"topic {queue.topic} has no master on broker {queue.broker_name}"
            current = self._instance.name_servers.current
            raise NotFound(ResponseCode.QUERY_NOT_FOUND, remark, current, _ROUTE, concluded=True)
        return address
