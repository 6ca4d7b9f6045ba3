"""Groups and who is in them: codes 200, 201, 203, 204, 207, 225, 328, 352 (Java class `AdminBrokerProcessor`)."""

from __future__ import annotations

from collections.abc import Sequence

from broker.config.checks import MOST_QUEUES
from broker.context import BrokerContext
from broker.errors import Refusal
from broker.handlers.common import ok, refuse_on_slave
from broker.net.session import Session
from broker.tables import ClientChannel
from broker.tables.groups import can_have_retry_topic
from codec.bodies.base import decode_body, encode_body
from codec.bodies.config import SubscriptionGroupConfig, SubscriptionGroupList
from codec.bodies.connections import (
    ClientConnection,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
)
from codec.codes import LanguageCode, ResponseCode
from codec.headers.base import from_ext
from codec.headers.clients import (
    GetConsumerConnectionListRequestHeader,
    GetProducerConnectionListRequestHeader,
)
from codec.headers.groups import DeleteSubscriptionGroupRequestHeader, GetSubscriptionGroupConfigRequestHeader
from codec.remoting.frame import RemotingCommand

__all__ = [
    "all_groups",
    "all_producers",
    "consumer_connections",
    "delete_group",
    "group_config",
    "producer_connections",
    "put_group",
    "put_groups",
]


def put_group(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """200: creates or overwrites a group."""
    _put_groups(broker, [decode_body(SubscriptionGroupConfig, request.body)])
    return ok(request)


def put_groups(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """225 (5.x): many groups at once."""
    _put_groups(broker, decode_body(SubscriptionGroupList, request.body).group_config_list)
    return ok(request)


def _put_groups(broker: BrokerContext, configs: Sequence[SubscriptionGroupConfig]) -> None:
    """All of them or none."""
    refuse_on_slave(broker)
    for config in configs:
        if not can_have_retry_topic(config.group_name):
            remark = f"the group[{config.group_name}] can have no retry topic: its name is blank, too long or holds a /"
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
        if config.retry_queue_nums > MOST_QUEUES:
            remark = (
                f"the group[{config.group_name}] can not have {config.retry_queue_nums} retry queues, "
                f"{MOST_QUEUES} is the limit"
            )
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    for config in configs:
        broker.groups.put(config)
    broker.groups_changed()


def all_groups(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """201: the whole table of groups."""
    return ok(request, body=encode_body(broker.groups.wrapper()))


def group_config(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """352 (5.x): one group."""
    name = from_ext(GetSubscriptionGroupConfigRequestHeader, request.ext_fields).group
    config = broker.groups.get(name)
    if config is None:
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"No group in this broker. group: {name}")
    return ok(request, body=encode_body(config))


def delete_group(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """207: forgets a group, with its offsets when asked to."""
    refuse_on_slave(broker)
    header = from_ext(DeleteSubscriptionGroupRequestHeader, request.ext_fields)
    if broker.groups.remove(header.group_name):
        broker.groups_changed()
    if header.remove_offset or header.clean_offset:
        broker.offsets.remove_group(header.group_name)
    return ok(request)


def consumer_connections(
    broker: BrokerContext, _session: Session, request: RemotingCommand
) -> RemotingCommand:
    """203: the clients of a group and what they subscribe to."""
    name = from_ext(GetConsumerConnectionListRequestHeader, request.ext_fields).consumer_group
    group = broker.consumers.get(name)
    if group is None:
        raise Refusal(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online")
    body = ConsumerConnection(
        connection_set=[_connection(client) for client in group.channels.values()],
        subscription_table=dict(group.subscriptions),
        consume_type=group.consume_type,
        message_model=group.message_model,
        consume_from_where=group.consume_from_where,
    )
    return ok(request, body=encode_body(body))


def producer_connections(
    broker: BrokerContext, _session: Session, request: RemotingCommand
) -> RemotingCommand:
    """204: the clients of a producer group."""
    name = from_ext(GetProducerConnectionListRequestHeader, request.ext_fields).producer_group
    clients = broker.producers.clients(name)
    if clients is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
    return ok(request, body=encode_body(ProducerConnection(connection_set=[_connection(c) for c in clients])))


def all_producers(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """328: every producer of every group."""
    data = {
        group: [_producer_info(client) for client in clients]
        for group, clients in broker.producers.groups().items()
    }
    return ok(request, body=encode_body(ProducerTableInfo(data=data)))


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
