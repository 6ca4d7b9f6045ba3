"""Request code → function: the one table of what a broker answers.

A handler is a plain function of broker, session and request. It returns the reply, or None when the reply comes later or
not at all; what it refuses, it raises as `Refusal`. Codes that RocketMQ has but this broker does not yet are answered with
REQUEST_CODE_NOT_SUPPORTED and their name.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from broker.context import BrokerContext
from broker.errors import Refusal
from broker.handlers import (
    admin_broker,
    admin_groups,
    admin_topics,
    clients,
    consume_stats,
    locks,
    offsets,
    pull,
    query,
    relay,
    replies,
    send,
    send_back,
    transactions,
)
from broker.handlers.common import BrokerHandler
from broker.handlers.send_run import send_run
from broker.net.dispatch import Handler, RunHandler
from broker.net.session import Session
from codec.codes import RequestCode, ResponseCode
from codec.headers.send import SendMessageRequestHeaderV2
from codec.remoting.frame import DirectReader, DirectReaders, RemotingCommand

__all__ = ["DIRECT_READERS", "HANDLERS", "handler_table", "run_table"]

R = RequestCode

HANDLERS: Mapping[RequestCode, BrokerHandler] = {
    R.SEND_MESSAGE: send.send,
    R.SEND_MESSAGE_V2: send.send,
    R.SEND_BATCH_MESSAGE: send.send,
    R.CONSUMER_SEND_MSG_BACK: send_back.send_back,
    R.SEND_REPLY_MESSAGE: replies.send_reply,
    R.SEND_REPLY_MESSAGE_V2: replies.send_reply,
    R.END_TRANSACTION: transactions.end_transaction,
    R.RESUME_CHECK_HALF_MESSAGE: transactions.resume_check,
    R.PULL_MESSAGE: pull.pull,
    R.LITE_PULL_MESSAGE: pull.pull,
    R.QUERY_MESSAGE: query.query_message,
    R.VIEW_MESSAGE_BY_ID: query.view_message,
    R.QUERY_CONSUME_QUEUE: query.query_consume_queue,
    R.QUERY_CONSUMER_OFFSET: offsets.query_offset,
    R.UPDATE_CONSUMER_OFFSET: offsets.update_offset,
    R.SEARCH_OFFSET_BY_TIMESTAMP: offsets.search_offset,
    R.GET_MAX_OFFSET: offsets.max_offset,
    R.GET_MIN_OFFSET: offsets.min_offset,
    R.GET_EARLIEST_MSG_STORETIME: offsets.earliest_store_time,
    R.GET_ALL_CONSUMER_OFFSET: offsets.all_consumer_offsets,
    R.GET_ALL_DELAY_OFFSET: offsets.all_delay_offsets,
    R.HEART_BEAT: clients.heartbeat,
    R.UNREGISTER_CLIENT: clients.unregister,
    R.GET_CONSUMER_LIST_BY_GROUP: clients.consumer_list,
    R.CHECK_CLIENT_CONFIG: clients.check_client,
    R.LOCK_BATCH_MQ: locks.lock,
    R.UNLOCK_BATCH_MQ: locks.unlock,
    R.UPDATE_AND_CREATE_TOPIC: admin_topics.create_topic,
    R.UPDATE_AND_CREATE_TOPIC_LIST: admin_topics.create_topics,
    R.DELETE_TOPIC_IN_BROKER: admin_topics.delete_topic,
    R.CLEAN_UNUSED_TOPIC: admin_topics.clean_unused,
    R.CLEAN_EXPIRED_CONSUMEQUEUE: admin_topics.clean_expired_queues,
    R.GET_ALL_TOPIC_CONFIG: admin_topics.all_topics,
    R.GET_TOPIC_CONFIG: admin_topics.topic_config,
    R.GET_TOPIC_STATS_INFO: admin_topics.topic_stats,
    R.QUERY_TOPIC_CONSUME_BY_WHO: admin_topics.groups_of_topic,
    R.QUERY_TOPICS_BY_CONSUMER: admin_topics.topics_of_group,
    R.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: admin_topics.system_topic_list,
    R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: admin_groups.put_group,
    R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: admin_groups.put_groups,
    R.DELETE_SUBSCRIPTIONGROUP: admin_groups.delete_group,
    R.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: admin_groups.all_groups,
    R.GET_SUBSCRIPTIONGROUP_CONFIG: admin_groups.group_config,
    R.GET_CONSUMER_CONNECTION_LIST: admin_groups.consumer_connections,
    R.GET_PRODUCER_CONNECTION_LIST: admin_groups.producer_connections,
    R.GET_ALL_PRODUCER_INFO: admin_groups.all_producers,
    R.GET_CONSUME_STATS: consume_stats.consume_stats,
    R.GET_BROKER_CONSUME_STATS: consume_stats.broker_consume_stats,
    R.QUERY_CONSUME_TIME_SPAN: consume_stats.time_span,
    R.QUERY_CORRECTION_OFFSET: consume_stats.correction_offsets,
    R.CLONE_GROUP_OFFSET: consume_stats.clone_offsets,
    R.INVOKE_BROKER_TO_RESET_OFFSET: relay.reset_offset,
    R.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: relay.consumer_status,
    R.GET_CONSUMER_RUNNING_INFO: relay.running_info,
    R.CONSUME_MESSAGE_DIRECTLY: relay.consume_directly,
    R.UPDATE_BROKER_CONFIG: admin_broker.update_broker_config,
    R.GET_BROKER_CONFIG: admin_broker.broker_config,
    R.GET_BROKER_RUNTIME_INFO: admin_broker.runtime_info,
    R.VIEW_BROKER_STATS_DATA: admin_broker.stats_data,
    R.DELETE_EXPIRED_COMMITLOG: admin_broker.delete_expired_files,
}


DIRECT_READERS: DirectReaders = {
    reader.beginning: reader
    for reader in (
        DirectReader(code, SendMessageRequestHeaderV2) for code in (R.SEND_MESSAGE_V2, R.SEND_BATCH_MESSAGE)
    )
}
"""The requests that come most often arrive with their typed header."""


def handler_table(broker: BrokerContext) -> dict[int, Handler]:
    """The handlers of one broker, and a refusal by name for every other code that RocketMQ has."""
    table: dict[int, Handler] = {int(code): unsupported for code in RequestCode}
    table.update((int(code), partial(handler, broker)) for code, handler in HANDLERS.items())
    return table


def run_table(broker: BrokerContext) -> dict[int, RunHandler]:
    """What serves many requests of one code at once, of one broker."""
    return {int(RequestCode.SEND_MESSAGE_V2): partial(send_run, broker)}


def unsupported(_session: Session, request: RemotingCommand) -> RemotingCommand:
    """A code that is known by name but not served."""
    raise Refusal(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        f" request type {request.code} not supported: {RequestCode(request.code).name}",
    )
