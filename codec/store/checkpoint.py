"""The checkpoint file: store times (ms) up to which everything is flushed (Java class `StoreCheckpoint`).

Java uses the first 24 of its 4096 bytes (5.x: 40) and ignores the others. The last 64 hold a safe point:
positions in the files, which, unlike times, stay correct when a clock is set back.
"""

from __future__ import annotations

import struct
from typing import NamedTuple
from zlib import crc32

import construct
from construct import Bytes, Int32ub, Int64sb

from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.layout import Buffer, fused

CHECKPOINT = fused(
    construct.Struct(
        "physic_msg_timestamp" / Int64sb,
        "logics_msg_timestamp" / Int64sb,
        "index_msg_timestamp" / Int64sb,
        "master_flushed_offset" / Int64sb,
        "confirm_phy_offset" / Int64sb,
    )
)
SAFE_POINT = fused(
    construct.Struct(
        "magic" / Bytes(8),
        "physic_msg_timestamp" / Int64sb,
        "logics_msg_timestamp" / Int64sb,
        "index_msg_timestamp" / Int64sb,
        "log_offset" / Int64sb,
        "index_offset" / Int64sb,
        "queues_crc" / Int64sb,
        "crc" / Int32ub,
    )
)
FILE_SIZE = 4096
SAFE_POINT_AT = FILE_SIZE - 64
SAFE_POINT_MAGIC = b"rmq safe"
_COVERED = SAFE_POINT.offsets["crc"]
SAFETY = 3000
"""Recovery starts this many milliseconds before the flushed times."""


class Checkpoint(NamedTuple):
    """Store times (ms) of the last flushed record and queue entry, and of the last full index file; 5.x adds
    two offsets.
    """

    physic_msg_timestamp: int = 0
    logics_msg_timestamp: int = 0
    index_msg_timestamp: int = 0
    master_flushed_offset: int = 0
    confirm_phy_offset: int = 0

    @property
    def min_timestamp(self) -> int:
        """Everything stored before this time is safe in log and queues."""
        return max(min(self.physic_msg_timestamp, self.logics_msg_timestamp) - SAFETY, 0)

    @property
    def min_timestamp_index(self) -> int:
        """Everything stored before this time is safe in log, queues and index."""
        return min(self.min_timestamp, self.index_msg_timestamp)


class SafePoint(NamedTuple):
    """Positions up to which a store is on the disk: the commit-log offset of records and their queue
    entries, and the end offset of full index files.

    `queues_crc` covers the names and next offsets of the queues at a clean stop; it is -1 while the store is
    open. `times` are the first three numbers of the file; if the file now has others, Java wrote it in the
    meantime.
    """

    log_offset: int
    index_offset: int = -1
    queues_crc: int = -1
    times: tuple[int, int, int] = (0, 0, 0)


def encode_checkpoint(checkpoint: Checkpoint, safe_point: SafePoint | None = None) -> bytes:
    """Return the whole file. The times of the safe point are taken from the checkpoint."""
    content = CHECKPOINT.pack(*checkpoint).ljust(FILE_SIZE, b"\0")
    if safe_point is None:
        return content
    covered = SAFE_POINT.pack(SAFE_POINT_MAGIC, *checkpoint[:3], *safe_point[:3], 0)[:_COVERED]
    packed = covered + crc32(covered).to_bytes(4, "big")
    return content[:SAFE_POINT_AT] + packed.ljust(FILE_SIZE - SAFE_POINT_AT, b"\0")


def decode_checkpoint(data: Buffer) -> Checkpoint:
    """Read the numbers. Raises CorruptionError if the file is too short for them."""
    try:
        return Checkpoint._make(CHECKPOINT.unpack_from(data, 0))
    except struct.error:
        raise CorruptionError(f"a checkpoint of {len(data)} bytes", len(data)) from None


def decode_safe_point(data: bytes) -> SafePoint | None:
    """Read the safe point; None if there is none. Raises CorruptionError if its CRC is wrong."""
    packed = data[SAFE_POINT_AT : SAFE_POINT_AT + SAFE_POINT.size]
    if not any(packed):
        return None
    try:
        magic, *times, log_offset, index_offset, queues_crc, crc = SAFE_POINT.unpack(packed)
    except struct.error:
        raise CorruptionError("the safe point of a checkpoint is cut short", len(data)) from None
    if magic != SAFE_POINT_MAGIC or crc != crc32(packed[:_COVERED]):
        raise CorruptionError("the safe point of a checkpoint is damaged", SAFE_POINT_AT)
    return SafePoint(log_offset, index_offset, queues_crc, (times[0], times[1], times[2]))
