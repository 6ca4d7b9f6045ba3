"""Headers of topic administration. `perm` has the bits of `rmqcli.codec.codes.Perm`."""

from __future__ import annotations

from rmqcli.codec.headers.base import Header, Int32, Int64, RpcRequestHeader, TopicRequestHeader
from rmqcli.codec.names import SystemTopic


class CreateTopicListRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    """A header without fields."""


class CreateTopicRequestHeader(TopicRequestHeader, frozen=True, kw_only=True):
    topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    default_topic: str = SystemTopic.AUTO_CREATE
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int32 | None = None
    order: bool = False
    attributes: str | None = None
    force: bool | None = None


class DeleteTopicFromNamesrvRequestHeader(Header, frozen=True, kw_only=True):
    topic: str
    cluster_name: str | None = None


class DeleteTopicRequestHeader(Header, frozen=True, kw_only=True):
    topic: str


class GetAllTopicConfigResponseHeader(Header, frozen=True, kw_only=True):
    """A header without fields."""


class GetTopicConfigRequestHeader(TopicRequestHeader, frozen=True, kw_only=True):
    topic: str


class GetTopicStatsInfoRequestHeader(Header, frozen=True, kw_only=True):
    topic: str


class GetTopicsByClusterRequestHeader(Header, frozen=True, kw_only=True):
    cluster: str


class QueryConsumeQueueRequestHeader(Header, frozen=True, kw_only=True):
    topic: str | None = None
    queue_id: Int32 | None = None
    index: Int64 | None = None
    count: Int32 | None = None
    consumer_group: str | None = None


class QueryConsumeTimeSpanRequestHeader(Header, frozen=True, kw_only=True):
    topic: str
    group: str


class QueryTopicConsumeByWhoRequestHeader(Header, frozen=True, kw_only=True):
    topic: str


class RegisterTopicRequestHeader(TopicRequestHeader, frozen=True, kw_only=True):
    topic: str
