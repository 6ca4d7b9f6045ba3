"""The checkpoint file: store times (ms) up to which everything is flushed (Java class `StoreCheckpoint`)."""

from __future__ import annotations

import struct
from typing import NamedTuple

import construct
from construct import Int64sb

from codec.errors import CorruptionError
from codec.layout import Buffer, fused

CHECKPOINT = fused(
    construct.Struct(
        "physic_msg_timestamp" / Int64sb,
        "logics_msg_timestamp" / Int64sb,
        "index_msg_timestamp" / Int64sb,
        "master_flushed_offset" / Int64sb,
        "confirm_phy_offset" / Int64sb,
    )
)
FILE_SIZE = 4096
SAFETY = 3000
"""Recovery starts this much (ms) before the flushed times."""


class Checkpoint(NamedTuple):
    """Store times (ms) of the last flushed record and queue entry and of the last full index file; 5.x adds
    two offsets."""

    physic_msg_timestamp: int = 0
    logics_msg_timestamp: int = 0
    index_msg_timestamp: int = 0
    master_flushed_offset: int = 0
    confirm_phy_offset: int = 0

    @property
    def min_timestamp(self) -> int:
        """Everything stored before is safe in log and queues."""
        return max(min(self.physic_msg_timestamp, self.logics_msg_timestamp) - SAFETY, 0)

    @property
    def min_timestamp_index(self) -> int:
        """Everything stored before is safe in log, queues and index."""
        return min(self.min_timestamp, self.index_msg_timestamp)


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    return CHECKPOINT.pack(*checkpoint).ljust(FILE_SIZE, b"\0")


def decode_checkpoint(data: Buffer) -> Checkpoint:
    """Reads the numbers. Raises CorruptionError when the file is too short for them."""
    try:
        return Checkpoint._make(CHECKPOINT.unpack_from(data, 0))
    except struct.error:
        raise CorruptionError(f"a checkpoint of {len(data)} bytes", len(data)) from None
