"""Administration of topics: codes 17, 18, 21, 202, 215, 300, 305, 306, 316, 343, 351 (Java class
`AdminBrokerProcessor`).

The reply to a creation is sent once the topic is saved and, within a bounded time, known to all name servers.
"""

from __future__ import annotations

from functools import partial

from msgspec.structs import asdict, replace

from rmqcli.broker.config.checks import MOST_QUEUES
from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import Refusal
from rmqcli.broker.handlers.common import valid_topic
from rmqcli.broker.net.handling import Answered, Reply, Request
from rmqcli.broker.net.turns import LongWork, Steps, emptied_on_error, emptying
from rmqcli.broker.tables.attributes import TOPIC, altered, parse_changes
from rmqcli.codec.bodies.config import (
    CreateTopicListRequestBody,
    TopicConfig,
    TopicConfigAndQueueMapping,
    TopicConfigSerializeWrapper,
)
from rmqcli.codec.bodies.route import TopicList
from rmqcli.codec.bodies.stats import GroupList, TopicOffset, TopicStatsTable
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.headers.groups import QueryTopicsByConsumerRequestHeader
from rmqcli.codec.headers.topics import (
    CreateTopicListRequestHeader,
    CreateTopicRequestHeader,
    DeleteTopicRequestHeader,
    GetAllTopicConfigResponseHeader,
    GetTopicConfigRequestHeader,
    GetTopicStatsInfoRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
)
from rmqcli.codec.message_queue import MessageQueue

FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")
"""Java `TopicFilterType`; Java cannot read a topics.json with any other value."""


def create_topic(
    broker: BrokerContext, request: Request[CreateTopicRequestHeader, None]
) -> Answered[None, None]:
    """Create a topic or overwrite its config, and change its attributes (5.x; code 17). `order` is ignored,
    as in 4.9, because name servers keep it.
    """
    header = request.header
    known = broker.topics.get(header.topic)
    config = TopicConfig(
        topic_name=header.topic,
        read_queue_nums=header.read_queue_nums,
        write_queue_nums=header.write_queue_nums,
        perm=header.perm,
        topic_filter_type=header.topic_filter_type,
        topic_sys_flag=header.topic_sys_flag or 0,
        order=known.order if known is not None else False,
        attributes=_changes(header.topic, header.attributes),
    )
    return LongWork(_put_topics(broker, [config]))


def create_topics(
    broker: BrokerContext, request: Request[CreateTopicListRequestHeader, CreateTopicListRequestBody]
) -> Answered[None, None]:
    """Create many topics at once (code 18, 5.x); one invalid name refuses all of them."""
    return LongWork(_put_topics(broker, request.body.topic_config_list))


def _put_topics(broker: BrokerContext, asked: list[TopicConfig]) -> Steps:
    for config in asked:
        _refuse_wrong(broker, config.topic_name)
        _refuse_unusable(config)
        yield
    configs = []
    for config in asked:
        configs.append(replace(config, attributes=_attributes(broker, config)))
        yield
    for config in configs:
        broker.topics.put(config)
        yield
    yield from emptying(asked)
    return partial(_changed, broker, configs)


def _changed(broker: BrokerContext, configs: list[TopicConfig]) -> Reply[None, None]:
    if configs:
        broker.topics_changed(configs)
        broker.store.barrier = broker.topics_known
    return Reply()


def _changes(topic: str, text: str | None) -> dict[str, str]:
    try:
        return parse_changes(text)
    except ValueError as error:
        raise _wrong_attributes(topic, error) from None


def _attributes(broker: BrokerContext, config: TopicConfig) -> dict[str, str] | None:
    """Return the attributes of the topic after the changes, which a request's config has in their place."""
    known = broker.topics.get(config.topic_name)
    current = known.attributes if known is not None else None
    try:
        changes = config.attributes
        return altered(current, changes, TOPIC, is_new=known is None) if changes else current
    except ValueError as error:
        raise _wrong_attributes(config.topic_name, error) from None


def _wrong_attributes(topic: str, error: ValueError) -> Refusal:
    return Refusal(ResponseCode.SYSTEM_ERROR, f"The attributes of topic[{topic}]: {error}")


def _refuse_wrong(broker: BrokerContext, topic: str) -> None:
    wrong = valid_topic(topic)
    if wrong is None and broker.topics.is_system(topic):
        wrong = f"The topic[{topic}] is conflict with system topic."
    if wrong is not None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, wrong)


def _refuse_unusable(config: TopicConfig) -> None:
    """Refuse configs that Java accepts: statistics of 2^31 queues would exhaust the memory of this broker."""
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


