"""How far groups are behind: codes 208, 303, 308, 314, 317 (Java class `AdminBrokerProcessor`)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from broker.context import BrokerContext
from broker.errors import Refusal
from broker.handlers.common import fast_body, ok
from broker.net.session import Session
from codec.bodies.config import TopicConfig
from codec.bodies.offsets import QueryCorrectionOffsetBody
from codec.bodies.stats import (
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    QueryConsumeTimeSpanBody,
    QueueTimeSpan,
)
from codec.codes import ResponseCode
from codec.headers.base import from_ext
from codec.headers.groups import GetConsumeStatsInBrokerHeader, GetConsumeStatsRequestHeader
from codec.headers.offsets import CloneGroupOffsetRequestHeader, QueryCorrectionOffsetHeader
from codec.headers.topics import QueryConsumeTimeSpanRequestHeader
from codec.message_queue import MessageQueue
from codec.remoting.frame import RemotingCommand

__all__ = ["broker_consume_stats", "clone_offsets", "consume_stats", "correction_offsets", "time_span"]

MAX_LONG = (1 << 63) - 1


def consume_stats(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """208: queue offset and committed offset of every queue of a group's topics. Unknown groups have an empty table."""
    header = from_ext(GetConsumeStatsRequestHeader, request.ext_fields)
    topics = [header.topic] if header.topic else broker.offsets.topics_of(header.consumer_group)
    return ok(request, body=fast_body(_stats(broker, header.consumer_group, topics)))


def _stats(broker: BrokerContext, group: str, topics: Iterable[str]) -> ConsumeStats:
    table: dict[MessageQueue, OffsetWrapper] = {}
    tps = 0.0
    for topic in topics:
        config = broker.topics.get(topic)
        if config is None or _is_dropped(broker, group, topic):
            continue
        table.update(_offsets(broker, group, config, config.read_queue_nums))
        tps += broker.statistics.consume_tps(topic, group)
    return ConsumeStats(offset_table=table, consume_tps=tps)


def _is_dropped(broker: BrokerContext, group: str, topic: str) -> bool:
    """The group is online, and what it committed for the topic is of the past."""
    online = broker.consumers.get(group)
    return online is not None and bool(online.subscriptions) and topic not in online.subscriptions


def _offsets(
    broker: BrokerContext, group: str, config: TopicConfig, queues: int
) -> dict[MessageQueue, OffsetWrapper]:
    topic = config.topic_name
    return {
        MessageQueue(topic, broker.name, queue_id): _offset(broker, group, topic, queue_id)
        for queue_id in range(queues)
    }


def _offset(broker: BrokerContext, group: str, topic: str, queue_id: int) -> OffsetWrapper:
    committed = max(0, broker.offsets.query(group, topic, queue_id))
    last = broker.store.store_time(topic, queue_id, committed - 1) if committed else 0
    return OffsetWrapper(
        broker_offset=max(0, broker.store.max_offset(topic, queue_id)),
        consumer_offset=committed,
        last_timestamp=max(0, last),
    )


def broker_consume_stats(
    broker: BrokerContext, _session: Session, request: RemotingCommand
) -> RemotingCommand:
    """317: of every group, by the queues that can be written; with isOrder only of topics that are consumed in order."""
    header = from_ext(GetConsumeStatsInBrokerHeader, request.ext_fields)
    found: list[dict[str, list[ConsumeStats]]] = []
    total = 0
    for group in broker.groups:
        stats = []
        for topic in broker.offsets.topics_of(group):
            config = broker.topics.get(topic)
            if config is None or (header.is_order and not config.order) or _is_dropped(broker, group, topic):
                continue
            one = ConsumeStats(
                offset_table=_offsets(broker, group, config, config.write_queue_nums),
                consume_tps=broker.statistics.consume_tps(topic, group),
            )
            total += sum(queue.broker_offset - queue.consumer_offset for queue in one.offset_table.values())
            stats.append(one)
        found.append({group: stats})
    body = ConsumeStatsList(consume_stats_list=found, broker_addr=broker.address, total_diff=total)
    return ok(request, body=fast_body(body))


def time_span(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """303: store times of the first, the last and the next message to consume of each queue."""
    header = from_ext(QueryConsumeTimeSpanRequestHeader, request.ext_fields)
    config = broker.topics.get(header.topic)
    if config is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
    spans = [_span(broker, header.group, header.topic, n) for n in range(config.write_queue_nums)]
    return ok(request, body=fast_body(QueryConsumeTimeSpanBody(consume_time_span_set=spans)))


def _span(broker: BrokerContext, group: str, topic: str, queue_id: int) -> QueueTimeSpan:
    store = broker.store
    first = store.earliest_store_time(topic, queue_id)
    end = store.max_offset(topic, queue_id)
    last = store.store_time(topic, queue_id, end - 1)
    committed = broker.offsets.query(group, topic, queue_id)
    consumed = store.store_time(topic, queue_id, committed - 1) if committed > 0 else first
    waiting = store.store_time(topic, queue_id, committed) if 0 <= committed < end else -1
    return QueueTimeSpan(
        message_queue=MessageQueue(topic, broker.name, queue_id),
        min_time_stamp=first,
        max_time_stamp=last,
        consume_time_stamp=consumed,
        delay_time=broker.now_ms() - waiting if waiting >= 0 else 0,
        min_time_stamp_str=_time_text(first),
        max_time_stamp_str=_time_text(last),
        consume_time_stamp_str=_time_text(consumed),
    )


def _time_text(timestamp: int) -> str:
    """`yyyy-MM-dd#HH:mm:ss:SSS` of the local time."""
    moment = datetime.fromtimestamp(timestamp / 1000)
    return f"{moment:%Y-%m-%d#%H:%M:%S}:{timestamp % 1000:03d}"


def correction_offsets(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """308: the smallest offset of all groups for each queue; unknown to Java is what lies beyond the compared group's."""
    header = from_ext(QueryCorrectionOffsetHeader, request.ext_fields)
    without = frozenset((header.filter_groups or "").split(","))
    least = broker.offsets.smallest(header.topic, without)
    for queue_id, offset in broker.offsets.queues(header.compare_group, header.topic).items():
        if queue_id in least and least[queue_id] > offset:
            least[queue_id] = MAX_LONG
    return ok(request, body=fast_body(QueryCorrectionOffsetBody(correction_offsets=least)))


def clone_offsets(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """314: gives one group the offsets of another for a topic, or for all of them (which Java means to, and does nothing);
    refused silently while the source is online elsewhere."""
    header = from_ext(CloneGroupOffsetRequestHeader, request.ext_fields)
    source = header.src_group
    for topic in [header.topic] if header.topic else broker.offsets.topics_of(source):
        if topic in broker.topics and (header.offline or not _is_dropped(broker, source, topic)):
            broker.offsets.clone(source, header.dest_group, topic)
    return ok(request)
