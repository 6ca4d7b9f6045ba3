"""Headers about connected clients: members, connections, running information, direct consumption."""

from __future__ import annotations

import msgspec

from rmqcli.codec.headers.base import Header, Int32


class ConsumeMessageDirectlyResultRequestHeader(Header, frozen=True, kw_only=True):
    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    group_sys_flag: Int32 | None = None
    topic_sys_flag: Int32 | None = None
    topic: str | None = None


class GetAllProducerInfoRequestHeader(Header, frozen=True, kw_only=True):
    """A header without fields."""


class GetConsumerConnectionListRequestHeader(Header, frozen=True, kw_only=True):
    consumer_group: str


class GetConsumerListByGroupRequestHeader(Header, frozen=True, kw_only=True):
    consumer_group: str


class GetConsumerListByGroupResponseHeader(Header, frozen=True, kw_only=True):
    """A header without fields."""


class GetConsumerRunningInfoRequestHeader(Header, frozen=True, kw_only=True):
    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class GetProducerConnectionListRequestHeader(Header, frozen=True, kw_only=True):
    producer_group: str


class NotifyConsumerIdsChangedRequestHeader(Header, frozen=True, kw_only=True):
    consumer_group: str


class UnregisterClientRequestHeader(Header, frozen=True, kw_only=True):
    client_id: str = msgspec.field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class UnregisterClientResponseHeader(Header, frozen=True, kw_only=True):
    """A header without fields."""
