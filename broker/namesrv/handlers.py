"""The one table of a name server: request code → function. Any other code is answered with code 3, as 5.x does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from broker.namesrv import broker_handlers, config_handlers, kv_handlers, route_handlers
from broker.namesrv.state import NameServerState
from broker.net.dispatch import HandlerTable
from broker.net.session import Session
from codec.codes import RequestCode
from codec.remoting.frame import RemotingCommand

__all__ = ["HANDLERS", "bound_handlers"]

NameServerHandler = Callable[[NameServerState, Session, RemotingCommand], RemotingCommand]

HANDLERS: Mapping[RequestCode, NameServerHandler] = MappingProxyType(
    {
        RequestCode.PUT_KV_CONFIG: kv_handlers.put_kv,
        RequestCode.GET_KV_CONFIG: kv_handlers.get_kv,
        RequestCode.DELETE_KV_CONFIG: kv_handlers.delete_kv,
        RequestCode.GET_KVLIST_BY_NAMESPACE: kv_handlers.list_kv,
        RequestCode.REGISTER_BROKER: broker_handlers.register_broker,
        RequestCode.UNREGISTER_BROKER: broker_handlers.unregister_broker,
        RequestCode.QUERY_DATA_VERSION: broker_handlers.query_data_version,
        RequestCode.BROKER_HEARTBEAT: broker_handlers.broker_heartbeat,
        RequestCode.WIPE_WRITE_PERM_OF_BROKER: broker_handlers.wipe_write_permission,
        RequestCode.ADD_WRITE_PERM_OF_BROKER: broker_handlers.add_write_permission,
        RequestCode.GET_ROUTEINFO_BY_TOPIC: route_handlers.route,
        RequestCode.GET_BROKER_CLUSTER_INFO: route_handlers.cluster_info,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: route_handlers.all_topics,
        RequestCode.DELETE_TOPIC_IN_NAMESRV: route_handlers.delete_topic,
        RequestCode.REGISTER_TOPIC_IN_NAMESRV: route_handlers.register_topic,
        RequestCode.GET_BROKER_MEMBER_GROUP: route_handlers.member_group,
        RequestCode.GET_TOPICS_BY_CLUSTER: route_handlers.topics_of_cluster,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: route_handlers.system_topics,
        RequestCode.GET_UNIT_TOPIC_LIST: route_handlers.unit_topics,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: route_handlers.unit_sub_topics,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: route_handlers.unit_sub_ununit_topics,
        RequestCode.UPDATE_NAMESRV_CONFIG: config_handlers.set_config,
        RequestCode.GET_NAMESRV_CONFIG: config_handlers.get_config,
    }
)


def bound_handlers(state: NameServerState) -> HandlerTable:
    """The table as a server wants it."""
    return {int(code): partial(handler, state) for code, handler in HANDLERS.items()}
