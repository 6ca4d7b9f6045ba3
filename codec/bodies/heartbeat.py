"""Heartbeats: the groups of a client and their subscriptions (Java `protocol.heartbeat`).

Java's sets are lists here, in the order of the text. Enum text that Java does not know is None.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from rmqcli.codec.bodies.base import Body, Int32, Int64


class ConsumeType(StrEnum):
    """The ways to consume: pull, push, and the pop of 5.x."""

    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
    CONSUME_POP = "CONSUME_POP"


class MessageModel(StrEnum):
    """The ways to deliver: each message to every member, or to one member.

    ```python
    settings = PushSettings(message_model=MessageModel.BROADCASTING)
    ```
    """

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeFromWhere(StrEnum):
    """The start of a group without committed offsets; the second to fourth are deprecated names for the
    first.

    ```python
    settings = PushSettings(consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    ```
    """

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = (
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    )
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class SubscriptionData(Body, frozen=True):
    """One subscribed topic. `code_set` has Java's `String.hashCode` of each tag; both sets are empty for `*`
    and SQL92.

    `sub_version` is epoch ms; the newer one wins. A missing version is 0 here, while Java uses the receiver's
    clock.
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
    client_id: str = msgspec.field(name="clientID")
    producer_data_set: list[ProducerData] = []
    consumer_data_set: list[ConsumerData] = []
    heartbeat_fingerprint: Int32 | None = None
    without_sub: bool | None = None


class CheckClientRequestBody(Body, frozen=True):
    client_id: str | None = None
    group: str | None = None
    subscription_data: SubscriptionData | None = None
    namespace: str | None = None


class QuerySubscriptionResponseBody(Body, frozen=True):
    subscription_data: SubscriptionData | None = None
    group: str | None = None
    topic: str | None = None
