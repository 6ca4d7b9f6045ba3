"""Headers of consumer group administration."""

from __future__ import annotations

from rmqcli.codec.headers.base import Header, RpcRequestHeader, TopicRequestHeader


class DeleteSubscriptionGroupRequestHeader(Header, frozen=True, kw_only=True):
    group_name: str
    remove_offset: bool = False
    clean_offset: bool | None = None


class GetConsumeStatsInBrokerHeader(Header, frozen=True, kw_only=True):
    is_order: bool = False


class GetConsumeStatsRequestHeader(Header, frozen=True, kw_only=True):
    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class GetSubscriptionGroupConfigRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    group: str


class QuerySubscriptionByConsumerRequestHeader(TopicRequestHeader, frozen=True, kw_only=True):
    group: str
    topic: str | None = None


class QueryTopicsByConsumerRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    group: str


class UpdateGroupForbiddenRequestHeader(TopicRequestHeader, frozen=True, kw_only=True):
    group: str
    topic: str
    readable: bool | None = None
