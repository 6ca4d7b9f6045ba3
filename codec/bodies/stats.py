"""Statistics of topics, groups and brokers. Offsets are queue offsets, times are epoch ms, rates are per
second.
"""

from __future__ import annotations

from rmqcli.codec.bodies.base import Body, Int32, Int64
from rmqcli.codec.bodies.config import DataVersion
from rmqcli.codec.bodies.heartbeat import SubscriptionData
from rmqcli.codec.message_queue import MessageQueue


class TopicOffset(Body, frozen=True):
    """The ends of a queue; `last_update_timestamp` is the store time of its newest message, 0 if there is
    none.
    """

    min_offset: Int64 = 0
    max_offset: Int64 = 0
    last_update_timestamp: Int64 = 0


class TopicStatsTable(Body, frozen=True):
    offset_table: dict[MessageQueue, TopicOffset] = {}
    topic_put_tps: float | None = None


class OffsetWrapper(Body, frozen=True):
    """The offsets of a group in a queue; `last_timestamp` is the store time of its last message, 0 if there
    is none.
    """

    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    last_timestamp: Int64 = 0
    pull_offset: Int64 | None = None


class ConsumeStats(Body, frozen=True):
    offset_table: dict[MessageQueue, OffsetWrapper] = {}
    consume_tps: float = 0.0


class ConsumeStatsList(Body, frozen=True):
    """The statistics of groups, as a list of group → statistics."""

    consume_stats_list: list[dict[str, list[ConsumeStats]]] = []
    broker_addr: str | None = None
    total_diff: Int64 = 0
    total_inflight_diff: Int64 | None = None


class GroupList(Body, frozen=True):
    group_list: list[str] = []


class QueueTimeSpan(Body, frozen=True):
    """The store times of a queue's ends and of its committed offset, −1 if unknown; `delay_time` is in ms.

    The texts show the times as `yyyy-MM-dd#HH:mm:ss:SSS` in the broker's zone.
    """

    message_queue: MessageQueue | None = None
    min_time_stamp: Int64 = 0
    max_time_stamp: Int64 = 0
    consume_time_stamp: Int64 = 0
    delay_time: Int64 = 0
    min_time_stamp_str: str | None = None
    max_time_stamp_str: str | None = None
    consume_time_stamp_str: str | None = None


class QueryConsumeTimeSpanBody(Body, frozen=True):
    consume_time_span_set: list[QueueTimeSpan] = []


class ConsumeQueueData(Body, frozen=True):
    """One consume-queue entry; `eval` is true if the group's filter accepts the message."""

    physic_offset: Int64 = 0
    physic_size: Int32 = 0
    tags_code: Int64 = 0
    extend_data_json: str | None = None
    bit_map: str | None = None
    eval: bool = False
    msg: str | None = None


class QueryConsumeQueueResponseBody(Body, frozen=True):
    """Entries of a queue; `filter_data` is a ConsumerFilterData as pretty JSON text."""

    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None
    queue_data: list[ConsumeQueueData] | None = None
    max_queue_index: Int64 = 0
    min_queue_index: Int64 = 0


class BrokerStatsItem(Body, frozen=True):
    """Sum, rate and average per call over a period."""

    sum: Int64 = 0
    tps: float = 0.0
    avgpt: float = 0.0


class BrokerStatsData(Body, frozen=True):
    stats_minute: BrokerStatsItem | None = None
    stats_hour: BrokerStatsItem | None = None
    stats_day: BrokerStatsItem | None = None


class TimerMetric(Body, frozen=True):
    """Timer messages of one topic (5.x)."""

    count: Int64 = 0
    time_stamp: Int64 = 0


class TimerMetricsSerializeWrapper(Body, frozen=True):
    timing_count: dict[str, TimerMetric] = {}
    data_version: DataVersion | None = None
