"""The file consumerFilter.json: SQL92 subscriptions that a broker keeps (Java `ConsumerFilterManager`).
Times are epoch ms."""

from __future__ import annotations

from rmqcli.codec.bodies.base import Body, Int32, Int64


class BloomFilterData(Body, frozen=True):
    """The bits of a group in the consume-queue extension; `bit_pos` is a Java array."""

    bit_pos: tuple[Int32, ...] = ()
    bit_num: Int32 = 0


class ConsumerFilterData(Body, frozen=True):
    """The filter of a group for a topic, in use while `dead_time` is 0. Java computes `dead` when it writes
    one.
    """

    consumer_group: str | None = None
    topic: str | None = None
    expression: str | None = None
    expression_type: str | None = None
    born_time: Int64 = 0
    dead_time: Int64 = 0
    bloom_filter_data: BloomFilterData | None = None
    client_version: Int64 = 0
    dead: bool | None = None


class FilterDataMapByTopic(Body, frozen=True):
    """The filters of a topic by group."""

    group_filter_data: dict[str, ConsumerFilterData] = {}
    topic: str | None = None


class ConsumerFilterManager(Body, frozen=True):
    """The filters of a broker by topic."""

    filter_data_by_topic: dict[str, FilterDataMapByTopic] = {}
