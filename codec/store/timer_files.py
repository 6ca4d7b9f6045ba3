"""The files of timer messages of 5.x (Java `TimerWheel`, `Slot`, `TimerLog`, `TimerCheckpoint`).

* `timerwheel`: one slot for each second of 14 days. The slot of a time is (time / precision) modulo the
  number of slots; it is in use if its own time is that one.
* `timerlog/`: one unit of 52 bytes for each waiting message. The units of a slot form a chain, which is read
  backwards from the last; the first has no previous position. A file ends with a filler unit.
* `config/timercheck`: how far wheel and log were read and flushed. Java uses the first 56 of 4096 bytes and
  ignores the others; the last 64 hold a safe point, which shows whether log and numbers agree exactly.

Times are ms, positions are bytes in the timer log.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple
from zlib import crc32

import construct
from construct import Bytes, Int32sb, Int32ub, Int64sb

from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.layout import Buffer, fused

PRECISION_MS: Final = 1000
SLOTS: Final = 2 * 7 * 86400  # Java's broker does not start with a wheel of another length
NO_POSITION: Final = -1
DEFAULT, ROLL, DELETE = 1, 2, 4
"""Bits of the magic of a unit: `ROLL` waits longer than its slot, `DELETE` recalls another message."""
FILLER: Final = -875286124
"""The magic of the unit that ends a file."""
LOG_FILE_SIZE: Final = 100 * 1024 * 1024

SLOT = fused(
    construct.Struct(
        "time" / Int64sb,
        "first_position" / Int64sb,
        "last_position" / Int64sb,
        "count" / Int32sb,
        "magic" / Int32sb,
    )
)
WHEEL_SIZE: Final = SLOTS * SLOT.size
UNIT = fused(
    construct.Struct(
        "size" / Int32sb,
        "previous_position" / Int64sb,
        "magic" / Int32sb,
        "write_time" / Int64sb,
        "delay" / Int32sb,
        "commit_log_offset" / Int64sb,
        "message_size" / Int32sb,
        "topic_hash" / Int32sb,
        "reserved" / Int64sb,
    )
)
FILLER_UNIT = fused(
    construct.Struct("size" / Int32sb, "previous_position" / Int64sb, "magic" / Int32sb),
)
CHECK_POINT = fused(
    construct.Struct(
        "last_read_time" / Int64sb,
        "log_flush_position" / Int64sb,
        "queue_offset" / Int64sb,
        "master_queue_offset" / Int64sb,
        "state_version" / Int64sb,
        "timestamp" / Int64sb,
        "counter" / Int64sb,
    )
)
SAFE_POINT = fused(
    construct.Struct(
        "magic" / Bytes(8),
        "last_read_time" / Int64sb,
        "log_flush_position" / Int64sb,
        "queue_offset" / Int64sb,
        "is_closed" / Int64sb,
        "crc" / Int32ub,
    )
)
FILE_SIZE: Final = 4096
SAFE_POINT_AT: Final = FILE_SIZE - 64
SAFE_POINT_MAGIC: Final = b"rmq time"
_COVERED: Final = SAFE_POINT.offsets["crc"]


class TimerUnit(NamedTuple):
    """One waiting message. `slot` is the time of its slot, `write_time` that at which it was put there."""

    position: int
    previous: int
    magic: int
    write_time: int
    slot: int
    offset: int
    size: int
    topic_hash: int


class TimerCheckPoint(NamedTuple):
    """The numbers of the file, which are also the body of GET_TIMER_CHECK_POINT (60).

    Slots before `last_read_time` are delivered; entries of the timer topic's queue before `queue_offset` are
    in the log.
    """

    last_read_time: int = 0
    log_flush_position: int = 0
    queue_offset: int = 0
    master_queue_offset: int = 0
    state_version: int = 0
    timestamp: int = 0
    counter: int = 0


def slot_index(slot: int) -> int:
    """Return the number of the slot of a time in ms."""
    return slot // PRECISION_MS % SLOTS


def encode_unit(unit: TimerUnit) -> bytes:
    """Encode a unit; its position is where it is written."""
    return UNIT.pack(
        UNIT.size,
        unit.previous,
        unit.magic,
        unit.write_time,
        unit.slot - unit.write_time,
        unit.offset,
        unit.size,
        unit.topic_hash,
        0,
    )


def decode_unit(data: Buffer, at: int, position: int) -> TimerUnit | None:
    """Read the unit at byte `at` of a file, whose position in the log is `position`. Return None if there is
    none, at the end of the file or of the log.
    """
    if at + UNIT.size > len(data):
        return None
    length, previous, magic, written, delay, offset, size, topic, _ = UNIT.unpack_from(data, at)
    if length != UNIT.size or not 0 < magic < 8:
        return None
    return TimerUnit(position, previous, magic, written, written + delay, offset, size, topic)


def encode_filler(rest: int) -> bytes:
    """Return the unit that ends a file of which `rest` bytes are left."""
    return FILLER_UNIT.pack(rest, 0, FILLER)


def encode_check_point(known: TimerCheckPoint, *, is_closed: bool) -> bytes:
    """Return the whole file. `is_closed` means that wheel and log were also flushed and no longer change."""
    covered = SAFE_POINT.pack(SAFE_POINT_MAGIC, *known[:3], is_closed, 0)[:_COVERED]
    packed = covered + crc32(covered).to_bytes(4, "big")
    content = CHECK_POINT.pack(*known).ljust(SAFE_POINT_AT, b"\0")
    return content + packed.ljust(FILE_SIZE - SAFE_POINT_AT, b"\0")


def decode_check_point(data: Buffer) -> TimerCheckPoint:
    """Read the numbers. Raises CorruptionError if there are too few bytes."""
    try:
        return TimerCheckPoint._make(CHECK_POINT.unpack_from(data, 0))
    except struct.error:
        raise CorruptionError(f"a timer check point of {len(data)} bytes", len(data)) from None


def decode_safe_point(data: bytes) -> bool | None:
    """Return `is_closed` of the safe point; None if the numbers are not those saved with it, for example
    because Java has written them.
    """
    packed = data[SAFE_POINT_AT : SAFE_POINT_AT + SAFE_POINT.size]
    if len(packed) != SAFE_POINT.size:
        return None
    magic, *numbers, is_closed, crc = SAFE_POINT.unpack(packed)
    if magic != SAFE_POINT_MAGIC or crc != crc32(packed[:_COVERED]):
        return None
    return bool(is_closed) if tuple(numbers) == decode_check_point(data)[:3] else None
