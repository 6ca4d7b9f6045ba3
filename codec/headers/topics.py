"""Headers of topic administration. `perm` is a sum of READ 4, WRITE 2, INHERIT 1."""

from __future__ import annotations

from codec.headers.base import Header, Int32, Int64, RpcRequestHeader, TopicRequestHeader


class CreateTopicListRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    """UPDATE_AND_CREATE_TOPIC_LIST (18)."""


class CreateTopicRequestHeader(TopicRequestHeader, frozen=True, kw_only=True):
    """UPDATE_AND_CREATE_TOPIC (17), UPDATE_AND_CREATE_STATIC_TOPIC (513)."""

    topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    default_topic: str = "TBW102"
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int32 | None = None
    order: bool = False
    attributes: str | None = None
    force: bool | None = None


class DeleteTopicFromNamesrvRequestHeader(Header, frozen=True, kw_only=True):
    """DELETE_TOPIC_IN_NAMESRV (216)."""

    topic: str
    cluster_name: str | None = None


class DeleteTopicRequestHeader(Header, frozen=True, kw_only=True):
    """DELETE_TOPIC_IN_BROKER (215)."""

    topic: str


class GetAllTopicConfigResponseHeader(Header, frozen=True, kw_only=True):
    """GET_ALL_TOPIC_CONFIG (21)."""


class GetTopicConfigRequestHeader(TopicRequestHeader, frozen=True, kw_only=True):
    """GET_TOPIC_CONFIG (351)."""

    topic: str


class GetTopicStatsInfoRequestHeader(Header, frozen=True, kw_only=True):
    """GET_TOPIC_STATS_INFO (202)."""

    topic: str


class GetTopicsByClusterRequestHeader(Header, frozen=True, kw_only=True):
    """GET_TOPICS_BY_CLUSTER (224)."""

    cluster: str


class QueryConsumeQueueRequestHeader(Header, frozen=True, kw_only=True):
    """QUERY_CONSUME_QUEUE (321)."""

    topic: str | None = None
    queue_id: Int32 | None = None
    index: Int64 | None = None
    count: Int32 | None = None
    consumer_group: str | None = None


class QueryConsumeTimeSpanRequestHeader(Header, frozen=True, kw_only=True):
    """QUERY_CONSUME_TIME_SPAN (303)."""

    topic: str
    group: str


class QueryTopicConsumeByWhoRequestHeader(Header, frozen=True, kw_only=True):
    """QUERY_TOPIC_CONSUME_BY_WHO (300)."""

    topic: str


class RegisterTopicRequestHeader(TopicRequestHeader, frozen=True, kw_only=True):
    """REGISTER_TOPIC_IN_NAMESRV (217)."""

    topic: str
