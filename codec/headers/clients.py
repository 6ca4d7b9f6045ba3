"""Headers about connected clients: membership, connections, running information, direct consumption."""

from __future__ import annotations

import msgspec

from codec.headers.base import Header, Int32


class ConsumeMessageDirectlyResultRequestHeader(Header, frozen=True, kw_only=True):
    """CONSUME_MESSAGE_DIRECTLY (309)."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    group_sys_flag: Int32 | None = None
    topic_sys_flag: Int32 | None = None
    topic: str | None = None


class GetAllProducerInfoRequestHeader(Header, frozen=True, kw_only=True):
    """GET_ALL_PRODUCER_INFO (328)."""


class GetConsumerConnectionListRequestHeader(Header, frozen=True, kw_only=True):
    """GET_CONSUMER_CONNECTION_LIST (203)."""

    consumer_group: str


class GetConsumerListByGroupRequestHeader(Header, frozen=True, kw_only=True):
    """GET_CONSUMER_LIST_BY_GROUP (38)."""

    consumer_group: str


class GetConsumerListByGroupResponseHeader(Header, frozen=True, kw_only=True):
    """GET_CONSUMER_LIST_BY_GROUP (38)."""


class GetConsumerRunningInfoRequestHeader(Header, frozen=True, kw_only=True):
    """GET_CONSUMER_RUNNING_INFO (307)."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class GetProducerConnectionListRequestHeader(Header, frozen=True, kw_only=True):
    """GET_PRODUCER_CONNECTION_LIST (204)."""

    producer_group: str


class NotifyConsumerIdsChangedRequestHeader(Header, frozen=True, kw_only=True):
    """NOTIFY_CONSUMER_IDS_CHANGED (40)."""

    consumer_group: str


class UnregisterClientRequestHeader(Header, frozen=True, kw_only=True):
    """UNREGISTER_CLIENT (35)."""

    client_id: str = msgspec.field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class UnregisterClientResponseHeader(Header, frozen=True, kw_only=True):
    """UNREGISTER_CLIENT (35)."""
