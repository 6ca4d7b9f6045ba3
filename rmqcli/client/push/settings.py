"""Settings of push consumers: options, defaults and ranges of Java's `DefaultMQPushConsumer`.

Times are seconds, sizes bytes, unless a name says otherwise (Java's are milliseconds and MiB).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from codec.bodies.heartbeat import ConsumeFromWhere, MessageModel
from rmqcli.client.errors import InvalidRequest
from rmqcli.client.group.allocation import Allocate, averagely
from rmqcli.client.group.offset_store import PERSIST_INTERVAL
from rmqcli.client.group.rebalance import REBALANCE_INTERVAL

MIB = 1024 * 1024
MAX_DELAY_ORDERLY = 2**31 - 1
DEFAULT_RECONSUME_TIMES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PushSettings:
    """Options of a PushConsumer; InvalidRequest when one is out of its range.

    `consumers`: concurrent listener calls (20 to 64 is sensible, 1000 the maximum); `batch_size`: messages
    per call. `from_timestamp` is epoch ms (None: half an hour before the start). `max_reconsume_times` -1: 16
    for a concurrent listener, unlimited for an orderly one. Thresholds of a topic (-1: none) are divided
    among its queues. `grace`: seconds that running listeners get when the consumer is left; then they are
    cancelled, and their messages are consumed again. `trace`: True writes traces to RMQ_SYS_TRACE_TOPIC, a
    text to that topic. `offsets_folder`: folder of the offsets of broadcasting consumers (None:
    ~/.rocketmq_offsets, as Java).
    """

    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    from_timestamp: int | None = None
    allocate: Allocate = averagely
    consumers: int = 20
    batch_size: int = 1
    pull_batch_size: int = 32
    pull_interval: float = 0.0
    max_span: int = 2000
    queue_messages: int = 1000
    queue_bytes: int = 100 * MIB
    topic_messages: int = -1
    topic_bytes: int = -1
    post_subscription: bool = False
    max_reconsume_times: int = -1
    suspend_time: float = 1.0
    consume_timeout: float = 15 * 60.0
    persist_interval: float = PERSIST_INTERVAL
    rebalance_interval: float = REBALANCE_INTERVAL
    long_poll: float = 15.0
    pull_timeout: float = 30.0
    grace: float = 3.0
    offsets_folder: Path | None = None
    trace: bool | str = False

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high and not (name in _OPTIONAL and value == -1):
                raise InvalidRequest(f"{name} is {value}, out of range [{low}, {high}]")
        if self.pull_timeout <= self.long_poll:
            raise InvalidRequest("pull_timeout must be longer than long_poll")

    @property
    def broadcasting(self) -> bool:
        return self.message_model is MessageModel.BROADCASTING

    def reconsume_limit(self, orderly: bool) -> int:
        """The number of retries before a message becomes a dead letter."""
        if self.max_reconsume_times != -1:
            return self.max_reconsume_times
        return MAX_DELAY_ORDERLY if orderly else DEFAULT_RECONSUME_TIMES


_OPTIONAL = frozenset({"topic_messages", "topic_bytes", "max_reconsume_times"})
_RANGES: dict[str, tuple[float, float]] = {
    "consumers": (1, 1000),
    "batch_size": (1, 1024),
    "pull_batch_size": (1, 1024),
    "pull_interval": (0, 65.535),
    "max_span": (1, 65535),
    "queue_messages": (1, 65535),
    "queue_bytes": (MIB, 1024 * MIB),
    "topic_messages": (1, 6553500),
    "topic_bytes": (MIB, 102400 * MIB),
    "max_reconsume_times": (0, MAX_DELAY_ORDERLY),
    "suspend_time": (0.01, 30.0),
    "consume_timeout": (1, 10**9),
    "persist_interval": (0.1, 10**9),
    "rebalance_interval": (1, 10**9),
    "long_poll": (0.1, 3600),
    "grace": (0, 10**9),
}
