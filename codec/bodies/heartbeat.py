"""Heartbeats: what a client produces and consumes (Java `protocol.heartbeat`).

Members that are sets in Java are lists here, in the order of the text. Enum text that Java does not know
is None.
"""

# ruff: noqa: RUF012  msgspec copies an empty default for every value.
from __future__ import annotations

from enum import StrEnum

import msgspec

from codec.bodies.base import Body, Int32, Int64


class ConsumeType(StrEnum):
    """Pull, push, and the pop of 5.x."""

    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
    CONSUME_POP = "CONSUME_POP"


class MessageModel(StrEnum):
    """Every member gets every message, or each message goes to one member."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeFromWhere(StrEnum):
    """Where a group without committed offsets starts; the second to fourth are deprecated spellings of the
    first."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = (
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    )
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class SubscriptionData(Body, frozen=True):
    """One subscribed topic. `code_set`: Java `String.hashCode` of each tag; both sets empty for `*` and
    SQL92.

    `sub_version` is in epoch ms and the newer wins; 0 when it was missing, for which Java takes the
    receiver's clock.
    """

    topic: str = ""
    sub_string: str = ""
    tags_set: list[str] = []
    code_set: list[Int32] = []
    sub_version: Int64 = 0
    expression_type: str = "TAG"
    class_filter_mode: bool = False


class ProducerData(Body, frozen=True):
    """A producer group of a client."""

    group_name: str


class ConsumerData(Body, frozen=True):
    """A consumer group of a client."""

    group_name: str
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None
    subscription_data_set: list[SubscriptionData] = []
    unit_mode: bool = False


class HeartbeatData(Body, frozen=True):
    """HEART_BEAT (34)."""

    client_id: str = msgspec.field(name="clientID")
    producer_data_set: list[ProducerData] = []
    consumer_data_set: list[ConsumerData] = []
    heartbeat_fingerprint: Int32 | None = None
    without_sub: bool | None = None


class CheckClientRequestBody(Body, frozen=True):
    """CHECK_CLIENT_CONFIG (46)."""

    client_id: str | None = None
    group: str | None = None
    subscription_data: SubscriptionData | None = None
    namespace: str | None = None


class QuerySubscriptionResponseBody(Body, frozen=True):
    """QUERY_SUBSCRIPTION_BY_CONSUMER (345)."""

    subscription_data: SubscriptionData | None = None
    group: str | None = None
    topic: str | None = None
