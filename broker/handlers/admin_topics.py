"""Topics: codes 17, 18, 21, 202, 215, 300, 305, 306, 316, 343, 351 (Java class `AdminBrokerProcessor`).

A topic is saved and, within a bounded time, known to all name servers before its creator is answered.
"""

from __future__ import annotations

from broker.config.checks import MOST_QUEUES
from broker.context import BrokerContext
from broker.errors import Refusal
from broker.handlers.common import NOT_SET, fast_body, ok, refuse_on_slave, valid_topic
from broker.net.session import Session
from codec.bodies.base import decode_body, encode_body
from codec.bodies.config import CreateTopicListRequestBody, TopicConfig
from codec.bodies.route import TopicList
from codec.bodies.stats import GroupList, TopicOffset, TopicStatsTable
from codec.codes import ResponseCode
from codec.headers.base import from_ext
from codec.headers.groups import QueryTopicsByConsumerRequestHeader
from codec.headers.topics import (
    CreateTopicRequestHeader,
    DeleteTopicRequestHeader,
    GetTopicConfigRequestHeader,
    GetTopicStatsInfoRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
)
from codec.message_queue import MessageQueue
from codec.remoting.frame import RemotingCommand

__all__ = [
    "all_topics",
    "clean_expired_queues",
    "clean_unused",
    "create_topic",
    "create_topics",
    "delete_topic",
    "groups_of_topic",
    "system_topic_list",
    "topic_config",
    "topic_stats",
    "topics_of_group",
]


FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")
"""Java `TopicFilterType`; any other word is an exception there, and a topics.json that holds it is none."""


def create_topic(broker: BrokerContext, session: Session, request: RemotingCommand) -> RemotingCommand | None:
    """17: creates a topic or overwrites its config. `order` is not taken, as in 4.9: the name server says it."""
    header = from_ext(CreateTopicRequestHeader, request.ext_fields)
    known = broker.topics.get(header.topic)
    config = TopicConfig(
        topic_name=header.topic,
        read_queue_nums=header.read_queue_nums,
        write_queue_nums=header.write_queue_nums,
        perm=header.perm,
        topic_filter_type=header.topic_filter_type,
        topic_sys_flag=header.topic_sys_flag or 0,
        order=known.order if known is not None else False,
    )
    return _put_topics(broker, session, request, [config])


def create_topics(
    broker: BrokerContext, session: Session, request: RemotingCommand
) -> RemotingCommand | None:
    """18 (5.x): many topics at once; a wrong name refuses all of them."""
    body = decode_body(CreateTopicListRequestBody, request.body)
    return _put_topics(broker, session, request, list(body.topic_config_list))


def _put_topics(
    broker: BrokerContext, session: Session, request: RemotingCommand, configs: list[TopicConfig]
) -> RemotingCommand | None:
    refuse_on_slave(broker)
    for config in configs:
        _refuse_wrong(broker, config.topic_name)
        _refuse_unusable(config)
    for config in configs:
        broker.topics.put(config)
    reply = request.reply(ResponseCode.SUCCESS, NOT_SET)
    if configs:
        broker.topics_changed(configs)
    if broker.announcer.is_settled:
        return reply
    session.spawn(_reply_when_known, broker, session, request, reply)
    return None


async def _reply_when_known(
    broker: BrokerContext, session: Session, request: RemotingCommand, reply: RemotingCommand
) -> None:
    await broker.announcer.settled()
    session.respond(request, reply)


def _refuse_wrong(broker: BrokerContext, topic: str) -> None:
    wrong = valid_topic(topic)
    if wrong is None and broker.topics.is_system(topic):
        wrong = f"The topic[{topic}] is conflict with system topic."
    if wrong is not None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, wrong)


def _refuse_unusable(config: TopicConfig) -> None:
    """Java takes any count; statistics of 2^31 queues would end this broker, and its next start, for want of memory."""
    name = config.topic_name
    most = max(config.read_queue_nums, config.write_queue_nums)
    if most > MOST_QUEUES:
        remark = f"The topic[{name}] can not have {most} queues, {MOST_QUEUES} is the limit."
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    kind = config.topic_filter_type
    if kind not in FILTER_TYPES:
        remark = (
            f"The topic[{name}] has the topicFilterType {kind}, one of {', '.join(FILTER_TYPES)} is expected."
        )
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)


def delete_topic(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """215: forgets the topic and removes its consume queues; offsets of groups stay."""
    refuse_on_slave(broker)
    topic = from_ext(DeleteTopicRequestHeader, request.ext_fields).topic
    _refuse_wrong(broker, topic)
    if broker.topics.remove(topic):
        broker.files.save_topics()
    broker.checked_topics.pop(topic, None)
    broker.statistics.forget_topic(topic)
    broker.store.delete_topic(topic)
    return ok(request)


def clean_unused(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """316: removes the consume queues of topics without a config."""
    broker.store.clean_unused(set(broker.topics))
    return ok(request)


def clean_expired_queues(
    broker: BrokerContext, _session: Session, request: RemotingCommand
) -> RemotingCommand:
    """306: removes the consume queues whose messages have all expired."""
    broker.store.clean_expired_consume_queues()
    return ok(request)


def all_topics(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """21: the whole topic table."""
    return ok(request, {}, encode_body(broker.topics.wrapper()))


def topic_config(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """351 (5.x): one topic."""
    topic = from_ext(GetTopicConfigRequestHeader, request.ext_fields).topic
    config = broker.topics.get(topic)
    if config is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {topic}")
    return ok(request, body=encode_body(config))


def topic_stats(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """202: smallest and next offset of every queue that can be written."""
    topic = from_ext(GetTopicStatsInfoRequestHeader, request.ext_fields).topic
    config = broker.topics.get(topic)
    if config is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
    table = {
        MessageQueue(topic, broker.name, queue_id): _queue_stats(broker, topic, queue_id)
        for queue_id in range(config.write_queue_nums)
    }
    return ok(request, body=fast_body(TopicStatsTable(offset_table=table)))


def _queue_stats(broker: BrokerContext, topic: str, queue_id: int) -> TopicOffset:
    low = max(0, broker.store.min_offset(topic, queue_id))
    high = max(0, broker.store.max_offset(topic, queue_id))
    updated = broker.store.store_time(topic, queue_id, high - 1) if high else 0
    return TopicOffset(min_offset=low, max_offset=high, last_update_timestamp=max(0, updated))


def groups_of_topic(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """300: the groups that subscribe to a topic now, or have offsets for it."""
    topic = from_ext(QueryTopicConsumeByWhoRequestHeader, request.ext_fields).topic
    groups = {*broker.consumers.subscribers(topic), *broker.offsets.groups_of(topic)}
    return ok(request, body=encode_body(GroupList(group_list=sorted(groups))))


def topics_of_group(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """343 (5.x): the topics for which a group has offsets."""
    group = from_ext(QueryTopicsByConsumerRequestHeader, request.ext_fields).group
    topics = sorted(broker.offsets.topics_of(group))
    return ok(request, body=encode_body(TopicList(topic_list=topics, broker_addr=broker.address)))


def system_topic_list(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """305: the topics that the broker has for itself."""
    return ok(request, body=encode_body(TopicList(topic_list=broker.topics.system_names())))