def delete_topic(
    broker: BrokerContext, request: Request[DeleteTopicRequestHeader, None]
) -> Reply[None, None]:
    """Delete a topic, its consume queues and the offsets of groups (code 215). As in 5.3.3; in 4.9 these
    offsets stay, and a new topic with the same name begins below them. Held pulls get the reply that the
    topic does not exist.
    """
    topic = request.header.topic
    _refuse_wrong(broker, topic)
    if broker.topics.remove(topic):
        broker.files.topics_changed()
    broker.checked_topics.pop(topic, None)
    broker.statistics.forget_topic(topic)
    broker.offsets.remove_topic(topic)
    broker.pops.remove_topic(topic)
    broker.request_modes.remove_topic(topic)
    broker.holds.release_topic(topic)

    async def delete() -> None:
        await broker.files.save_changed()
        await broker.files.save_offsets()
        await broker.store.retention.delete_topic(topic)

    broker.store.barrier = delete
    return Reply()


def clean_unused(broker: BrokerContext, _request: Request[None, None]) -> Reply[None, None]:
    """Remove the consume queues of topics without a config (code 316)."""
    broker.store.barrier = lambda: broker.store.retention.clean_unused(set(broker.topics))
    return Reply()


def clean_expired_queues(broker: BrokerContext, _request: Request[None, None]) -> Reply[None, None]:
    """Remove the consume queues whose messages have all expired (code 306)."""
    broker.store.barrier = broker.store.retention.clean_expired_consume_queues
    return Reply()


def all_topics(
    broker: BrokerContext, _request: Request[None, None]
) -> Reply[GetAllTopicConfigResponseHeader, TopicConfigSerializeWrapper]:
    """Return the whole topic table (code 21)."""
    return Reply(GetAllTopicConfigResponseHeader(), broker.topics.wrapper())


def topic_config(
    broker: BrokerContext, request: Request[GetTopicConfigRequestHeader, None]
) -> Reply[None, TopicConfigAndQueueMapping]:
    """Return one topic (code 351, 5.x)."""
    topic = request.header.topic
    config = broker.topics.get(topic)
    if config is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {topic}")
    return Reply(body=TopicConfigAndQueueMapping(**asdict(config)))


async def topic_stats(
    broker: BrokerContext, request: Request[GetTopicStatsInfoRequestHeader, None]
) -> Reply[None, TopicStatsTable]:
    """Return the minimum and maximum offset of every read or write queue (code 202). As in 5.3.3;
    4.9 lists only write queues."""
    topic = request.header.topic
    config = broker.topics.get(topic)
    if config is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
    turns, when_ready = request.session.turns, broker.store.when_ready
    pace, table = turns.pace(), dict[MessageQueue, TopicOffset]()
    async with emptied_on_error(turns, table):
        for queue_id in range(max(config.read_queue_nums, config.write_queue_nums)):
            queue = MessageQueue(topic, broker.name, queue_id)
            table[queue] = await when_ready(_queue_stats, broker, topic, queue_id)
            await pace.step()
    return Reply(body=TopicStatsTable(offset_table=table), is_used_up=True)


def _queue_stats(broker: BrokerContext, topic: str, queue_id: int) -> TopicOffset:
    low = max(0, broker.store.search.min_offset(topic, queue_id))
    high = max(0, broker.store.search.max_offset(topic, queue_id))
    updated = broker.store.search.store_time(topic, queue_id, high - 1) if high else 0
    return TopicOffset(min_offset=low, max_offset=high, last_update_timestamp=max(0, updated))


def groups_of_topic(
    broker: BrokerContext, request: Request[QueryTopicConsumeByWhoRequestHeader, None]
) -> Reply[None, GroupList]:
    """Return the groups that subscribe to a topic now, or have offsets for it (code 300)."""
    topic = request.header.topic
    groups = {*broker.consumers.subscribers(topic), *broker.offsets.groups_of(topic)}
    return Reply(body=GroupList(group_list=sorted(groups)))


def topics_of_group(
    broker: BrokerContext, request: Request[QueryTopicsByConsumerRequestHeader, None]
) -> Reply[None, TopicList]:
    """Return the topics for which a group has offsets (code 343, 5.x)."""
    topics = sorted(broker.offsets.topics_of(request.header.group))
    return Reply(body=TopicList(topic_list=topics, broker_addr=broker.address))


def system_topic_list(broker: BrokerContext, _request: Request[None, None]) -> Reply[None, TopicList]:
    """Return the system topics of the broker (code 305)."""
    return Reply(body=TopicList(topic_list=broker.topics.system_names()))
