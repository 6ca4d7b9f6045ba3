"""The state of a broker apart from its messages: without I/O or a clock, changed by one thread."""

from __future__ import annotations

from broker.tables.clients import (
    Channel,
    ClientChannel,
    ConsumerGroup,
    ConsumerTable,
    ProducerTable,
    TooManyGroups,
)
from broker.tables.groups import GroupTable
from broker.tables.half_copies import HalfCopies
from broker.tables.locks import LockTable
from broker.tables.offsets import DelayOffsets, OffsetTable
from broker.tables.topics import TopicTable

__all__ = [
    "Channel",
    "ClientChannel",
    "ConsumerGroup",
    "ConsumerTable",
    "DelayOffsets",
    "GroupTable",
    "HalfCopies",
    "LockTable",
    "OffsetTable",
    "ProducerTable",
    "TooManyGroups",
    "TopicTable",
]
