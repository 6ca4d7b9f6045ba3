"""The handlers of a name server, each registered against its operation. Other codes get code 3, as in 5.x."""

from __future__ import annotations

from broker.namesrv import broker_handlers, config_handlers, kv_handlers, route_handlers
from broker.namesrv.state import NameServerState
from broker.net.dispatch import HandlerTable
from broker.net.handling import by_code, serve
from codec.operations import name_server, routes

HANDLERS = by_code(
    serve(name_server.PUT_KV_CONFIG, kv_handlers.put_kv),
    serve(name_server.GET_KV_CONFIG, kv_handlers.get_kv),
    serve(name_server.DELETE_KV_CONFIG, kv_handlers.delete_kv),
    serve(name_server.GET_KVLIST_BY_NAMESPACE, kv_handlers.list_kv),
    serve(name_server.REGISTER_BROKER, broker_handlers.register_broker),
    serve(name_server.UNREGISTER_BROKER, broker_handlers.unregister_broker),
    serve(name_server.QUERY_DATA_VERSION, broker_handlers.query_data_version),
    serve(name_server.BROKER_HEARTBEAT, broker_handlers.broker_heartbeat),
    serve(routes.WIPE_WRITE_PERM_OF_BROKER, broker_handlers.wipe_write_permission),
    serve(routes.ADD_WRITE_PERM_OF_BROKER, broker_handlers.add_write_permission),
    serve(routes.GET_ROUTEINFO_BY_TOPIC, route_handlers.route),
    serve(routes.GET_BROKER_CLUSTER_INFO, route_handlers.cluster_info),
    serve(routes.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, route_handlers.all_topics),
    serve(routes.DELETE_TOPIC_IN_NAMESRV, route_handlers.delete_topic),
    serve(routes.REGISTER_TOPIC_IN_NAMESRV, route_handlers.register_topic),
    serve(routes.GET_BROKER_MEMBER_GROUP, route_handlers.member_group),
    serve(routes.GET_TOPICS_BY_CLUSTER, route_handlers.topics_of_cluster),
    serve(routes.GET_SYSTEM_TOPIC_LIST_FROM_NS, route_handlers.system_topics),
    serve(routes.GET_UNIT_TOPIC_LIST, route_handlers.unit_topics),
    serve(routes.GET_HAS_UNIT_SUB_TOPIC_LIST, route_handlers.unit_sub_topics),
    serve(routes.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, route_handlers.unit_sub_ununit_topics),
    serve(name_server.UPDATE_NAMESRV_CONFIG, config_handlers.set_config),
    serve(name_server.GET_NAMESRV_CONFIG, config_handlers.get_config),
)


def bound_handlers(state: NameServerState) -> HandlerTable:
    """The handlers of one name server."""
    return {int(code): registration.bind(state) for code, registration in HANDLERS.items()}
