"""Offsets and lag of consumer groups: codes 208, 303, 308, 314, 317 (Java class `AdminBrokerProcessor`)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import Refusal
from rmqcli.broker.net.handling import Reply, Request
from rmqcli.broker.net.turns import Pace, Turns, emptied_on_error
from rmqcli.broker.services.clients import watch_session
from rmqcli.broker.services.pop.revive import real_topic
from rmqcli.codec.bodies.config import TopicConfig
from rmqcli.codec.bodies.offsets import QueryCorrectionOffsetBody
from rmqcli.codec.bodies.stats import (
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    QueryConsumeTimeSpanBody,
    QueueTimeSpan,
)
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.headers.groups import GetConsumeStatsInBrokerHeader, GetConsumeStatsRequestHeader
from rmqcli.codec.headers.offsets import CloneGroupOffsetRequestHeader, QueryCorrectionOffsetHeader
from rmqcli.codec.headers.topics import QueryConsumeTimeSpanRequestHeader
from rmqcli.codec.message_queue import MessageQueue

MAX_LONG = (1 << 63) - 1


async def consume_stats(
    broker: BrokerContext, request: Request[GetConsumeStatsRequestHeader, None]
) -> Reply[None, ConsumeStats]:
    """Return maximum and committed offset of every queue of a group's topics (code 208); empty for an unknown
    group."""
    header = request.header
    topics = [header.topic] if header.topic else broker.offsets.topics_of(header.consumer_group)
    stats = await _stats(broker, request.session.turns, header.consumer_group, topics)
    return Reply(body=stats, is_used_up=True)


async def _stats(broker: BrokerContext, turns: Turns, group: str, topics: Iterable[str]) -> ConsumeStats:
    table: dict[MessageQueue, OffsetWrapper] = {}
    tps, pace = 0.0, turns.pace()
    async with emptied_on_error(turns, table):
        for topic in topics:
            config = broker.topics.get(topic)
            if config is None or _is_dropped(broker, group, topic):
                continue
            await _add_offsets(table, broker, pace, group, config, config.read_queue_nums)
            tps += await turns.run(broker.statistics.consume_tps(topic, group))
    return ConsumeStats(offset_table=table, consume_tps=tps)


def _is_dropped(broker: BrokerContext, group: str, topic: str) -> bool:
    """Return True if the group is online without this topic: its offsets for the topic are obsolete."""
    online = broker.consumers.get(group)
    if online is None or not online.subscriptions:
        return False
    return not {topic, real_topic(group, topic)} & online.subscriptions.keys()


async def _add_offsets(
    table: dict[MessageQueue, OffsetWrapper],
    broker: BrokerContext,
    pace: Pace,
    group: str,
    config: TopicConfig,
    queues: int,
) -> int:
    """Add the offsets of each queue to `table`, and return the total lag. Each queue waits for the disk
    separately, so that the others are not looked up again.
    """
    topic, when_ready, behind = config.topic_name, broker.store.when_ready, 0
    for queue_id in range(queues):
        queue = MessageQueue(topic, broker.name, queue_id)
        table[queue] = one = await when_ready(_offset, broker, group, topic, queue_id)
        behind += one.broker_offset - one.consumer_offset
        await pace.step()
    return behind


def _offset(broker: BrokerContext, group: str, topic: str, queue_id: int) -> OffsetWrapper:
    """Return the offsets of a group. As in Java's `ConsumerLagCalculator`, messages in flight are not
    consumed.
    """
    in_flight, end = broker.pops.lent(group, topic, queue_id)
    committed = max(0, broker.pops.position(group, topic, queue_id)) - in_flight
    last = broker.store.search.store_time(topic, queue_id, committed - 1) if committed else 0
    return OffsetWrapper(
        broker_offset=max(0, broker.store.search.max_offset(topic, queue_id)),
        consumer_offset=committed,
        pull_offset=max(committed, end, broker.offsets.pulled(group, topic, queue_id)),
        last_timestamp=max(0, last),
    )


async def broker_consume_stats(
    broker: BrokerContext, request: Request[GetConsumeStatsInBrokerHeader, None]
) -> Reply[None, ConsumeStatsList]:
    """Return the lag of every group on all write queues (code 317); with isOrder only for ordered topics."""
    found: list[dict[str, list[ConsumeStats]]] = []
    turns = request.session.turns
    total, pace = 0, turns.pace()
    for group in list(broker.groups):
        stats = []
        for topic in broker.offsets.topics_of(group):
            config = broker.topics.get(topic)
            if (
                config is None
                or (request.header.is_order and not config.order)
                or _is_dropped(broker, group, topic)
            ):
                continue
            table: dict[MessageQueue, OffsetWrapper] = {}
            total += await _add_offsets(table, broker, pace, group, config, config.write_queue_nums)
            tps = await turns.run(broker.statistics.consume_tps(topic, group))
            stats.append(ConsumeStats(offset_table=table, consume_tps=tps))
        await pace.step()
        found.append({group: stats})
    body = ConsumeStatsList(consume_stats_list=found, broker_addr=broker.address, total_diff=total)
    return Reply(body=body)


async def time_span(
    broker: BrokerContext, request: Request[QueryConsumeTimeSpanRequestHeader, None]
) -> Reply[None, QueryConsumeTimeSpanBody]:
    """Return, for each queue, the store times of the first message, the last one, and the last one consumed
    (code 303)."""
    header = request.header
    config = broker.topics.get(header.topic)
    if config is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
    turns = request.session.turns
    pace, spans = turns.pace(), list[QueueTimeSpan]()
    async with emptied_on_error(turns, spans):
        for queue_id in range(config.write_queue_nums):
            spans.append(await broker.store.when_ready(_span, broker, header.group, header.topic, queue_id))
            await pace.step()
    return Reply(body=QueryConsumeTimeSpanBody(consume_time_span_set=spans), is_used_up=True)


def _span(broker: BrokerContext, group: str, topic: str, queue_id: int) -> QueueTimeSpan:
    store = broker.store
    first = store.search.earliest_store_time(topic, queue_id)
    end = store.search.max_offset(topic, queue_id)
    last = store.search.store_time(topic, queue_id, end - 1)
    committed = broker.offsets.query(group, topic, queue_id)
    consumed = store.search.store_time(topic, queue_id, committed - 1) if committed > 0 else first
    waiting = store.search.store_time(topic, queue_id, committed) if 0 <= committed < end else -1
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
    """Return the local time as `yyyy-MM-dd#HH:mm:ss:SSS`."""
    moment = datetime.fromtimestamp(timestamp / 1000)
    return f"{moment:%Y-%m-%d#%H:%M:%S}:{timestamp % 1000:03d}"


async def correction_offsets(
    broker: BrokerContext, request: Request[QueryCorrectionOffsetHeader, None]
) -> Reply[None, QueryCorrectionOffsetBody]:
    """Return the smallest offset of all groups by queue (code 308); 2^63-1 if that is greater than the
    compared group's."""
    header = request.header
    pace, offsets, topic = request.session.turns.pace(), broker.offsets, header.topic
    without = frozenset((header.filter_groups or "").split(","))
    least: dict[int, int] = {}
    for group in offsets.groups_of(topic):
        for queue_id, offset in () if group in without else list(offsets.queues(group, topic).items()):
            least[queue_id] = min(offset, least.get(queue_id, offset))
            await pace.step()
    for queue_id, offset in list(offsets.queues(header.compare_group, topic).items()):
        if queue_id in least and least[queue_id] > offset:
            least[queue_id] = MAX_LONG
        await pace.step()
    return Reply(body=QueryCorrectionOffsetBody(correction_offsets=least))


async def clone_offsets(
    broker: BrokerContext, request: Request[CloneGroupOffsetRequestHeader, None]
) -> Reply[None, None]:
    """Copy the offsets of one group to another for a topic (code 314), or for all topics, where Java does
    nothing.

    A topic is skipped while the source group is online without it, unless the request says that it is
    offline.
    """
    header, session = request.header, request.session
    source, target, pace = header.src_group, header.dest_group, session.turns.pace()
    for topic in [header.topic] if header.topic else broker.offsets.topics_of(source):
        if topic in broker.topics and (header.offline or not _is_dropped(broker, source, topic)):
            watch_session(broker, session)
            more = len(broker.offsets.queues(source, topic)) - len(broker.offsets.queues(target, topic))
            if more > 0:
                broker.new_offsets.admit(session, source, topic, 0, more)
            broker.offsets.clone(source, target, topic)
        await pace.step()
    return Reply()
