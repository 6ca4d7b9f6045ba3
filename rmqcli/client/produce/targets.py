"""Destination of a message: the route of its topic, a queue, the master of its broker."""

from __future__ import annotations

import trio

from codec.codes import MASTER_ID, RequestCode, ResponseCode
from codec.message import Message
from codec.message_queue import MessageQueue
from rmqcli.client.errors import InvalidRequest, NotFound, NotPermitted
from rmqcli.client.instance import ClientInstance
from rmqcli.client.produce.queue_selectors import QueueSelector, RoundRobin
from rmqcli.client.routing.latency_fault_tolerance import LatencyFaults
from rmqcli.client.routing.routes import Route

_ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC.name


class Targets:
    """The destinations of one producer. With `faults`, brokers that are slow or do not answer are avoided."""

    def __init__(self, instance: ClientInstance, faults: LatencyFaults | None) -> None:
        self._instance = instance
        self._faults = faults
        self._round_robin = RoundRobin(instance.random)

    async def route(self, topic: str, deadline: float) -> Route:
        """Return the route of a topic, or of TBW102 for a new topic; NoRoute, and errors of name servers."""
        routes = self._instance.routes
        return routes.cached(topic) or await routes.find(
            topic, max(0.0, deadline - trio.current_time()), create=True
        )

    def queue(
        self, route: Route, message: Message, selector: QueueSelector | None, avoid: str | None
    ) -> MessageQueue:
        """Return the queue from the selector, else the next in turn, if possible not on broker `avoid`.

        NotPermitted when no queue is writable, InvalidRequest when the selector fails.
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
        """Return the address of the queue's master; NotFound when its broker has none."""
        address = route.brokers.get(queue.broker_name, {}).get(MASTER_ID)
        if address is None:
            remark = f"topic {queue.topic} has no master on broker {queue.broker_name}"
            current = self._instance.name_servers.current
            raise NotFound(ResponseCode.QUERY_NOT_FOUND, remark, current, _ROUTE, concluded=True)
        return address
