"""QueryRoute and QueryAssignment.

A route names the address by which its client reached the front: port forwards, containers and tunnels need no
setting. It has this broker only, as id 0, and its queues from 0 on.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.handlers.common import no_topic
from rmqcli.broker.handlers.send import known_topic
from rmqcli.broker.proxy.answers import StatusError
from rmqcli.broker.proxy.calling import Caller, group_name, ready, subscribe, topic_name
from rmqcli.broker.proxy.convert import full_name
from rmqcli.codec.acl.account_file import Permission as Allowed
from rmqcli.codec.acl.decision import on_topic
from rmqcli.codec.bodies.config import TopicConfig
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
    config = await ready(caller.broker, _topic, caller, name)
    endpoints = _endpoints(caller, request)
    queues = [_queue(caller.broker, config, request.topic, number, endpoints) for number in _numbers(config)]
    return messages.QueryRouteResponse(message_queues=queues)


async def query_assignment(caller: Caller, request: Any) -> Any:
    """Return what a push consumer receives from: all queues as one, or each one for a FIFO group."""
    name, group = topic_name(full_name(request.topic)), group_name(full_name(request.group))
    caller.check(*subscribe(name, group))
    broker = caller.broker
    config = await ready(broker, _topic, caller, name)
    if not config.perm & Perm.READ or not config.read_queue_nums:
        raise StatusError(Code.FORBIDDEN, f"topic {name} has no readable queue")
    known = broker.groups.get(group)
    is_fifo = known is not None and bool(known.consume_message_orderly)
    numbers = range(config.read_queue_nums) if is_fifo else [ALL_QUEUES]
    endpoints = _endpoints(caller, request)
    queues = (_queue(broker, config, request.topic, number, endpoints) for number in numbers)
    return messages.QueryAssignmentResponse(
        assignments=[messages.Assignment(message_queue=one) for one in queues]
    )


def _topic(caller: Caller, name: str) -> TopicConfig:
    config = caller.broker.topics.get(name)
    if config is not None:
        return config
    if caller.broker.is_slave:
        raise no_topic(name)
    return known_topic(caller.broker, caller.session, name)


def accepted_types(broker: BrokerContext, config: TopicConfig | None) -> tuple[MessageType, ...]:
    """Return the types of the messages that a topic takes: all, unless the broker checks them."""
    if not broker.config.enable_topic_message_type_check:
        return ALL_TYPES
    kind = type_name(config)
    return ALL_TYPES if kind == "MIXED" else tuple(one for one in ALL_TYPES if one.name == kind)


def type_name(config: TopicConfig | None) -> str:
    """Return the attribute of a topic that says which messages it takes."""
    attributes = None if config is None else config.attributes
    return (attributes or {}).get("message.type", MessageType.NORMAL.name)


def _numbers(config: TopicConfig) -> range:
    return range(max(config.read_queue_nums, config.write_queue_nums, 1))


def _queue(broker: BrokerContext, config: TopicConfig, topic: Any, number: int, endpoints: Any) -> Any:
    perm = config.perm & broker.config.broker_permission
    can_read = bool(perm & Perm.READ) and number < config.read_queue_nums
    can_write = bool(perm & Perm.WRITE) and number < config.write_queue_nums
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
        broker=messages.Broker(name=broker.name, id=0, endpoints=endpoints),
        accept_message_types=accepted_types(broker, config),
    )


def _endpoints(caller: Caller, request: Any) -> Any:
    """Return the address that the client named in its request, or else that of its connection."""
    if request.endpoints.addresses:
        return request.endpoints
    is_secure = caller.call.headers.get(":scheme") == "https"
    default = HTTPS_PORT if is_secure else HTTP_PORT
    try:
        host, port = split_address(caller.call.headers.get(":authority", ""), default)
    except ValueError:
        host, port = split_address(caller.broker.address)
    return messages.Endpoints(scheme=_scheme(host), addresses=[messages.Address(host=host, port=port)])


def _scheme(host: str) -> AddressScheme:
    try:
        return AddressScheme.IPv4 if ip_address(host.strip("[]")).version == 4 else AddressScheme.IPv6
    except ValueError:
        return AddressScheme.DOMAIN_NAME
