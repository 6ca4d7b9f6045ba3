"""The state of a broker apart from its messages: without I/O or a clock, changed by one thread."""

from __future__ import annotations

from rmqcli.broker.tables.clients import (
    Channel,
    ClientChannel,
    ConsumerGroup,
    ConsumerTable,
    ProducerTable,
    TooManyGroups,
)
from rmqcli.broker.tables.groups import GroupTable
from rmqcli.broker.tables.half_copies import HalfCopies
from rmqcli.broker.tables.locks import LockTable
from rmqcli.broker.tables.new_offsets import NewOffsets
from rmqcli.broker.tables.offsets import DelayOffsets, OffsetTable
from rmqcli.broker.tables.request_modes import RequestModes
from rmqcli.broker.tables.topics import TopicTable

__all__ = [
    "Channel",
    "ClientChannel",
    "ConsumerGroup",
    "ConsumerTable",
    "DelayOffsets",
    "GroupTable",
    "HalfCopies",
    "LockTable",
    "NewOffsets",
    "OffsetTable",
    "ProducerTable",
    "RequestModes",
    "TooManyGroups",
    "TopicTable",
]
