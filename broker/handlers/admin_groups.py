"""Consumer groups and connected clients: codes 200, 201, 203, 204, 207, 225, 328, 345, 352 (Java class
`AdminBrokerProcessor`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from rmqcli.broker.config.checks import MOST_QUEUES
from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import Refusal
from rmqcli.broker.net.handling import Answered, Reply, Request
from rmqcli.broker.net.session import Session
from rmqcli.broker.net.turns import LongWork, Steps, emptying
from rmqcli.broker.tables import ClientChannel
from rmqcli.broker.tables.attributes import GROUP, altered
from rmqcli.broker.tables.groups import name_problem
from rmqcli.codec.bodies.config import (
    GroupForbidden,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupWrapper,
)
from rmqcli.codec.bodies.heartbeat import QuerySubscriptionResponseBody
from rmqcli.codec.bodies.running import (
    ClientConnection,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
)
from rmqcli.codec.codes import LanguageCode, ResponseCode
from rmqcli.codec.headers.clients import (
    GetAllProducerInfoRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetProducerConnectionListRequestHeader,
)
from rmqcli.codec.headers.groups import (
    DeleteSubscriptionGroupRequestHeader,
    GetSubscriptionGroupConfigRequestHeader,
    QuerySubscriptionByConsumerRequestHeader,
    UpdateGroupForbiddenRequestHeader,
)

T = TypeVar("T")


def put_group(broker: BrokerContext, request: Request[None, SubscriptionGroupConfig]) -> Answered[None, None]:
    """Create or overwrite a group (code 200)."""
    return LongWork(_put_groups(broker, [request.body]))


def put_groups(broker: BrokerContext, request: Request[None, SubscriptionGroupList]) -> Answered[None, None]:
    """Create or overwrite many groups at once (code 225, 5.x)."""
    return LongWork(_put_groups(broker, request.body.group_config_list))


def _put_groups(broker: BrokerContext, configs: list[SubscriptionGroupConfig]) -> Steps:
    """Store all groups, or none if one of them is refused."""
    for place, config in enumerate(configs):
        _refuse_unusable(config)
        configs[place] = replace(config, attributes=_attributes(broker, config))
        yield
    for config in configs:
        broker.groups.put(config)
        yield
    yield from emptying(configs)
    return partial(_changed, broker)


def _refuse_unusable(config: SubscriptionGroupConfig) -> None:
    name = config.group_name
    if (problem := name_problem(name)) is not None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, problem)
    if config.retry_queue_nums > MOST_QUEUES:
        remark = f"the group[{name}] can not have {config.retry_queue_nums} retry queues, {MOST_QUEUES} is the limit"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)


def _attributes(broker: BrokerContext, config: SubscriptionGroupConfig) -> dict[str, str] | None:
    """Return the attributes of the group after the changes, which a request's config has in their place."""
    known, changes = broker.groups.get(config.group_name), config.attributes
    current = known.attributes if known is not None else None
    try:
        return altered(current, changes, GROUP, is_new=known is None) if changes else current
    except ValueError as error:
        remark = f"The attributes of group[{config.group_name}]: {error}"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark) from None


def _changed(broker: BrokerContext) -> Reply[None, None]:
    broker.groups_changed()
    return Reply()


def all_groups(broker: BrokerContext, _request: Request[None, None]) -> Reply[None, SubscriptionGroupWrapper]:
    """Return the whole table of groups (code 201)."""
    return Reply(body=broker.groups.wrapper())


def group_config(
    broker: BrokerContext, request: Request[GetSubscriptionGroupConfigRequestHeader, None]
) -> Reply[None, SubscriptionGroupConfig]:
    """Return one group (code 352, 5.x)."""
    name = request.header.group
    config = broker.groups.get(name)
    if config is None:
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"No group in this broker. group: {name}")
    return Reply(body=config)


