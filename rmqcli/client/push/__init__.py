"""Push consumers: pull loops, process queues, listeners, locks (Java package `impl.consumer`)."""

from __future__ import annotations

from rmqcli.client.group.allocation import (
    Allocate,
    averagely,
    averagely_by_circle,
    by_config,
    by_machine_room,
    consistent_hash,
    machine_room_nearby,
)
from rmqcli.client.group.offset_store import OffsetFileDamaged, OffsetFileUnwritable
from rmqcli.client.group.subscription import MessageSelector
from rmqcli.client.push.consumer import PushConsumer
from rmqcli.client.push.listener import (
    ConcurrentListener,
    ConsumeContext,
    ConsumeResult,
    OrderlyContext,
    OrderlyListener,
    OrderlyResult,
)
from rmqcli.client.push.settings import PushSettings

__all__ = [
    "Allocate",
    "ConcurrentListener",
    "ConsumeContext",
    "ConsumeResult",
    "MessageSelector",
    "OffsetFileDamaged",
    "OffsetFileUnwritable",
    "OrderlyContext",
    "OrderlyListener",
    "OrderlyResult",
    "PushConsumer",
    "PushSettings",
    "averagely",
    "averagely_by_circle",
    "by_config",
    "by_machine_room",
    "consistent_hash",
    "machine_room_nearby",
]
