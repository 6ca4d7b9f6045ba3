"""Headers of consumer group administration."""

from __future__ import annotations

from codec.headers.base import Header, RpcRequestHeader, TopicRequestHeader


class DeleteSubscriptionGroupRequestHeader(Header, frozen=True, kw_only=True):
    """DELETE_SUBSCRIPTIONGROUP (207)."""

    group_name: str
    remove_offset: bool = False
    clean_offset: bool | None = None


class GetConsumeStatsInBrokerHeader(Header, frozen=True, kw_only=True):
    """GET_BROKER_CONSUME_STATS (317)."""

    is_order: bool = False


class GetConsumeStatsRequestHeader(Header, frozen=True, kw_only=True):
    """GET_CONSUME_STATS (208)."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class GetSubscriptionGroupConfigRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    """GET_SUBSCRIPTIONGROUP_CONFIG (352)."""

    group: str


class QuerySubscriptionByConsumerRequestHeader(TopicRequestHeader, frozen=True, kw_only=True):
    """QUERY_SUBSCRIPTION_BY_CONSUMER (345)."""

    group: str
    topic: str | None = None


class QueryTopicsByConsumerRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    """QUERY_TOPICS_BY_CONSUMER (343)."""

    group: str


class UpdateGroupForbiddenRequestHeader(TopicRequestHeader, frozen=True, kw_only=True):
    """UPDATE_AND_GET_GROUP_FORBIDDEN (353)."""

    group: str
    topic: str
    readable: bool | None = None
