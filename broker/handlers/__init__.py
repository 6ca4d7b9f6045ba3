"""The handlers of a broker, each registered against the operation that it serves."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.handlers import (
    accounts,
    admin_broker,
    admin_groups,
    admin_topics,
    assignment,
    clients,
    consume_stats,
    offsets,
    pop,
    pull,
    query,
    relay,
    replies,
    send,
    send_back,
    timers,
    transactions,
    users,
)
from rmqcli.broker.handlers.common import refuse_on_slave
from rmqcli.broker.handlers.refused import unsupported
from rmqcli.broker.handlers.send import send_run
from rmqcli.broker.net.dispatch import Handler, Handlers, RunHandler
from rmqcli.broker.net.handling import by_code, registered, serve
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.headers.base import Header
from rmqcli.codec.headers.pop import AckMessageRequestHeader, PopMessageRequestHeader
from rmqcli.codec.headers.pull import PullMessageRequestHeader
from rmqcli.codec.headers.send import SendMessageRequestHeaderV2
from rmqcli.codec.headers.signed import SignedSendV2
from rmqcli.codec.operations import acl as acl_ops
from rmqcli.codec.operations import brokers as brokers_ops
from rmqcli.codec.operations import clients as clients_ops
from rmqcli.codec.operations import groups as groups_ops
from rmqcli.codec.operations import messages as messages_ops
from rmqcli.codec.operations import offsets as offsets_ops
from rmqcli.codec.operations import pop as pop_ops
from rmqcli.codec.operations import topics as topics_ops
from rmqcli.codec.remoting.frame import DirectReaders

__all__ = ["CODES", "HANDLERS", "direct_readers", "handler_table", "run_table"]

CODES = frozenset(map(int, RequestCode))
"""The codes of RocketMQ, served or not."""


def _reply_ext(broker: BrokerContext) -> Mapping[str, str]:
    return broker.reply_ext


HANDLERS = by_code(
    serve(messages_ops.SEND_MESSAGE, send.send, common_ext=_reply_ext),
    serve(messages_ops.SEND_MESSAGE_V2, send.send, common_ext=_reply_ext),
    serve(messages_ops.SEND_BATCH_MESSAGE, send.send, common_ext=_reply_ext),
    serve(messages_ops.CONSUMER_SEND_MSG_BACK, send_back.send_back),
    serve(messages_ops.SEND_REPLY_MESSAGE, replies.send_reply, common_ext=_reply_ext),
    serve(messages_ops.SEND_REPLY_MESSAGE_V2, replies.send_reply, common_ext=_reply_ext),
    serve(messages_ops.RECALL_MESSAGE, timers.recall),
    serve(messages_ops.END_TRANSACTION, transactions.end_transaction),
    serve(messages_ops.RESUME_CHECK_HALF_MESSAGE, transactions.resume_check),
    serve(messages_ops.PULL_MESSAGE, pull.pull),
    serve(messages_ops.LITE_PULL_MESSAGE, pull.pull),
    serve(messages_ops.QUERY_MESSAGE, query.query_message),
    serve(messages_ops.VIEW_MESSAGE_BY_ID, query.view_message),
    serve(topics_ops.QUERY_CONSUME_QUEUE, query.query_consume_queue),
    serve(offsets_ops.QUERY_CONSUMER_OFFSET, offsets.query_offset),
    serve(offsets_ops.UPDATE_CONSUMER_OFFSET, offsets.update_offset),
    serve(offsets_ops.SEARCH_OFFSET_BY_TIMESTAMP, offsets.search_offset),
    serve(offsets_ops.GET_MAX_OFFSET, offsets.max_offset),
    serve(offsets_ops.GET_MIN_OFFSET, offsets.min_offset),
    serve(offsets_ops.GET_EARLIEST_MSG_STORETIME, offsets.earliest_store_time),
    serve(offsets_ops.GET_ALL_CONSUMER_OFFSET, offsets.all_consumer_offsets),
    serve(offsets_ops.GET_ALL_DELAY_OFFSET, offsets.all_delay_offsets),
    serve(clients_ops.HEART_BEAT, clients.heartbeat),
    serve(clients_ops.UNREGISTER_CLIENT, clients.unregister),
    serve(clients_ops.GET_CONSUMER_LIST_BY_GROUP, clients.consumer_list),
    serve(clients_ops.CHECK_CLIENT_CONFIG, clients.check_client),
    serve(clients_ops.LOCK_BATCH_MQ, clients.lock),
    serve(clients_ops.UNLOCK_BATCH_MQ, clients.unlock),
    serve(topics_ops.UPDATE_AND_CREATE_TOPIC, admin_topics.create_topic),
    serve(topics_ops.UPDATE_AND_CREATE_TOPIC_LIST, admin_topics.create_topics),
    serve(topics_ops.DELETE_TOPIC_IN_BROKER, admin_topics.delete_topic),
    serve(topics_ops.CLEAN_UNUSED_TOPIC, admin_topics.clean_unused),
    serve(topics_ops.CLEAN_EXPIRED_CONSUMEQUEUE, admin_topics.clean_expired_queues),
    serve(topics_ops.GET_ALL_TOPIC_CONFIG, admin_topics.all_topics),
    serve(topics_ops.GET_TOPIC_CONFIG, admin_topics.topic_config),
    serve(topics_ops.GET_TOPIC_STATS_INFO, admin_topics.topic_stats),
    serve(topics_ops.QUERY_TOPIC_CONSUME_BY_WHO, admin_topics.groups_of_topic),
    serve(groups_ops.QUERY_TOPICS_BY_CONSUMER, admin_topics.topics_of_group),
    serve(topics_ops.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, admin_topics.system_topic_list),
    serve(groups_ops.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, admin_groups.put_group),
    serve(groups_ops.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, admin_groups.put_groups),
    serve(groups_ops.DELETE_SUBSCRIPTIONGROUP, admin_groups.delete_group),
    serve(groups_ops.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, admin_groups.all_groups),
    serve(groups_ops.GET_SUBSCRIPTIONGROUP_CONFIG, admin_groups.group_config),
    serve(clients_ops.GET_CONSUMER_CONNECTION_LIST, admin_groups.consumer_connections),
    serve(groups_ops.QUERY_SUBSCRIPTION_BY_CONSUMER, admin_groups.subscription),
    serve(clients_ops.GET_PRODUCER_CONNECTION_LIST, admin_groups.producer_connections),
    serve(clients_ops.GET_ALL_PRODUCER_INFO, admin_groups.all_producers),
    serve(groups_ops.GET_CONSUME_STATS, consume_stats.consume_stats),
    serve(groups_ops.GET_BROKER_CONSUME_STATS, consume_stats.broker_consume_stats),
    serve(topics_ops.QUERY_CONSUME_TIME_SPAN, consume_stats.time_span),
    serve(offsets_ops.QUERY_CORRECTION_OFFSET, consume_stats.correction_offsets),
    serve(offsets_ops.CLONE_GROUP_OFFSET, consume_stats.clone_offsets),
    serve(offsets_ops.INVOKE_BROKER_TO_RESET_OFFSET, relay.reset_offset),
    serve(offsets_ops.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, relay.consumer_status),
    serve(clients_ops.GET_CONSUMER_RUNNING_INFO, relay.running_info),
    serve(clients_ops.CONSUME_MESSAGE_DIRECTLY, relay.consume_directly),
    serve(brokers_ops.UPDATE_BROKER_CONFIG, admin_broker.update_broker_config),
    serve(brokers_ops.GET_BROKER_CONFIG, admin_broker.broker_config),
    serve(brokers_ops.GET_BROKER_RUNTIME_INFO, admin_broker.runtime_info),
    serve(brokers_ops.GET_TIMER_CHECK_POINT, timers.check_point),
    serve(brokers_ops.GET_TIMER_METRICS, timers.metrics),
    serve(brokers_ops.VIEW_BROKER_STATS_DATA, admin_broker.stats_data),
    serve(brokers_ops.DELETE_EXPIRED_COMMITLOG, admin_broker.delete_expired_files),
    serve(brokers_ops.GET_BROKER_HA_STATUS, admin_broker.ha_state),
    serve(brokers_ops.RESET_MASTER_FLUSH_OFFSET, admin_broker.reset_master_flush_offset),
    serve(brokers_ops.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, admin_broker.limit_cold_data),
    serve(brokers_ops.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, admin_broker.unlimit_cold_data),
    serve(brokers_ops.GET_COLD_DATA_FLOW_CTR_INFO, admin_broker.cold_data),
    serve(brokers_ops.SET_COMMITLOG_READ_MODE, admin_broker.set_read_mode),
    serve(brokers_ops.ADVANCE_CLOCK, admin_broker.advance_clock),
    serve(acl_ops.UPDATE_AND_CREATE_ACL_CONFIG, accounts.update_account),
    serve(acl_ops.DELETE_ACL_CONFIG, accounts.remove_account),
    serve(acl_ops.GET_BROKER_CLUSTER_ACL_INFO, accounts.account_files),
    serve(acl_ops.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, accounts.update_white_addresses),
    serve(acl_ops.AUTH_CREATE_USER, users.create_user),
    serve(acl_ops.AUTH_UPDATE_USER, users.update_user),
    serve(acl_ops.AUTH_DELETE_USER, users.delete_user),
    serve(acl_ops.AUTH_GET_USER, users.get_user),
    serve(acl_ops.AUTH_LIST_USER, users.list_users),
    serve(acl_ops.AUTH_CREATE_ACL, users.put_policies),
    serve(acl_ops.AUTH_UPDATE_ACL, users.put_policies),
    serve(acl_ops.AUTH_DELETE_ACL, users.delete_policies),
    serve(acl_ops.AUTH_GET_ACL, users.get_policies),
    serve(acl_ops.AUTH_LIST_ACL, users.list_policies),
    serve(pop_ops.QUERY_ASSIGNMENT, assignment.query_assignment),
    serve(pop_ops.SET_MESSAGE_REQUEST_MODE, assignment.set_request_mode),
    serve(pop_ops.GET_ALL_MESSAGE_REQUEST_MODE, assignment.request_modes),
    serve(pop_ops.POP_MESSAGE, pop.pop),
    serve(pop_ops.ACK_MESSAGE, pop.ack),
    serve(pop_ops.BATCH_ACK_MESSAGE, pop.ack_batch),
    serve(pop_ops.CHANGE_MESSAGE_INVISIBLETIME, pop.change_invisible_time),
    serve(pop_ops.PEEK_MESSAGE, pop.peek),
    serve(pop_ops.NOTIFICATION, pop.notification),
    serve(pop_ops.POLLING_INFO, pop.polling_info),
    serve(groups_ops.UPDATE_AND_GET_GROUP_FORBIDDEN, admin_groups.forbid),
)


@cache
def direct_readers(*, gated: bool = False) -> DirectReaders:
    """Return readers of the most frequent requests, for the connections of one server. With a gate, signed
    requests keep their ext fields."""
    send = SendMessageRequestHeaderV2 if gated else SignedSendV2
    sends = messages_ops.SEND_MESSAGE_V2, messages_ops.SEND_BATCH_MESSAGE
    pulls = messages_ops.PULL_MESSAGE, messages_ops.LITE_PULL_MESSAGE
    headers: dict[int, type[Header]] = {operation.code: send for operation in sends}
    headers |= {operation.code: PullMessageRequestHeader for operation in pulls}
    headers |= {
        pop_ops.POP_MESSAGE.code: PopMessageRequestHeader,
        pop_ops.ACK_MESSAGE.code: AckMessageRequestHeader,
    }
    return DirectReaders(headers)


def handler_table(broker: BrokerContext) -> Handlers:
    """Return the handlers of one broker, and a refusal by name for every other code of RocketMQ."""
    on_master = partial(refuse_on_slave, broker)

    def bind(code: int) -> Handler | None:
        registration = registered(HANDLERS, code)
        if registration is None:
            return unsupported if code in CODES else None
        return registration.bind(broker, on_master if registration.operation.refused_on_slave else None)

    return Handlers(bind)


def run_table(broker: BrokerContext) -> dict[int, RunHandler]:
    """Return the handlers of runs of sends of one broker, by request code."""
    run = partial(send_run, broker)
    return {int(code): run for code in (messages_ops.SEND_MESSAGE.code, messages_ops.SEND_MESSAGE_V2.code)}