def delete_group(
    broker: BrokerContext, request: Request[DeleteSubscriptionGroupRequestHeader, None]
) -> Reply[None, None]:
    """Delete a group (code 207), and its offsets on request."""
    header = request.header
    broker.request_modes.remove_group(header.group_name)
    if broker.groups.remove(header.group_name):
        broker.groups_changed()
    if header.remove_offset or header.clean_offset:
        broker.offsets.remove_group(header.group_name)
        broker.pops.remove_group(header.group_name)
    return Reply()


def forbid(
    broker: BrokerContext, request: Request[UpdateGroupForbiddenRequestHeader, None]
) -> Reply[None, GroupForbidden]:
    """Forbid or allow a group to consume a topic, and return the resulting setting (code 353)."""
    group, topic, readable = request.header.group, request.header.topic, request.header.readable
    if readable is not None and readable == broker.groups.is_forbidden(group, topic):
        if group not in broker.groups:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"No group in this broker. group: {group}"
            )
        if topic not in broker.topics:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        broker.groups.forbid(group, topic, is_forbidden=not readable)
        broker.groups_changed()
    is_readable = not broker.groups.is_forbidden(group, topic)
    return Reply(body=GroupForbidden(topic=topic, group=group, readable=is_readable))


async def consumer_connections(
    broker: BrokerContext, request: Request[GetConsumerConnectionListRequestHeader, None]
) -> Reply[None, ConsumerConnection]:
    """Return the clients of a group and its subscriptions (code 203)."""
    name = request.header.consumer_group
    group = broker.consumers.get(name)
    if group is None:
        raise Refusal(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online")
    clients = list(group.channels.values())
    body = ConsumerConnection(
        connection_set=await _each(request.session, clients, _connection),
        subscription_table=dict(group.subscriptions),
        consume_type=group.consume_type,
        message_model=group.message_model,
        consume_from_where=group.consume_from_where,
    )
    return Reply(body=body)


def subscription(
    broker: BrokerContext, request: Request[QuerySubscriptionByConsumerRequestHeader, None]
) -> Reply[None, QuerySubscriptionResponseBody]:
    """Return the subscription of an online group to one topic (code 345, 5.x)."""
    name, topic = request.header.group, request.header.topic
    group = broker.consumers.get(name)
    found = group.subscriptions.get(topic or "") if group is not None else None
    return Reply(body=QuerySubscriptionResponseBody(subscription_data=found, group=name, topic=topic))


async def producer_connections(
    broker: BrokerContext, request: Request[GetProducerConnectionListRequestHeader, None]
) -> Reply[None, ProducerConnection]:
    """Return the clients of a producer group (code 204)."""
    name = request.header.producer_group
    clients = broker.producers.clients(name)
    if clients is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
    return Reply(body=ProducerConnection(connection_set=await _each(request.session, clients, _connection)))


async def all_producers(
    broker: BrokerContext, request: Request[GetAllProducerInfoRequestHeader, None]
) -> Reply[None, ProducerTableInfo]:
    """Return every producer of every group (code 328)."""
    data = {
        group: await _each(request.session, clients, _producer_info)
        for group, clients in broker.producers.groups().items()
    }
    return Reply(body=ProducerTableInfo(data=data))


async def _each(
    session: Session, clients: Sequence[ClientChannel], describe: Callable[[ClientChannel], T]
) -> list[T]:
    """Describe clients, in as many turns as necessary."""
    pace, described = session.turns.pace(), []
    for client in clients:
        described.append(describe(client))
        await pace.step()
    return described


def _connection(client: ClientChannel) -> ClientConnection:
    return ClientConnection(
        client_id=client.client_id,
        client_addr=client.channel.peer_text,
        language=_language(client.language),
        version=client.version,
    )


def _producer_info(client: ClientChannel) -> ProducerInfo:
    return ProducerInfo(
        client_id=client.client_id,
        remote_ip=f"/{client.channel.peer_text}",
        language=_language(client.language),
        version=client.version,
        last_update_timestamp=client.last_update,
    )


def _language(code: int) -> str:
    try:
        return LanguageCode(code).name
    except ValueError:
        return LanguageCode.OTHER.name
