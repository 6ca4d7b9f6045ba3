"""Settings of lite pull consumers; defaults of Java's `DefaultLitePullConsumer`, in seconds and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from codec.bodies.heartbeat import ConsumeFromWhere, MessageModel
from rmqcli.client.errors import InvalidRequest
from rmqcli.client.group.allocation import Allocate, averagely
from rmqcli.client.group.offset_store import PERSIST_INTERVAL
from rmqcli.client.group.rebalance import REBALANCE_INTERVAL

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteSettings:
    """Options of a LitePullConsumer; InvalidRequest when one is out of its range.

    `all_messages`, `queue_messages`, `queue_bytes` and `max_span` limit the messages that wait for `poll`.
    `commit_interval`: seconds between two automatic commits by `poll` (at least 1). `from_timestamp` is epoch
    ms (None: half an hour before the start). `offsets_folder`: folder of the offsets of broadcasting
    consumers (None: ~/.rocketmq_offsets, as Java).
    """

    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    from_timestamp: int | None = None
    allocate: Allocate = averagely
    pull_batch_size: int = 10
    all_messages: int = 10_000
    queue_messages: int = 1000
    queue_bytes: int = 100 * MIB
    max_span: int = 2000
    poll_timeout: float = 5.0
    auto_commit: bool = True
    commit_interval: float = PERSIST_INTERVAL
    queue_check_interval: float = 30.0
    suspend: float = 20.0
    pull_timeout: float = 30.0
    rebalance_interval: float = REBALANCE_INTERVAL
    trace: bool | str = False
    offsets_folder: Path | None = None

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise InvalidRequest(f"{name} is {value}, out of range [{low}, {high}]")
        if self.pull_timeout <= self.suspend:
            raise InvalidRequest("pull_timeout must be longer than suspend")

    @property
    def broadcasting(self) -> bool:
        return self.message_model is MessageModel.BROADCASTING


_RANGES: dict[str, tuple[float, float]] = {
    "pull_batch_size": (1, 1024),
    "all_messages": (1, 65_535_000),
    "queue_messages": (1, 65_535),
    "queue_bytes": (MIB, 1024 * MIB),
    "max_span": (1, 65_535),
    "commit_interval": (1, 10**9),
    "queue_check_interval": (0.1, 10**9),
    "suspend": (0.001, 3600),
    "rebalance_interval": (0.1, 10**9),
}
