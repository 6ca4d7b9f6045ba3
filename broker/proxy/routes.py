"""QueryRoute and QueryAssignment.

A route names the address through which its client reached the front, so port forwards, containers and tunnels
need no setting. Each broker has id 0, and its queues are numbered from 0 on.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from rmqcli.broker.proxy.answers import StatusError
from rmqcli.broker.proxy.backend import Backend, BrokerQueues
from rmqcli.broker.proxy.calling import Caller, group_name, subscribe, topic_name
from rmqcli.broker.proxy.convert import full_name
from rmqcli.codec.acl.account_file import Permission as Allowed
from rmqcli.codec.acl.decision import on_topic
from rmqcli.codec.codes import Perm
from rmqcli.codec.ids import split_address
from rmqcli.codec.proxy import messages
from rmqcli.codec.proxy.codes import AddressScheme, Code, MessageType, Permission

ALL_TYPES = (MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION)
ALL_QUEUES = -1
HTTPS_PORT, HTTP_PORT = 443, 80


async def query_route(caller: Caller, request: Any) -> Any:
    """Return the queues of a topic, which is created if that is allowed."""
    name = topic_name(full_name(request.topic))
    caller.check(on_topic(name, Allowed.PUB | Allowed.SUB))
    queues = await caller.backend.topic(caller, name)
    endpoints = _endpoints(caller, request)
    return messages.QueryRouteResponse(
        message_queues=[
            _queue(caller.backend, some, request.topic, number, endpoints)
            for some in queues
            for number in range(max(some.read_queues, some.write_queues, 1))
        ]
    )


async def query_assignment(caller: Caller, request: Any) -> Any:
    """Return the queues from which a push consumer receives: all queues of a broker as one, or each one for a
    FIFO group.
    """
    name, group = topic_name(full_name(request.topic)), group_name(full_name(request.group))
    caller.check(*subscribe(name, group))
    backend = caller.backend
    queues = await backend.topic(caller, name)
    readable = [some for some in queues if some.perm & Perm.READ and some.read_queues]
    if not readable:
        raise StatusError(Code.FORBIDDEN, f"topic {name} has no readable queue")
    known = await backend.group(group)
    is_fifo = known is not None and bool(known.consume_message_orderly)
    endpoints = _endpoints(caller, request)
    return messages.QueryAssignmentResponse(
        assignments=[
            messages.Assignment(message_queue=_queue(backend, some, request.topic, number, endpoints))
            for some in readable
            for number in (range(some.read_queues) if is_fifo else (ALL_QUEUES,))
        ]
    )


def accepted_types(backend: Backend, kind: str) -> tuple[MessageType, ...]:
    """Return the types of messages that a topic accepts, given its attribute: all, unless types are checked.

    Only a topic for priorities names them, because Java's clients before 5.2.1 fail on a type that they do
    not know.
    """
    known = (*ALL_TYPES, MessageType.PRIORITY) if kind == MessageType.PRIORITY.name else ALL_TYPES
    if not backend.checks_types or kind == "MIXED":
        return known
    return tuple(one for one in known if one.name == kind)


def _queue(backend: Backend, some: BrokerQueues, topic: Any, number: int, endpoints: Any) -> Any:
    can_read = bool(some.perm & Perm.READ) and number < some.read_queues
    can_write = bool(some.perm & Perm.WRITE) and number < some.write_queues
    permission = {
        (True, True): Permission.READ_WRITE,
        (True, False): Permission.READ,
        (False, True): Permission.WRITE,
        (False, False): Permission.NONE,
    }[can_read, can_write]
    return messages.MessageQueue(
        topic=topic,
        id=number,
        permission=permission,
        broker=messages.Broker(name=some.broker_name, id=0, endpoints=endpoints),
        accept_message_types=accepted_types(backend, some.kind),
    )


def _endpoints(caller: Caller, request: Any) -> Any:
    """Return the address that the client named in its request, otherwise that of its connection."""
    if request.endpoints.addresses:
        return request.endpoints
    is_secure = caller.call.headers.get(":scheme") == "https"
    default = HTTPS_PORT if is_secure else HTTP_PORT
    try:
        host, port = split_address(caller.call.headers.get(":authority", ""), default)
    except ValueError:
        host, port = split_address(caller.backend.address)
    return messages.Endpoints(scheme=_scheme(host), addresses=[messages.Address(host=host, port=port)])


def _scheme(host: str) -> AddressScheme:
    try:
        return AddressScheme.IPv4 if ip_address(host.strip("[]")).version == 4 else AddressScheme.IPv6
    except ValueError:
        return AddressScheme.DOMAIN_NAME
