"""What a broker knows beside the messages: plain state, no I/O, no clock of its own, changed by one
thread."""

from __future__ import annotations

from broker.tables.channels import Channel, ClientChannel
from broker.tables.consumers import ConsumerGroup, ConsumerTable
from broker.tables.delay_offsets import DelayOffsets
from broker.tables.groups import GroupTable
from broker.tables.half_copies import HalfCopies
from broker.tables.locks import LockTable
from broker.tables.offsets import OffsetTable
from broker.tables.producers import ProducerTable
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
    "TopicTable",
]
