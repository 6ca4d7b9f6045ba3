"""Consume queue files: one entry of 20 bytes for each message of a queue (Java class `ConsumeQueue`).

The queue offset of a message is the byte offset of its entry / 20. The tags code is the hash of the tag; in
the schedule topic it is the delivery time (ms); far below any hash it is the address of an extension entry.
An entry is in use when its offset is >= 0 and its size > 0. A queue that does not start at 0 begins with
FILLER entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import construct
from construct import Int16sb, Int32sb, Int64sb

from codec.errors import CorruptionError
from codec.layout import fused

ENTRY = fused(construct.Struct("commit_log_offset" / Int64sb, "size" / Int32sb, "tags_code" / Int64sb))
ENTRY_SIZE = ENTRY.size
FILE_ENTRIES = 300_000
"""Entries of one file by default."""
FILLER_SIZE = 0x7FFFFFFF
FILLER = ENTRY.pack(0, FILLER_SIZE, 0)

BATCH_ENTRY = fused(
    construct.Struct(
        "commit_log_offset" / Int64sb,
        "size" / Int32sb,
        "tags_code" / Int64sb,
        "store_timestamp" / Int64sb,
        "base_offset" / Int64sb,
        "batch_size" / Int16sb,
        "compact_offset" / Int32sb,
        "reserved" / Int32sb,
    )
)
"""46 bytes for a whole batch: queues of the type BatchCQ in 5.x."""


class Entry(NamedTuple):
    commit_log_offset: int
    size: int
    tags_code: int


encode_entry = ENTRY.pack


def is_entry(commit_log_offset: int, size: int) -> bool:
    """Returns False for the zeros behind the last entry (Java's test on recovery)."""
    return commit_log_offset >= 0 and size > 0


def decode_entries(buffer: bytes | bytearray | memoryview) -> Iterator[Entry]:
    """Returns all entries, zeros included. Raises CorruptionError when the length is not a multiple of 20."""
    if len(buffer) % ENTRY_SIZE:
        raise CorruptionError(f"{len(buffer)} bytes are not whole consume queue entries", len(buffer))
    return map(Entry._make, ENTRY.iter_unpack(buffer))
