"""The state that a consumer client reports (307, 309). Offsets are queue offsets, times epoch ms."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

import msgspec

from rmqcli.codec.bodies.base import Body, Int32, Int64
from rmqcli.codec.bodies.heartbeat import ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionData
from rmqcli.codec.message_queue import MessageQueue


class ProcessQueueInfo(Body, frozen=True):
    """The process queue of a message queue. `droped` is Java's spelling; the Go client writes `dropped`."""

    ALIASES: ClassVar[dict[str, str]] = {"dropped": "droped"}

    commit_offset: Int64 = 0
    cached_msg_min_offset: Int64 = 0
    cached_msg_max_offset: Int64 = 0
    cached_msg_count: Int32 = 0
    cached_msg_size_in_mib: Int32 = msgspec.field(default=0, name="cachedMsgSizeInMiB")
    transaction_msg_min_offset: Int64 = 0
    transaction_msg_max_offset: Int64 = 0
    transaction_msg_count: Int32 = 0
    locked: bool = False
    try_unlock_times: Int64 = 0
    last_lock_timestamp: Int64 = 0
    droped: bool = False
    last_pull_timestamp: Int64 = 0
    last_consume_timestamp: Int64 = 0


class PopProcessQueueInfo(Body, frozen=True):
    """The process queue of a message queue in pop consumption (5.x)."""

    wait_ack_count: Int32 = 0
    droped: bool = False
    last_pop_timestamp: Int64 = 0


class ConsumeStatus(Body, frozen=True):
    """Times in ms and rates per second over the last minute, and failures of the last hour."""

    pull_rt: float = msgspec.field(default=0.0, name="pullRT")
    pull_tps: float = msgspec.field(default=0.0, name="pullTPS")
    consume_rt: float = msgspec.field(default=0.0, name="consumeRT")
    consume_ok_tps: float = msgspec.field(default=0.0, name="consumeOKTPS")
    consume_failed_tps: float = msgspec.field(default=0.0, name="consumeFailedTPS")
    consume_failed_msgs: Int64 = 0


class ConsumerRunningInfo(Body, frozen=True):
    """The state of a consumer; `jstack` is set only on request."""

    properties: dict[str, str] = {}
    subscription_set: list[SubscriptionData] = []
    mq_table: dict[MessageQueue, ProcessQueueInfo] = {}
    status_table: dict[str, ConsumeStatus] = {}
    jstack: str | None = None
    mq_pop_table: dict[MessageQueue, PopProcessQueueInfo] | None = None
    user_consumer_info: dict[str, str] | None = None


class CMResult(StrEnum):
    """The results of consuming a message on request."""

    CR_SUCCESS = "CR_SUCCESS"
    CR_LATER = "CR_LATER"
    CR_ROLLBACK = "CR_ROLLBACK"
    CR_COMMIT = "CR_COMMIT"
    CR_THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    CR_RETURN_NULL = "CR_RETURN_NULL"


class ConsumeMessageDirectlyResult(Body, frozen=True):
    """The result of consuming a message on request; `spent_time_mills` is in ms."""

    order: bool = False
    auto_commit: bool = True
    consume_result: CMResult | None = None
    remark: str | None = None
    spent_time_mills: Int64 = 0


class ClientConnection(Body, frozen=True):
    """One client (Java `body.Connection`). `language` is the name of a LanguageCode."""

    client_id: str = ""
    client_addr: str = ""
    language: str | None = None
    version: Int32 = 0


class ConsumerConnection(Body, frozen=True):
    connection_set: list[ClientConnection] = []
    subscription_table: dict[str, SubscriptionData] = {}
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None


class ProducerConnection(Body, frozen=True):
    connection_set: list[ClientConnection] = []


class ProducerInfo(Body, frozen=True):
    """One producer client; `remote_ip` has the form /ip:port."""

    client_id: str = ""
    remote_ip: str | None = msgspec.field(default=None, name="remoteIP")
    language: str | None = None
    version: Int32 = 0
    last_update_timestamp: Int64 = 0


class ProducerTableInfo(Body, frozen=True):
    """The clients of each producer group."""

    data: dict[str, list[ProducerInfo]] = {}


class GetConsumerListByGroupResponseBody(Body, frozen=True):
    """The client ids of a group."""

    consumer_id_list: list[str] = []
