"""Values that go into a store and come out of it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import msgspec

from rmqcli.codec.core.record_writer import QueueRun

BitMapOf = Callable[[str, dict[str, str]], bytes | None]
"""Returns the bit map of a message, given topic and properties, for the extension of its queue; None if it
has no bit map."""


class PutStatus(Enum):
    """Java `PutMessageStatus`; broker.md §1 maps each to a response code."""

    PUT_OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    CREATE_MAPEDFILE_FAILED = "CREATE_MAPEDFILE_FAILED"
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    WHEEL_TIMER_MSG_ILLEGAL = "WHEEL_TIMER_MSG_ILLEGAL"
    WHEEL_TIMER_FLOW_CONTROL = "WHEEL_TIMER_FLOW_CONTROL"
    WHEEL_TIMER_NOT_ENABLE = "WHEEL_TIMER_NOT_ENABLE"


class GetStatus(Enum):
    """Java `GetMessageStatus`; the name is the remark of a pull reply."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


class StoreMessage(msgspec.Struct, gc=False):
    """A message on its way into the commit log (Java `MessageExtBrokerInner`).

    `properties` and `properties_text` are the same properties, decoded and as stored, except for those that
    the broker adds to all messages and those that it does not store; for `append_run` the text suffices.
    `born_host` is the address (4 or 16 bytes) and the port as int32; its family must agree with `sys_flag`.
    Timestamps are in ms.
    """

    topic: str
    queue_id: int
    body: bytes | memoryview
    properties: dict[str, str]
    properties_text: bytes
    born_timestamp: int
    born_host: bytes
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    wait_store: bool = True
    is_known: bool = False
    """True if the store had this message before: `maxMessageSize`, which may be smaller now, is not
    applied."""


class AppendResult(msgspec.Struct, frozen=True, gc=False):
    """The outcome of an append; offsets are -1 unless `status` is PUT_OK."""

    status: PutStatus
    physical_offset: int = -1
    size: int = 0
    queue_offset: int = -1
    store_timestamp: int = 0
    physical_offsets: tuple[int, ...] = ()


ArrivalListener = Callable[[QueueRun], object]
"""Called with the messages of one queue that were stored together, in the order of their offsets."""


class GetResult(msgspec.Struct, frozen=True, gc=False):
    """Records of one queue: `views` of the mapped files, which together hold `count` records.

    `end` is the commit-log offset at which the last one ends.
    """

    status: GetStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    views: list[memoryview]
    count: int = 0
    size: int = 0
    slow: bool = False
    end: int = 0


class QueryResult(NamedTuple):
    """Records that an index query found, one view per record, by ascending commit-log offset.

    `end` is the commit-log offset at which the last one ends.
    """

    views: list[memoryview]
    index_last_update_timestamp: int
    index_last_update_phyoffset: int
    end: int = 0


class Statistics:
    """The state of a store. `last_store_timestamp` is in ms; `writable` follows from `disk_full` and
    `damaged`."""

    __slots__ = ("damaged", "disk_full", "disk_ratio", "last_store_timestamp", "writable")

    def __init__(self) -> None:
        self.last_store_timestamp = 0
        self.disk_ratio = 0.0
        self.disk_full = False
        self.damaged = False
        self.writable = True

    def set_disk(self, ratio: float, *, full: bool) -> None:
        """Set the disk usage; with `full`, the store refuses messages until the next call without it."""
        self.disk_ratio = ratio
        self.disk_full = full
        self.writable = not full and not self.damaged

    def set_damaged(self) -> None:
        """Refuse all messages from now on, because the disk failed. The stop will not be clean."""
        self.damaged = True
        self.writable = False
